//! Secrets, hooks and services of the template that a computer was launched from.

use std::sync::Arc;

use super::Runner;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::Result;
use hotdesk_domain::secret::env_file::assignment;
use hotdesk_guest::Guest;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::secrets::UsableSecrets;

impl Runner {
    /// Gives a booted computer the secrets of its template, and begins its hooks and services. It has its own identity by
    /// then, and nobody can reach it yet.
    ///
    /// # Errors
    /// When the store fails, or the agent refuses.
    pub(super) async fn begin_template(&self, row: &Computer, guest: &Guest) -> Result<()> {
        if row.template.is_none() {
            return Ok(());
        }
        if !row.secrets.names.is_empty() {
            guest.put_env_file(&self.env_file(row).await?).await?;
        }
        guest.begin_template().await
    }

    /// The text of the computer's file of secrets. One that was deleted since the launch is left out.
    async fn env_file(&self, row: &Computer) -> Result<Secret> {
        let account = row.secrets.account.then_some(row.owner);
        let usable = UsableSecrets { workspace: row.workspace, account };
        let mut text = String::new();
        for name in &row.secrets.names {
            match self.shared.store.usable_secret(usable, name).await? {
                Some(value) => text.push_str(&assignment(name, value.reveal())),
                None => tracing::warn!(
                    computer = %self.id,
                    secret = %name,
                    "the computer boots without a secret of its template, which is not stored any more"
                ),
            }
        }
        Ok(Secret::new(text))
    }

    /// Runs the hook of a wake, in the background: an agent may not respond.
    pub(super) fn tell_template_of_wake(&self, row: &Computer, guest: &Guest) {
        if row.template.is_none() {
            return;
        }
        let (id, guest) = (self.id, guest.clone());
        let telling = async move {
            if let Err(error) = guest.template_resumed().await {
                tracing::warn!(
                    computer = %id,
                    error = format_args!("{error:#}"),
                    "could not run the hook on_resume of the template"
                );
            }
        };
        let _task = Arc::clone(&self.shared).tasks.spawn("hook of a wake", telling);
    }
}
