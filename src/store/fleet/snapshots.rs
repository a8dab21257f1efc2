//! Which snapshots has a computer, and to which is it being rolled back? Intents are stored before the engine acts, and
//! outcomes after.

use super::computers::Computer;
use super::{Store, Write, failed, id};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{ComputerId, SnapshotId};
use hotdesk_base::secret::Secret;
use hotdesk_domain::allowance::Allowance;
use hotdesk_domain::computer::Hardware;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::lifecycle::Status;
use hotdesk_domain::name::Name;
use hotdesk_domain::snapshot::{Size, State, admit, check_ready, most_bytes};

/// A snapshot as it is stored.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its id.
    pub id: SnapshotId,
    /// The computer that it is of.
    pub computer: ComputerId,
    /// What its maker calls it.
    pub name: Option<String>,
    /// Whether it is there.
    pub state: State,
    /// Whether it holds memory besides the disk.
    pub memory: bool,
    /// The size that its memory knows; none without memory.
    pub size: Option<Size>,
    /// Bytes on the host; while it is being made, the most that it may take.
    pub bytes: u64,
    /// When it was asked for.
    pub created_at: i64,
}

/// What is stored of a snapshot that is about to be made.
#[derive(Clone, Debug)]
pub struct NewSnapshot {
    /// Its id.
    pub id: SnapshotId,
    /// What its maker calls it.
    pub name: Option<Name>,
    /// Whether it holds memory besides the disk.
    pub memory: bool,
    /// What the owner may have.
    pub allowance: Allowance,
}

/// What a computer that is launched from a snapshot begins with.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// The size that the computer had, with the present bound of its network.
    pub(super) hardware: Hardware,
    /// The token that its memory knows, where there is memory.
    pub(super) token: Option<Secret>,
    /// When it was kept.
    pub(super) since: i64,
}

#[derive(sqlx::FromRow)]
struct KeptRow {
    state: String,
    cpu: f64,
    ram_gb: i64,
    disk_gb: i64,
    agent_token: Option<String>,
    created_at: i64,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    computer_id: String,
    name: Option<String>,
    state: String,
    memory: i64,
    cpu: f64,
    ram_gb: i64,
    bytes: i64,
    created_at: i64,
}

const SELECT: &str =
    "SELECT id, computer_id, name, state, memory, cpu, ram_gb, bytes, created_at FROM snapshots";

impl TryFrom<Row> for Snapshot {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let bad = |what: &str| Error::internal(format!("snapshot {} holds a bad {what}", row.id));
        let ram_gb = u32::try_from(row.ram_gb).map_err(|_| bad("ram_gb"))?;
        Ok(Self {
            id: id(&row.id)?,
            computer: id(&row.computer_id)?,
            state: State::parse(&row.state).ok_or_else(|| bad("state"))?,
            memory: row.memory != 0,
            size: (row.memory != 0).then_some(Size { cpu: row.cpu, ram_gb }),
            bytes: u64::try_from(row.bytes).map_err(|_| bad("number of bytes"))?,
            name: row.name,
            created_at: row.created_at,
        })
    }
}

impl Store {
    /// Stores a snapshot of a computer with the intent to make it (state `creating`). Limits are checked in the same
    /// transaction (threats.md T23). `token` is the one that its memory knows, where it keeps memory.
    ///
    /// # Errors
    /// [`admit`]'s; `NotFound` when the computer is gone; or the store fails.
    pub async fn add_snapshot(&self, computer: ComputerId, new: &NewSnapshot, token: &Secret) -> Result<()> {
        let mut write = self.write().await?;
        let row = write.computer(computer).await?;
        let (there,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM snapshots WHERE computer_id = $1")
            .bind(computer.to_string())
            .fetch_one(&mut *write.tx)
            .await
            .map_err(failed("count a computer's snapshots"))?;
        let bytes = most_bytes(&row.hardware, new.memory);
        // No computer is left out: this one's disk counts too.
        let used = write.used_beside(row.owner, ComputerId::random()).await?;
        admit(&new.allowance, u32::try_from(there).unwrap_or(u32::MAX), bytes, &used)?;
        sqlx::query(
            "INSERT INTO snapshots (id, computer_id, name, state, memory, bytes, agent_token, created_at, cpu, ram_gb, \
             disk_gb) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        )
        .bind(new.id.to_string())
        .bind(computer.to_string())
        .bind(new.name.as_ref().map(|name| name.as_str().to_owned()))
        .bind(State::Creating.name())
        .bind(i64::from(new.memory))
        .bind(i64::try_from(bytes).unwrap_or(i64::MAX))
        .bind(new.memory.then(|| token.reveal().to_owned()))
        .bind(now_ms())
        .bind(row.hardware.cpu)
        .bind(i64::from(row.hardware.ram_gb))
        .bind(i64::from(row.hardware.disk_gb))
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a snapshot"))?;
        write.commit().await
    }

    /// A computer's snapshots, oldest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn snapshots(&self, computer: ComputerId) -> Result<Vec<Snapshot>> {
        let query = format!("{SELECT} WHERE computer_id = $1 ORDER BY created_at, id");
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(query))
            .bind(computer.to_string())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list a computer's snapshots"))?;
        rows.into_iter().map(Snapshot::try_from).collect()
    }

    /// One of a computer's snapshots.
    ///
    /// # Errors
    /// `NotFound`; or the store fails.
    pub async fn snapshot(&self, computer: ComputerId, snapshot: SnapshotId) -> Result<Snapshot> {
        let query = format!("{SELECT} WHERE computer_id = $1 AND id = $2");
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(query))
            .bind(computer.to_string())
            .bind(snapshot.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a snapshot"))?;
        row.ok_or_else(no_snapshot)?.try_into()
    }

    /// Stores that a snapshot is there, and what it takes.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn snapshot_is_ready(&self, snapshot: SnapshotId, bytes: u64) -> Result<()> {
        let bytes = Some(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.set_snapshot(snapshot, State::Ready, bytes).await
    }

    /// Stores the intent to remove a snapshot.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn begin_snapshot_removal(&self, snapshot: SnapshotId) -> Result<()> {
        self.set_snapshot(snapshot, State::Deleting, None).await
    }

    async fn set_snapshot(&self, snapshot: SnapshotId, state: State, bytes: Option<i64>) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE snapshots SET state = $2, bytes = COALESCE($3, bytes) WHERE id = $1")
            .bind(snapshot.to_string())
            .bind(state.name())
            .bind(bytes)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("set a snapshot's state"))?;
        write.commit().await
    }

    /// Removes a snapshot's row; one that is not there is removed already.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget_snapshot(&self, snapshot: SnapshotId) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM snapshots WHERE id = $1")
            .bind(snapshot.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a snapshot"))?;
        write.commit().await
    }

    /// Stores the intent to roll a computer back, under the status that it has meanwhile. Any other status that is
    /// stored ends the intent. Until then the computer holds the larger of its size and the snapshot's.
    ///
    /// # Errors
    /// [`Size::admit`]'s; `NotFound` when the computer is gone; or the store fails.
    pub async fn begin_rollback(
        &self,
        computer: ComputerId,
        target: &Snapshot,
        status: Status,
        allowance: &Allowance,
    ) -> Result<()> {
        let mut write = self.write().await?;
        if let Some(size) = &target.size {
            let row = write.computer(computer).await?;
            let others = write.used_beside(row.owner, computer).await?;
            size.admit(&row.hardware, allowance, &others)?;
        }
        sqlx::query("UPDATE computers SET status = $2, rollback_to = $3, updated_at = $4 WHERE id = $1")
            .bind(computer.to_string())
            .bind(status.name())
            .bind(target.id.to_string())
            .bind(now_ms())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store the intent to roll back"))?;
        write.meter(computer).await?;
        write.commit().await
    }

    /// Stores that a computer has the memory of the snapshot to which it was rolled back: it is suspended, with the token and
    /// the size of that time, whatever it was to become since; with `wake`, the intent to wake it is stored along with that.
    ///
    /// # Errors
    /// When the store fails; the intent to roll back stays then.
    pub async fn settle_rollback_of_memory(&self, computer: ComputerId, wake: bool) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query(
            "UPDATE computers SET status = $2, updated_at = $3, rollback_to = NULL, \
             saved_token = (SELECT s.agent_token FROM snapshots s WHERE s.id = rollback_to), \
             cpu = (SELECT s.cpu FROM snapshots s WHERE s.id = rollback_to), \
             ram_gb = (SELECT s.ram_gb FROM snapshots s WHERE s.id = rollback_to), \
             wanted_cpu = NULL, wanted_ram_gb = NULL, wanted_disk_gb = NULL, wanted_bandwidth_mbps = NULL WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(Status::Suspended.name())
        .bind(now_ms())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store the outcome of a rollback"))?;
        if wake {
            write.next_wake(computer).await?;
        }
        write.meter(computer).await?;
        write.commit().await
    }

    /// Stores in the row of a fork which token the memory knows that it gets: that of its source.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn intend_fork(&self, fork: ComputerId, source: &Computer) -> Result<()> {
        let mut write = self.write().await?;
        write.memory_knows(fork, &source.agent_token).await?;
        write.commit().await
    }
}

impl Write {
    /// What a computer was when it was kept in a snapshot that is ready.
    pub(super) async fn kept(&mut self, computer: &Computer, snapshot: SnapshotId) -> Result<Kept> {
        let row: Option<KeptRow> = sqlx::query_as(
            "SELECT state, cpu, ram_gb, disk_gb, agent_token, created_at FROM snapshots \
             WHERE computer_id = $1 AND id = $2",
        )
        .bind(computer.id.to_string())
        .bind(snapshot.to_string())
        .fetch_optional(&mut *self.tx)
        .await
        .map_err(failed("read what was kept"))?;
        let row = row.ok_or_else(no_snapshot)?;
        let bad = |what: &str| Error::internal(format!("snapshot {snapshot} holds a bad {what}"));
        check_ready(State::parse(&row.state).ok_or_else(|| bad("state"))?)?;
        let hardware = Hardware {
            cpu: row.cpu,
            ram_gb: u32::try_from(row.ram_gb).map_err(|_| bad("ram_gb"))?,
            disk_gb: u32::try_from(row.disk_gb).map_err(|_| bad("disk_gb"))?,
            ..computer.hardware
        };
        Ok(Kept { hardware, token: row.agent_token.map(Secret::new), since: row.created_at })
    }

    /// Stores which token the memory knows that a new computer begins with.
    pub(super) async fn memory_knows(&mut self, computer: ComputerId, token: &Secret) -> Result<()> {
        sqlx::query("UPDATE computers SET saved_token = $2 WHERE id = $1")
            .bind(computer.to_string())
            .bind(token.reveal())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("store a fork's token"))?;
        Ok(())
    }
}

/// The computer has no such snapshot.
pub fn no_snapshot() -> Error {
    Error::not_found("Snapshot not found")
}
