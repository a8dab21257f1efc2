//! Machines of the pool: booted, without a computer.

use crate::fleet::prepared::PreparedMachine;
use crate::vault::SealedText;
use crate::vault::columns::{POOL_TOKEN, SAVED_TOKEN};
use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::Result;

/// A machine of the pool.
#[derive(Clone, Debug)]
pub struct StoredMachine {
    /// Its id.
    pub machine: ComputerId,
    /// Digest of what its boot depended on besides the size.
    pub inputs: String,
    /// Text of its size ([`DesktopSize`](hotdesk_domain::computer::prepared::DesktopSize)).
    pub size: String,
    /// Whether it is booted.
    pub ready: bool,
    /// When its boot began.
    pub made_at: UnixMillis,
}

row! {
    struct StoredRow {
        machine_id: String,
        inputs: String,
        size: String,
        ready: i64,
        made_at: i64,
    }
}

impl Store {
    /// Stores a machine of the pool before it is made; it is not ready.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn add_pooled_machine(&self, new: &PreparedMachine) -> Result<()> {
        let mut write = self.write().await?;
        let token = write.vault.seal(&POOL_TOKEN, new.id, &new.token)?;
        sqlx::query(
            "INSERT INTO pooled_machines (machine_id, inputs, size, agent_token, ready, made_at) \
             VALUES ($1, $2, $3, $4, 0, $5)",
        )
        .bind(new.id.to_string())
        .bind(&new.inputs)
        .bind(new.size.as_str())
        .bind(token)
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a machine of the pool"))?;
        write.commit().await
    }

    /// Stores that a machine of the pool is booted: creates may claim it.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn finish_pooled_machine(&self, machine: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE pooled_machines SET ready = 1 WHERE machine_id = $1")
            .bind(machine.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store that a machine of the pool is booted"))?;
        write.commit().await
    }

    /// Removes a machine of the pool from the store, before it is destroyed. Returns false when a create has claimed it.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn remove_pooled_machine(&self, machine: ComputerId) -> Result<bool> {
        let mut write = self.write().await?;
        let removed = sqlx::query("DELETE FROM pooled_machines WHERE machine_id = $1")
            .bind(machine.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a machine of the pool"))?;
        write.commit().await?;
        Ok(removed.rows_affected() > 0)
    }

    /// Returns the machines of the pool, ready or not, the oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn pooled_machines(&self) -> Result<Vec<StoredMachine>> {
        let rows: Vec<StoredRow> = sqlx::query_as(
            "SELECT machine_id, inputs, size, ready, made_at FROM pooled_machines ORDER BY made_at, machine_id",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list the machines of the pool"))?;
        let stored = |row: StoredRow| {
            Ok(StoredMachine {
                machine: id(&row.machine_id)?,
                inputs: row.inputs,
                size: row.size,
                ready: row.ready != 0,
                made_at: UnixMillis::new(row.made_at),
            })
        };
        rows.into_iter().map(stored).collect()
    }
}

impl Write {
    /// Turns the machine of the pool with the id of a new computer into that computer's. The token of its agent becomes
    /// the saved one, which the agent gives up. Nothing is changed when the pool has no such machine.
    pub(crate) async fn claim_pooled_machine(&mut self, computer: ComputerId) -> Result<()> {
        let token: Option<(SealedText,)> =
            sqlx::query_as("SELECT agent_token FROM pooled_machines WHERE machine_id = $1 AND ready = 1")
                .bind(computer.to_string())
                .fetch_optional(&mut *self.tx)
                .await
                .map_err(failed("look for a machine of the pool"))?;
        let Some((token,)) = token else { return Ok(()) };
        let token = self.vault.open(&POOL_TOKEN, computer, &token)?;
        sqlx::query("DELETE FROM pooled_machines WHERE machine_id = $1")
            .bind(computer.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("claim a machine of the pool"))?;
        sqlx::query("UPDATE computers SET saved_token = $2 WHERE id = $1")
            .bind(computer.to_string())
            .bind(self.vault.seal(&SAVED_TOKEN, computer, &token)?)
            .execute(&mut *self.tx)
            .await
            .map(drop)
            .map_err(failed("store the token of a claimed machine"))
    }
}
