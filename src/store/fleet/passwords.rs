//! Passwords of computers' screens and sockets. Only the controller checks them, so they can change while the
//! computer runs.

use sha2::{Digest, Sha256};

use crate::fleet::changes::RecordChange;
use crate::fleet::computers::Computer;
use crate::fleet::status::BootSecrets;
use crate::vault::SealedText;
use crate::vault::columns::VNC_PASSWORD;
use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{ComputerId, WorkspaceId};
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::Result;

/// SHA-256 of a computer's password at some time; the key of leases on sockets that it opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PasswordDigest {
    /// The computer.
    pub computer: ComputerId,
    digest: [u8; 32],
}

impl PasswordDigest {
    /// Returns the digest of a computer's password.
    pub fn of(computer: ComputerId, password: &Secret) -> Self {
        Self { computer, digest: Sha256::digest(password.reveal().as_bytes()).into() }
    }
}

impl Computer {
    /// Returns the digest of its current password.
    pub fn password_digest(&self) -> PasswordDigest {
        PasswordDigest::of(self.id, &self.vnc_password)
    }
}

impl Store {
    /// Whether a computer outside of this workspace has this password. All passwords are compared in full, so
    /// that the time reveals nothing (A79, docs/authentication-rules.md); a thousand take a few milliseconds.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn is_password_outside(&self, shown: &str, workspace: Option<WorkspaceId>) -> Result<bool> {
        let sealed: Vec<(String, SealedText)> =
            sqlx::query_as("SELECT id, vnc_password FROM computers WHERE workspace_id <> $1")
                // No workspace has an empty id.
                .bind(workspace.map(|id| id.to_string()).unwrap_or_default())
                .fetch_all(&self.pool)
                .await
                .map_err(failed("compare a password"))?;
        let mut matching = 0;
        for (computer, password) in &sealed {
            matching += u32::from(self.vault.open(&VNC_PASSWORD, computer, password)?.matches(shown));
        }
        Ok(matching > 0)
    }

    /// Revokes the leases of previous passwords. Runs after the commit.
    pub(crate) fn end_password_sessions(&self, before: &[PasswordDigest]) {
        before.iter().for_each(|pass| self.passwords.revoke(pass));
    }
}

impl Write {
    /// Changes the password of each computer of a workspace, in any status; returns the previous ones.
    pub(crate) async fn change_passwords(&mut self, workspace: WorkspaceId) -> Result<Vec<PasswordDigest>> {
        let rows: Vec<(String, SealedText)> =
            sqlx::query_as("SELECT id, vnc_password FROM computers WHERE workspace_id = $1")
                .bind(workspace.to_string())
                .fetch_all(&mut *self.tx)
                .await
                .map_err(failed("read a workspace's passwords"))?;
        let mut before = Vec::with_capacity(rows.len());
        for (computer, password) in rows {
            let password = self.vault.open(&VNC_PASSWORD, &computer, &password)?;
            let pass = PasswordDigest::of(id(&computer)?, &password);
            self.change_password(pass.computer).await?;
            before.push(pass);
        }
        Ok(before)
    }

    /// Changes the password of a computer.
    pub(crate) async fn change_password(&mut self, computer: ComputerId) -> Result<()> {
        sqlx::query("UPDATE computers SET vnc_password = $2, updated_at = $3 WHERE id = $1")
            .bind(computer.to_string())
            .bind(self.vault.seal(&VNC_PASSWORD, computer, &BootSecrets::password())?)
            .bind(clock::now().as_i64())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("change a computer's password"))?;
        self.note(RecordChange::Computer(computer));
        Ok(())
    }
}
