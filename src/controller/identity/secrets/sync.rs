//! Secrets on a computer: the file that sets them as shell variables.

use super::Secrets;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::secret::SecretName;
use hotdesk_domain::secret::env_file::{MAX_BYTES, assignment};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::secrets::UsableSecrets;
use hotdesk_wire::identity::secret::SyncResult;

impl Secrets {
    /// Gives a computer the named secrets, or all usable ones. They replace those that it has. A computer
    /// that sleeps is woken.
    ///
    /// # Errors
    /// `NotFound` (`secret_not_found`) for a name that is not usable; `TooLarge` when the file would have
    /// more than [`MAX_BYTES`] bytes; those of [`Fleet::guest`](crate::computers::fleet::Fleet::guest) and of
    /// [`Guest::put_env_file`](hotdesk_guest::Guest::put_env_file). The computer keeps what it has then.
    pub async fn sync(
        &self,
        computer: &Computer,
        usable: UsableSecrets,
        names: Option<Vec<SecretName>>,
    ) -> Result<SyncResult> {
        let mut names = match names {
            Some(names) => names,
            None => self.store.usable_secret_names(usable).await?,
        };
        names.sort_unstable();
        names.dedup();
        let mut text = String::new();
        for name in &names {
            text.push_str(&assignment(name, self.value(usable, name).await?.reveal()));
            if text.len() > MAX_BYTES {
                return Err(Error::too_large(format!(
                    "The secrets of the computer would have more than {MAX_BYTES} bytes: choose fewer with names"
                )));
            }
        }
        let guest = self.fleet.guest(computer).await?;
        let file = guest.put_env_file(&Secret::new(text)).await?;
        Ok(SyncResult { path: file.path, names: names.iter().map(ToString::to_string).collect() })
    }
}
