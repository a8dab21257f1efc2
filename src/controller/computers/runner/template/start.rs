//! Secrets, hooks and services of the template that a computer was launched from.

use std::sync::Arc;

use crate::computers::runner::Runner;
use crate::computers::runner::creation::MachineSource;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Kind, Result};
use hotdesk_domain::secret::env_file::{MAX_BYTES, assignment};
use hotdesk_guest::Guest;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::secrets::UsableSecrets;
use hotdesk_wire::programs::service::BeginTemplate;

impl Runner {
    /// Gives a new computer the secrets of its template, and begins its hooks and services. It has its own identity by
    /// then, and nobody can reach it yet.
    ///
    /// # Errors
    /// When the store fails, or the agent refuses. A copy goes on without secrets that cannot be written: its disk is as its
    /// user left it. The memory of a copy may have an agent from before templates.
    pub(in crate::computers::runner) async fn begin_new_template(
        &self,
        row: &Computer,
        guest: &Guest,
        from: MachineSource,
    ) -> Result<()> {
        match from {
            MachineSource::Empty { .. } if row.template.is_some() => {
                self.write_secrets(row, guest).await?;
                guest.begin_template(BeginTemplate::default()).await
            }
            MachineSource::Empty { .. } | MachineSource::Disk(_) => self.begin_template(row, guest).await,
            MachineSource::Memory(..) => match self.begin_template(row, guest).await {
                Err(error) if error.kind == Kind::NotFound => Ok(()),
                begun => begun,
            },
        }
    }

    /// Does the same at a later boot. Secrets that cannot be written do not keep it from its user.
    ///
    /// # Errors
    /// When the agent does not begin them.
    pub(in crate::computers::runner) async fn begin_template(
        &self,
        row: &Computer,
        guest: &Guest,
    ) -> Result<()> {
        if row.template.is_none() {
            return Ok(());
        }
        if let Err(error) = self.write_secrets(row, guest).await {
            tracing::warn!(
                computer = %self.id,
                error = format_args!("{error:#}"),
                "the computer boots without the secrets of its template"
            );
        }
        guest.begin_template(BeginTemplate::default()).await
    }

    async fn write_secrets(&self, row: &Computer, guest: &Guest) -> Result<()> {
        if row.secrets.names.is_empty() {
            return Ok(());
        }
        guest.put_env_file(&self.env_file(row).await?).await.map(drop)
    }

    /// The text of the computer's file of secrets. One that was deleted since the launch is left out, and so is one for
    /// which there is no space any more.
    async fn env_file(&self, row: &Computer) -> Result<Secret> {
        let account = row.secrets.account.then_some(row.owner);
        let usable = UsableSecrets { workspace: row.workspace, account };
        let mut text = String::new();
        for name in &row.secrets.names {
            let value = self.shared.store.usable_secret(usable, name).await?;
            let line = value.map(|value| assignment(name, value.reveal()));
            match line.filter(|line| text.len() + line.len() <= MAX_BYTES) {
                Some(line) => text.push_str(&line),
                None => tracing::warn!(
                    computer = %self.id,
                    secret = %name,
                    "the computer boots without a secret of its template, which is not stored any more or too long"
                ),
            }
        }
        Ok(Secret::new(text))
    }

    /// Runs the hook of a wake, in the background: an agent may not respond.
    pub(in crate::computers::runner) fn tell_template_of_wake(&self, row: &Computer, guest: &Guest) {
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
