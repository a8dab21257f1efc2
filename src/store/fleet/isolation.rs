//! Isolation of computers: changes, and what rows of earlier versions get.

use crate::{Store, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::error::Result;

impl Store {
    /// Sets the isolation of a computer, for its next start. The caller has checked the change
    /// ([`check_isolation_change`](hotdesk_domain::computer::isolation::check_isolation_change)).
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn set_isolation(&self, computer: ComputerId, isolation: Isolation) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET isolation = $2, updated_at = $3 WHERE id = $1")
            .bind(computer.to_string())
            .bind(isolation.name())
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("set the isolation"))?;
        write.commit().await
    }

    /// Gives the isolation `default` to computers of earlier versions, which have none. With `is_only`, when the host
    /// offers no other, all computers get it.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn adopt_isolation(&self, default: Isolation, is_only: bool) -> Result<()> {
        let mut write = self.write().await?;
        let adopted = if is_only {
            sqlx::query("UPDATE computers SET isolation = $1 WHERE isolation IS NULL OR isolation <> $1")
        } else {
            sqlx::query("UPDATE computers SET isolation = $1 WHERE isolation IS NULL")
        };
        adopted
            .bind(default.name())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("adopt the isolation of computers"))?;
        write.commit().await
    }
}
