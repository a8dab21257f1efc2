//! Sizes of computers and resizes. Target and outcome of a resize are stored with the row, so that recovery
//! after a crash knows both sizes.

use crate::fleet::changes::RecordChange;
use crate::fleet::computers::Computer;
use crate::{Store, Write, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, ComputerId};
use hotdesk_domain::computer::Hardware;
use hotdesk_domain::computer::allowance::ResourceUse;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::desktop::resolution::{Resolution, Size};
use hotdesk_domain::error::Result;

/// Resources of an account's computers except one. A resize or rollback in progress counts with the larger
/// size. The last column has the bytes of all snapshots, those of the excepted computer included, and of the layers of
/// the account's templates. SUM of BIGINT is NUMERIC in PostgreSQL, hence the casts.
const USED: &str = "SELECT COUNT(*), \
    CAST(COALESCE(SUM((SELECT MAX(size.gb) FROM (SELECT c.ram_gb AS gb UNION ALL SELECT c.wanted_ram_gb UNION ALL \
        SELECT s.ram_gb FROM snapshots s WHERE s.id = c.rollback_to) size)), 0) AS BIGINT), \
    CAST(COALESCE(SUM(CASE WHEN c.wanted_disk_gb > c.disk_gb THEN c.wanted_disk_gb ELSE c.disk_gb END), 0) AS BIGINT), \
    (SELECT CAST(COALESCE(SUM(s.bytes), 0) AS BIGINT) FROM snapshots s JOIN computers k ON k.id = s.computer_id \
    JOIN workspaces v ON v.id = k.workspace_id WHERE v.account_id = $1) \
    + (SELECT CAST(COALESCE(SUM(l.bytes), 0) AS BIGINT) FROM template_layers l WHERE l.account_id = $1) \
    FROM computers c JOIN workspaces w ON w.id = c.workspace_id \
    WHERE w.account_id = $1 AND c.id <> $2";

fn used((computers, ram_gb, disk_gb, snapshots): (i64, i64, i64, i64)) -> ResourceUse {
    let bounded = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
    let disk_gb = bounded(disk_gb).saturating_add(bounded(whole_gb(snapshots)));
    ResourceUse { computers: bounded(computers), ram_gb: bounded(ram_gb), disk_gb }
}

/// Returns bytes in GB, rounded up.
fn whole_gb(bytes: i64) -> i64 {
    bytes.saturating_add((1 << 30) - 1) >> 30
}

impl Write {
    /// Returns the resources of an account without one computer, which may not be stored yet.
    pub(crate) async fn resource_use_besides(
        &mut self,
        account: AccountId,
        but: ComputerId,
    ) -> Result<ResourceUse> {
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
    /// Returns the resources of a computer's owner without that computer.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn resource_use_besides(&self, computer: &Computer) -> Result<ResourceUse> {
        self.resource_use_without(computer.owner, computer.id).await
    }

    /// Returns the resources of an account.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn resource_use(&self, account: AccountId) -> Result<ResourceUse> {
        // A random id excludes no computer.
        self.resource_use_without(account, ComputerId::random()).await
    }

    async fn resource_use_without(&self, account: AccountId, but: ComputerId) -> Result<ResourceUse> {
        let row = sqlx::query_as(USED)
            .bind(account.to_string())
            .bind(but.to_string())
            .fetch_one(&self.pool)
            .await
            .map_err(failed("add up an account's computers"))?;
        Ok(used(row))
    }

    /// Stores the size of a computer's boot screen as that of its resolution.
    ///
    /// # Errors
    /// `NotFound` when the computer does not exist; `Unavailable` or `Internal` when the store fails. Nothing
    /// is changed then.
    pub async fn set_screen_size(&self, computer: ComputerId, size: Size) -> Result<()> {
        let mut write = self.write().await?;
        let now = write.computer(computer).await?.hardware.resolution;
        if now.size == size {
            return Ok(());
        }
        sqlx::query("UPDATE computers SET resolution = $2, updated_at = $3 WHERE id = $1")
            .bind(computer.to_string())
            .bind(Resolution { size, ..now }.to_string())
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store a resolution"))?;
        write.note(RecordChange::Computer(computer));
        write.commit().await
    }

    /// Stores the target of a resize. `plan` derives it from the current size and the resources of the
    /// owner's other computers, in one transaction, so that two resizes cannot take the same last GB (T23,
    /// docs/security.md). The current size is the target of an unfinished resize. Returns the target; it is
    /// not stored when the computer has that size already.
    ///
    /// # Errors
    /// Those of `plan`; `NotFound` when the computer does not exist; `Unavailable` or `Internal` when the
    /// store fails. Nothing is changed then.
    pub async fn intend_hardware(
        &self,
        computer: ComputerId,
        plan: impl FnOnce(&Hardware, &ResourceUse) -> Result<Hardware> + Send,
    ) -> Result<Hardware> {
        let mut write = self.write().await?;
        let row = write.computer(computer).await?;
        let others = write.resource_use_besides(row.owner, computer).await?;
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
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a resize's target"))?;
        write.note(RecordChange::Computer(computer));
        write.commit().await?;
        Ok(target)
    }

    /// Stores the outcome of a resize: the size that the computer has, or gets with the boot whose target
    /// status `boot` is stored along.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; the target stays stored then.
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
        .bind(clock::now().as_i64())
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
