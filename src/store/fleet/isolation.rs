//! Isolation of computers: changes, and what rows of earlier versions get.

use crate::fleet::changes::RecordChange;
use crate::{Store, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::error::{Error, Result};

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
        write.note(RecordChange::Computer(computer));
        write.commit().await
    }

    /// Gives all computers the only isolation that the host offers. With several (`None`) each keeps its own.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails, or a computer of an earlier version has no isolation although the
    /// host offers several; nothing is changed then.
    pub async fn adopt_isolation(&self, only: Option<Isolation>) -> Result<()> {
        let mut write = self.write().await?;
        let Some(only) = only else {
            let unknown: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM computers WHERE isolation IS NULL")
                .fetch_one(&mut *write.tx)
                .await
                .map_err(failed("look for computers without an isolation"))?;
            if unknown == 0 {
                return Ok(());
            }
            return Err(Error::failed(format!(
                "{unknown} computers of an earlier version have no isolation: start this version once with \
                 engines.offered = that of their engine (shared for runc, sandbox for runsc, vm for QEMU), then list several"
            )));
        };
        sqlx::query("UPDATE computers SET isolation = $1 WHERE isolation IS NULL OR isolation <> $1")
            .bind(only.name())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("adopt the isolation of computers"))?;
        write.commit().await
    }
}
