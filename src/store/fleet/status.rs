//! What is each computer doing? Statuses are intents before a step and outcomes after it; every boot has a generation and
//! secrets of its own.

use super::{Store, Write, failed};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::Result;
use hotdesk_domain::lifecycle::Status;

/// What a boot changes in a row: the next generation with fresh secrets.
#[derive(Clone, Debug)]
pub(super) struct BootSecrets {
    /// The new agent token.
    pub(super) agent_token: Secret,
    /// The new password.
    pub(super) vnc_password: Secret,
}

impl BootSecrets {
    /// Characters of an agent token: 43 of base62 are 256 bits (threats.md design 4).
    const TOKEN_CHARACTERS: usize = 43;
    /// Characters of a VNC password: 16 of base62; RFB looks at 8 of them, 47 bits (threats.md design 5).
    const PASSWORD_CHARACTERS: usize = 16;

    /// Fresh secrets.
    pub(super) fn random() -> Self {
        Self { agent_token: Secret::random(Self::TOKEN_CHARACTERS), vnc_password: Self::password() }
    }

    /// A fresh password, without a boot.
    pub(super) fn password() -> Secret {
        Secret::random(Self::PASSWORD_CHARACTERS)
    }
}

impl Store {
    /// Sets a computer's status: the intent before a step, or its outcome. Only one that is suspended has memory that
    /// may know an older token.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_status(&self, computer: ComputerId, status: Status) -> Result<()> {
        let mut write = self.write().await?;
        write.status(computer, status).await?;
        write.commit().await
    }

    /// As [`Store::set_status`], with why the service does that by itself. It is told until the computer runs again.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_status_because(
        &self,
        computer: ComputerId,
        status: Status,
        reason: &'static str,
    ) -> Result<()> {
        let mut write = self.write().await?;
        write.status(computer, status).await?;
        sqlx::query("UPDATE computers SET status_reason = $2 WHERE id = $1")
            .bind(computer.to_string())
            .bind(reason)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store why a status is set"))?;
        write.commit().await
    }

    /// Stores the intent of a boot from disk: its status, the next generation and fresh secrets (wire.md 5.2: a restart
    /// rotates the password).
    ///
    /// # Errors
    /// When the store fails.
    pub async fn begin_boot(&self, computer: ComputerId, status: Status) -> Result<()> {
        let mut write = self.write().await?;
        write.next_boot(computer, status).await?;
        write.commit().await
    }

    /// Stores the intent to go on from saved memory: as [`Store::begin_boot`] with `starting`, and the token that the
    /// memory knows is kept until its agent has taken the new one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn begin_resume(&self, computer: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        write.next_wake(computer).await?;
        write.commit().await
    }
}

impl Write {
    /// The next generation with fresh secrets, under this status.
    pub(super) async fn next_boot(&mut self, computer: ComputerId, status: Status) -> Result<()> {
        self.begin(computer, status, "NULL").await?;
        self.forget_stream_end(computer).await
    }

    /// The next generation with fresh secrets, on its way up from saved memory.
    pub(super) async fn next_wake(&mut self, computer: ComputerId) -> Result<()> {
        // The right-hand side is of the row before; a resume that is tried again keeps the first one's.
        self.begin(computer, Status::Starting, "COALESCE(saved_token, agent_token)").await
    }

    async fn begin(&mut self, computer: ComputerId, status: Status, saved_token: &'static str) -> Result<()> {
        let secrets = BootSecrets::random();
        sqlx::query(sqlx::AssertSqlSafe(format!(
            "UPDATE computers SET status = $2, generation = generation + 1, saved_token = {saved_token}, rollback_to = NULL, \
             status_reason = NULL, agent_token = $3, vnc_password = $4, updated_at = $5 WHERE id = $1"
        )))
        .bind(computer.to_string())
        .bind(status.name())
        .bind(secrets.agent_token.reveal())
        .bind(secrets.vnc_password.reveal())
        .bind(now_ms())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("store the intent to boot"))?;
        self.meter(computer).await
    }

    /// See [`Store::set_status`].
    pub(super) async fn status(&mut self, computer: ComputerId, status: Status) -> Result<()> {
        sqlx::query(
            "UPDATE computers SET status = $2, updated_at = $3, rollback_to = NULL, \
             status_reason = CASE WHEN $2 = 'running' THEN NULL ELSE status_reason END, \
             saved_token = CASE WHEN $2 = 'suspended' THEN saved_token ELSE NULL END WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(status.name())
        .bind(now_ms())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("set a status"))?;
        self.meter(computer).await
    }
}
