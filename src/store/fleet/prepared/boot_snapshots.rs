//! Boot snapshots: machines without a computer, each with a snapshot of a booted desktop.

use crate::fleet::prepared::PreparedMachine;
use crate::vault::SealedText;
use crate::vault::columns::BOOT_TOKEN;
use crate::{Store, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{ComputerId, LayerId, SnapshotId};
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::computer::prepared::DesktopSize;
use hotdesk_domain::computer::prepared::boot_snapshot::RetainedSnapshot;
use hotdesk_domain::error::Result;

/// A complete boot snapshot.
#[derive(Clone, Debug)]
pub struct BootSnapshot {
    /// Its machine.
    pub machine: ComputerId,
    /// The machine's snapshot.
    pub snapshot: SnapshotId,
    /// Token of the agent in its memory.
    pub token: Secret,
}

row! {
    struct BootSnapshotRow {
        machine_id: String,
        snapshot_id: String,
        agent_token: SealedText,
    }
}

row! {
    struct RetainedRow {
        machine_id: String,
        inputs: String,
        ready: i64,
        used_at: i64,
    }
}

impl Store {
    /// Stores a boot snapshot of a machine, before that is made; it is not ready.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails, or already has one of this size and these inputs.
    pub async fn add_boot_snapshot(&self, of: &PreparedMachine, snapshot: SnapshotId) -> Result<()> {
        let mut write = self.write().await?;
        let token = write.vault.seal(&BOOT_TOKEN, of.id, &of.token)?;
        sqlx::query(
            "INSERT INTO boot_snapshots (machine_id, snapshot_id, inputs, size, agent_token, ready, used_at) \
             VALUES ($1, $2, $3, $4, $5, 0, $6)",
        )
        .bind(of.id.to_string())
        .bind(snapshot.to_string())
        .bind(&of.inputs)
        .bind(of.size.as_str())
        .bind(token)
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a boot snapshot"))?;
        write.commit().await
    }

    /// Stores that a boot snapshot is complete, or that a computer began from it.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn use_boot_snapshot(&self, machine: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE boot_snapshots SET ready = 1, used_at = $2 WHERE machine_id = $1")
            .bind(machine.to_string())
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store the use of a boot snapshot"))?;
        write.commit().await
    }

    /// Removes a boot snapshot from the store, before its machine is destroyed.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn remove_boot_snapshot(&self, machine: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM boot_snapshots WHERE machine_id = $1")
            .bind(machine.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a boot snapshot"))?;
        write.commit().await
    }

    /// Returns the complete boot snapshot of this size and these inputs.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails, or the token cannot be opened.
    pub async fn boot_snapshot(&self, inputs: &str, size: &DesktopSize) -> Result<Option<BootSnapshot>> {
        let row: Option<BootSnapshotRow> = sqlx::query_as(
            "SELECT machine_id, snapshot_id, agent_token FROM boot_snapshots \
             WHERE inputs = $1 AND size = $2 AND ready = 1",
        )
        .bind(inputs)
        .bind(size.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("look for a boot snapshot"))?;
        let Some(row) = row else { return Ok(None) };
        let machine = id(&row.machine_id)?;
        let token = self.vault.open(&BOOT_TOKEN, machine, &row.agent_token)?;
        Ok(Some(BootSnapshot { machine, snapshot: id(&row.snapshot_id)?, token }))
    }

    /// Returns the machines of the boot snapshots above a layer of a template.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn boot_snapshots_above(&self, layer: LayerId) -> Result<Vec<ComputerId>> {
        let rows: Vec<(String,)> =
            sqlx::query_as("SELECT machine_id FROM boot_snapshots WHERE size LIKE $1 ORDER BY machine_id")
                .bind(format!("%, layer {layer}%"))
                .fetch_all(&self.pool)
                .await
                .map_err(failed("list the boot snapshots of a layer"))?;
        rows.iter().map(|(machine,)| id(machine)).collect()
    }

    /// Returns the machine of each boot snapshot, complete or not, with what its retention depends on.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn boot_snapshots(&self) -> Result<Vec<(ComputerId, RetainedSnapshot)>> {
        let rows: Vec<RetainedRow> = sqlx::query_as(
            "SELECT machine_id, inputs, ready, used_at FROM boot_snapshots ORDER BY machine_id",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list the boot snapshots"))?;
        let retained = |row: RetainedRow| {
            let used_at = UnixMillis::new(row.used_at);
            Ok((
                id(&row.machine_id)?,
                RetainedSnapshot { inputs: row.inputs, ready: row.ready != 0, used_at },
            ))
        };
        rows.into_iter().map(retained).collect()
    }
}
