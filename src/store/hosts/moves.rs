//! Hosts of computers, and moves between them.

use crate::fleet::changes::RecordChange;
use crate::{Store, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::error::Result;

impl Store {
    /// Stores the host of a computer; `None` when it is unknown.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn set_host(&self, computer: ComputerId, host: Option<&str>) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET host = $2 WHERE id = $1")
            .bind(computer.to_string())
            .bind(host)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store the host of a computer"))?;
        write.note(RecordChange::Computer(computer));
        write.commit().await
    }

    /// Stores the target of a move, and the status during it. Storing any other status, or [`Store::end_move`], ends the
    /// move.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn begin_move(&self, computer: ComputerId, to: &str, status: Status) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET status = $2, move_to = $3, updated_at = $4 WHERE id = $1")
            .bind(computer.to_string())
            .bind(status.name())
            .bind(to)
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store the target of a move"))?;
        write.meter(computer).await?;
        write.commit().await
    }

    /// Ends the move of a computer that did not run. Its status stays.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn end_move(&self, computer: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET move_to = NULL, updated_at = $2 WHERE id = $1")
            .bind(computer.to_string())
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("end a move"))?;
        write.note(RecordChange::Computer(computer));
        write.commit().await
    }
}
