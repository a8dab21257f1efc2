//! What opens a computer's screens and sockets? Its password: the controller's alone, its agent has a token of its own. So it
//! can become another one while the computer runs, which is not told of it.

use sha2::{Digest, Sha256};

use super::computers::Computer;
use super::status::BootSecrets;
use super::{Store, Write, failed, id};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{ComputerId, WorkspaceId};
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::Result;

/// A computer's password at some time, as its SHA-256: what whoever came in by it holds, and loses with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pass {
    /// The computer.
    pub computer: ComputerId,
    digest: [u8; 32],
}

impl Pass {
    /// A computer's password.
    pub fn of(computer: ComputerId, password: &Secret) -> Self {
        Self { computer, digest: Sha256::digest(password.reveal().as_bytes()).into() }
    }
}

impl Computer {
    /// What opens it now.
    pub fn pass(&self) -> Pass {
        Pass::of(self.id, &self.vnc_password)
    }
}

impl Store {
    /// Whether a computer outside of this workspace has this password. All are compared, each as a whole, so that how long
    /// it takes tells nothing of any (access.md A79); a thousand take a millisecond.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn is_password_outside(&self, shown: &str, workspace: WorkspaceId) -> Result<bool> {
        let passwords: Vec<(String,)> =
            sqlx::query_as("SELECT vnc_password FROM computers WHERE workspace_id <> $1")
                .bind(workspace.to_string())
                .fetch_all(&self.pool)
                .await
                .map_err(failed("compare a password"))?;
        let matching = passwords.into_iter().filter(|(password,)| Secret::new(password).matches(shown));
        Ok(matching.count() > 0)
    }

    /// Ends what is open by passwords of before; to be called once they are.
    pub(super) fn end_passes(&self, before: &[Pass]) {
        before.iter().for_each(|pass| self.passes.end(pass));
    }
}

impl Write {
    /// Gives each computer of a workspace another password, whatever its status; what opened them before.
    pub(super) async fn change_passwords(&mut self, workspace: WorkspaceId) -> Result<Vec<Pass>> {
        let rows: Vec<(String, String)> =
            sqlx::query_as("SELECT id, vnc_password FROM computers WHERE workspace_id = $1")
                .bind(workspace.to_string())
                .fetch_all(&mut *self.tx)
                .await
                .map_err(failed("read a workspace's passwords"))?;
        let mut before = Vec::with_capacity(rows.len());
        for (computer, password) in rows {
            let pass = Pass::of(id(&computer)?, &Secret::new(password));
            self.change_password(pass.computer).await?;
            before.push(pass);
        }
        Ok(before)
    }

    /// Gives a computer another password.
    pub(super) async fn change_password(&mut self, computer: ComputerId) -> Result<()> {
        sqlx::query("UPDATE computers SET vnc_password = $2, updated_at = $3 WHERE id = $1")
            .bind(computer.to_string())
            .bind(BootSecrets::password().reveal())
            .bind(now_ms())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("change a computer's password"))?;
        Ok(())
    }
}
