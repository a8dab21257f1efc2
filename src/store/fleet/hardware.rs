//! What size has each computer, and what size shall it get? The intent of a resize and its outcome are stored with the
//! row, so that a crash in between leaves both sizes to go on from.

use super::{Store, Write, failed};
use crate::computers::Computer;
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, ComputerId};
use hotdesk_domain::allowance::Used;
use hotdesk_domain::computer::Hardware;
use hotdesk_domain::error::Result;
use hotdesk_domain::lifecycle::Status;

/// What an account's computers hold but for one; a resize and a rollback under way hold the larger size, and snapshots, the
/// one's too, what they take (in the last column). SUM of BIGINT is NUMERIC in PostgreSQL, hence the casts.
const USED: &str = "SELECT COUNT(*), \
    CAST(COALESCE(SUM((SELECT MAX(size.gb) FROM (SELECT c.ram_gb AS gb UNION ALL SELECT c.wanted_ram_gb UNION ALL \
        SELECT s.ram_gb FROM snapshots s WHERE s.id = c.rollback_to) size)), 0) AS BIGINT), \
    CAST(COALESCE(SUM(CASE WHEN c.wanted_disk_gb > c.disk_gb THEN c.wanted_disk_gb ELSE c.disk_gb END), 0) AS BIGINT), \
    (SELECT CAST(COALESCE(SUM(s.bytes), 0) AS BIGINT) FROM snapshots s JOIN computers k ON k.id = s.computer_id \
    JOIN workspaces v ON v.id = k.workspace_id WHERE v.account_id = $1) \
    FROM computers c JOIN workspaces w ON w.id = c.workspace_id \
    WHERE w.account_id = $1 AND c.id <> $2";

fn used((computers, ram_gb, disk_gb, snapshots): (i64, i64, i64, i64)) -> Used {
    let bounded = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
    let disk_gb = bounded(disk_gb).saturating_add(bounded(whole_gb(snapshots)));
    Used { computers: bounded(computers), ram_gb: bounded(ram_gb), disk_gb }
}

/// GB that hold so many bytes.
fn whole_gb(bytes: i64) -> i64 {
    bytes.saturating_add((1 << 30) - 1) >> 30
}

impl Write {
    /// What an account holds, but for one computer (which may be one that is yet to be stored).
    pub(super) async fn used_beside(&mut self, account: AccountId, but: ComputerId) -> Result<Used> {
        let row = sqlx::query_as(USED)
            .bind(account.to_string())
            .bind(but.to_string())
            .fetch_one(&mut *self.tx)
            .await
            .map_err(failed("add up an account's computers"))?;
        Ok(used(row))
    }
}

impl Store {
    /// What the owner of a computer holds besides it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn used_beside(&self, computer: &Computer) -> Result<Used> {
        self.used_but(computer.owner, computer.id).await
    }

    /// What an account holds.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn used(&self, account: AccountId) -> Result<Used> {
        // No computer is left out.
        self.used_but(account, ComputerId::random()).await
    }

    async fn used_but(&self, account: AccountId, but: ComputerId) -> Result<Used> {
        let row = sqlx::query_as(USED)
            .bind(account.to_string())
            .bind(but.to_string())
            .fetch_one(&self.pool)
            .await
            .map_err(failed("add up an account's computers"))?;
        Ok(used(row))
    }

    /// Stores the intent of a resize: `plan` makes the wanted size of the current one and of what the owner's other
    /// computers hold, in one transaction, so that two resizes cannot take the same last GB (threats.md T23). The
    /// current size is the one that an unfinished resize was to lead to. Returns the wanted size; one that the computer
    /// has already is not stored.
    ///
    /// # Errors
    /// `plan`'s; `NotFound` when the computer is gone; or the store fails.
    pub async fn intend_hardware(
        &self,
        computer: ComputerId,
        plan: impl FnOnce(&Hardware, &Used) -> Result<Hardware> + Send,
    ) -> Result<Hardware> {
        let mut write = self.write().await?;
        let row = write.computer(computer).await?;
        let others = write.used_beside(row.owner, computer).await?;
        let target = plan(&row.wanted.unwrap_or(row.hardware), &others)?;
        if target == row.hardware && row.wanted.is_none() {
            return Ok(target);
        }
        sqlx::query(
            "UPDATE computers SET wanted_cpu = $2, wanted_ram_gb = $3, wanted_disk_gb = $4, \
             wanted_bandwidth_mbps = $5, updated_at = $6 WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(target.cpu)
        .bind(i64::from(target.ram_gb))
        .bind(i64::from(target.disk_gb))
        .bind(i64::from(target.bandwidth_mbps))
        .bind(now_ms())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store the intent to resize"))?;
        write.commit().await?;
        Ok(target)
    }

    /// Stores the outcome of a resize: the size that the computer has, or that its machine gets with the boot whose
    /// intent `boot` is stored along with it.
    ///
    /// # Errors
    /// When the store fails; the intent stays then.
    pub async fn settle_hardware(
        &self,
        computer: ComputerId,
        size: &Hardware,
        boot: Option<Status>,
    ) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query(
            "UPDATE computers SET cpu = $2, ram_gb = $3, disk_gb = $4, bandwidth_mbps = $5, wanted_cpu = NULL, \
             wanted_ram_gb = NULL, wanted_disk_gb = NULL, wanted_bandwidth_mbps = NULL, updated_at = $6 WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(size.cpu)
        .bind(i64::from(size.ram_gb))
        .bind(i64::from(size.disk_gb))
        .bind(i64::from(size.bandwidth_mbps))
        .bind(now_ms())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store the outcome of a resize"))?;
        if let Some(status) = boot {
            write.next_boot(computer, status).await?;
        }
        write.meter(computer).await?;
        write.commit().await
    }
}
