//! Statuses and boots of computers. A status is stored before a step, its outcome afterwards. Every boot has
//! a generation and new secrets.

use crate::vault::columns::{AGENT_TOKEN, SAVED_TOKEN, VNC_PASSWORD};
use crate::{Store, Write, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::computer::status_reason::StatusReason;
use hotdesk_domain::error::Result;

/// Secrets of a boot, new with each generation.
#[derive(Clone, Debug)]
pub(crate) struct BootSecrets {
    /// The new agent token.
    pub(crate) agent_token: Secret,
    /// The new password.
    pub(crate) vnc_password: Secret,
}

impl BootSecrets {
    /// Length of an agent token: 43 base62 characters are 256 bits (D4, docs/security.md).
    const TOKEN_CHARACTERS: usize = 43;
    /// Length of a VNC password in base62 characters; RFB uses 8 of them, 47 bits (D5, docs/security.md).
    const PASSWORD_CHARACTERS: usize = 16;

    /// Returns random secrets.
    pub(crate) fn random() -> Self {
        Self { agent_token: Secret::random(Self::TOKEN_CHARACTERS), vnc_password: Self::password() }
    }

    /// Returns a random password, for a change without a boot.
    pub(crate) fn password() -> Secret {
        Secret::random(Self::PASSWORD_CHARACTERS)
    }
}

impl Store {
    /// Sets a computer's status, before a step or after it. Clears the token of the saved memory unless the
    /// computer is suspended.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn set_status(&self, computer: ComputerId, status: Status) -> Result<()> {
        let mut write = self.write().await?;
        write.status(computer, status).await?;
        write.commit().await
    }

    /// Sets a computer's status with the reason for which the service changes it; `None` when a client does.
    /// The reason stays until the computer runs again.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn set_status_because(
        &self,
        computer: ComputerId,
        status: Status,
        reason: Option<StatusReason>,
    ) -> Result<()> {
        let mut write = self.write().await?;
        write.status(computer, status).await?;
        sqlx::query("UPDATE computers SET status_reason = $2 WHERE id = $1")
            .bind(computer.to_string())
            .bind(reason.map(StatusReason::name))
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store the reason of a status"))?;
        write.commit().await
    }

    /// Stores the start of a boot from disk: its status, the next generation and new secrets. A restart
    /// thereby rotates the password (docs/lifecycle.md).
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn begin_boot(&self, computer: ComputerId, status: Status) -> Result<()> {
        let mut write = self.write().await?;
        write.next_boot(computer, status).await?;
        write.commit().await
    }

    /// Stores the start of a resume from saved memory: like [`Store::begin_boot`] with `starting`. The token
    /// in the memory stays stored until its agent has the new one.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn begin_resume(&self, computer: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        write.next_wake(computer).await?;
        write.commit().await
    }
}

impl Write {
    /// Starts the next generation with new secrets and this status.
    pub(crate) async fn next_boot(&mut self, computer: ComputerId, status: Status) -> Result<()> {
        self.begin(computer, status, None).await?;
        self.discard_stream_end(computer).await
    }

    /// Starts the next generation with new secrets, by a resume from saved memory.
    pub(crate) async fn next_wake(&mut self, computer: ComputerId) -> Result<()> {
        let row = self.computer(computer).await?;
        // A retried resume keeps the token of the first one.
        let saved = row.saved_token.unwrap_or(row.agent_token);
        self.begin(computer, Status::Starting, Some(&saved)).await
    }

    /// Starts the next generation; `saved_token` is the one in the memory from which it starts.
    async fn begin(
        &mut self,
        computer: ComputerId,
        status: Status,
        saved_token: Option<&Secret>,
    ) -> Result<()> {
        let secrets = BootSecrets::random();
        let saved_token =
            saved_token.map(|token| self.vault.seal(&SAVED_TOKEN, computer, token)).transpose()?;
        sqlx::query(
            "UPDATE computers SET status = $2, generation = generation + 1, saved_token = $3, rollback_to = NULL, \
             move_to = NULL, status_reason = NULL, agent_token = $4, vnc_password = $5, updated_at = $6 \
             WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(status.name())
        .bind(saved_token)
        .bind(self.vault.seal(&AGENT_TOKEN, computer, &secrets.agent_token)?)
        .bind(self.vault.seal(&VNC_PASSWORD, computer, &secrets.vnc_password)?)
        .bind(clock::now().as_i64())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("store the start of a boot"))?;
        self.meter(computer).await
    }

    /// See [`Store::set_status`].
    pub(crate) async fn status(&mut self, computer: ComputerId, status: Status) -> Result<()> {
        sqlx::query(
            "UPDATE computers SET status = $2, updated_at = $3, rollback_to = NULL, move_to = NULL, \
             status_reason = CASE WHEN $2 = 'running' THEN NULL ELSE status_reason END, \
             saved_token = CASE WHEN $2 = 'suspended' THEN saved_token ELSE NULL END WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(status.name())
        .bind(clock::now().as_i64())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("set a status"))?;
        self.meter(computer).await
    }
}
