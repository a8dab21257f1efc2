//! Snapshots of computers and rollbacks. The intended state is stored before the engine acts, the outcome
//! afterwards.

mod pictures;

use uuid::Uuid;

use crate::fleet::computers::Computer;
use crate::vault::SealedText;
use crate::vault::columns::{SAVED_TOKEN, SNAPSHOT_TOKEN};
use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{ComputerId, SnapshotId};
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::computer::Hardware;
use hotdesk_domain::computer::allowance::Allowance;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::computer::snapshot::{
    EarlierSnapshot, MachineSize, SnapshotState, admit, check_ready, most_bytes,
};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::name::Name;

/// Record of a snapshot.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its id.
    pub id: SnapshotId,
    /// Its computer.
    pub computer: ComputerId,
    /// Its name, chosen by the user.
    pub name: Option<String>,
    /// Its state.
    pub state: SnapshotState,
    /// Whether it contains memory besides the disk.
    pub memory: bool,
    /// Machine size in its memory; `None` without memory.
    pub size: Option<MachineSize>,
    /// Bytes on the host; while it is being made, the most that it may take.
    pub bytes: u64,
    /// Creation time.
    pub created_at: UnixMillis,
    /// When it was complete; the creation time while it is not.
    pub ready_at: UnixMillis,
    /// Blob of a small picture of the screen.
    pub picture: Option<Uuid>,
}

/// Record of a new snapshot.
#[derive(Clone, Debug)]
pub struct NewSnapshot {
    /// Its id.
    pub id: SnapshotId,
    /// Its name, chosen by the user.
    pub name: Option<Name>,
    /// Whether it contains memory besides the disk.
    pub memory: bool,
    /// Limits of the owner.
    pub allowance: Allowance,
}

/// State of a snapshot from which a computer is launched.
#[derive(Clone, Debug)]
pub(crate) struct LaunchState {
    /// Size of the computer at that time, with the current bandwidth limit.
    pub(crate) hardware: Hardware,
    /// Agent token in its memory, if it contains memory.
    pub(crate) token: Option<Secret>,
    /// Time of the snapshot.
    pub(crate) since: UnixMillis,
}

row! {
    struct LaunchStateRow {
        state: String,
        cpu: f64,
        ram_gb: i64,
        disk_gb: i64,
        agent_token: Option<SealedText>,
        created_at: i64,
    }
}

row! {
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
        ready_at: Option<i64>,
        picture: Option<String>,
    }
}

const SELECT: &str = "SELECT id, computer_id, name, state, memory, cpu, ram_gb, bytes, created_at, ready_at, \
                      picture FROM snapshots";

impl TryFrom<Row> for Snapshot {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let bad = |what: &str| Error::internal(format!("snapshot {} holds a bad {what}", row.id));
        let ram_gb = u32::try_from(row.ram_gb).map_err(|_| bad("ram_gb"))?;
        Ok(Self {
            id: id(&row.id)?,
            computer: id(&row.computer_id)?,
            state: SnapshotState::parse(&row.state).ok_or_else(|| bad("state"))?,
            memory: row.memory != 0,
            size: (row.memory != 0).then_some(MachineSize { cpu: row.cpu, ram_gb }),
            bytes: u64::try_from(row.bytes).map_err(|_| bad("number of bytes"))?,
            name: row.name,
            created_at: UnixMillis::new(row.created_at),
            ready_at: UnixMillis::new(row.ready_at.unwrap_or(row.created_at)),
            picture: row.picture.as_deref().map(id).transpose()?,
        })
    }
}

impl Snapshot {
    /// Returns what the choice of a snapshot to go back to needs.
    pub fn earlier(&self) -> EarlierSnapshot {
        let Self { id, state, memory, ready_at, .. } = *self;
        EarlierSnapshot { id, state, memory, ready_at }
    }
}

impl Store {
    /// Stores a snapshot with state `creating`. Limits are checked in the same transaction (T23,
    /// docs/security.md). `token` is the agent token in its memory, if it contains memory.
    ///
    /// # Errors
    /// Those of [`admit`]; `NotFound` when the computer does not exist; `Unavailable` or `Internal` when the
    /// store fails. Nothing is changed then.
    pub async fn add_snapshot(&self, computer: ComputerId, new: &NewSnapshot, token: &Secret) -> Result<()> {
        let mut write = self.write().await?;
        let row = write.computer(computer).await?;
        let (there,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM snapshots WHERE computer_id = $1")
            .bind(computer.to_string())
            .fetch_one(&mut *write.tx)
            .await
            .map_err(failed("count a computer's snapshots"))?;
        let bytes = most_bytes(&row.hardware, new.memory);
        // A random id excludes no computer: this one's disk counts too.
        let used = write.resource_use_besides(row.owner, ComputerId::random()).await?;
        admit(&new.allowance, u32::try_from(there).unwrap_or(u32::MAX), bytes, &used)?;
        let token = if new.memory { Some(write.vault.seal(&SNAPSHOT_TOKEN, new.id, token)?) } else { None };
        sqlx::query(
            "INSERT INTO snapshots (id, computer_id, name, state, memory, bytes, agent_token, created_at, cpu, ram_gb, \
             disk_gb) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        )
        .bind(new.id.to_string())
        .bind(computer.to_string())
        .bind(new.name.as_ref().map(|name| name.as_str().to_owned()))
        .bind(SnapshotState::Creating.name())
        .bind(i64::from(new.memory))
        .bind(i64::try_from(bytes).unwrap_or(i64::MAX))
        .bind(token)
        .bind(clock::now().as_i64())
        .bind(row.hardware.cpu)
        .bind(i64::from(row.hardware.ram_gb))
        .bind(i64::from(row.hardware.disk_gb))
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a snapshot"))?;
        write.commit().await
    }

    /// Returns a computer's snapshots, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn snapshots(&self, computer: ComputerId) -> Result<Vec<Snapshot>> {
        let query = format!("{SELECT} WHERE computer_id = $1 ORDER BY created_at, id");
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(query))
            .bind(computer.to_string())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list a computer's snapshots"))?;
        rows.into_iter().map(Snapshot::try_from).collect()
    }

    /// Returns a snapshot of a computer.
    ///
    /// # Errors
    /// `NotFound` when the computer has no such snapshot; `Unavailable` or `Internal` when the store fails.
    pub async fn snapshot(&self, computer: ComputerId, snapshot: SnapshotId) -> Result<Snapshot> {
        let query = format!("{SELECT} WHERE computer_id = $1 AND id = $2");
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(query))
            .bind(computer.to_string())
            .bind(snapshot.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a snapshot"))?;
        row.ok_or_else(snapshot_not_found)?.try_into()
    }

    /// Stores that a snapshot is ready, and its size in bytes.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn mark_snapshot_ready(&self, snapshot: SnapshotId, bytes: u64) -> Result<()> {
        let bytes = Some(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.set_snapshot(snapshot, SnapshotState::Ready, bytes).await
    }

    /// Marks a snapshot for removal.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn begin_snapshot_removal(&self, snapshot: SnapshotId) -> Result<()> {
        self.set_snapshot(snapshot, SnapshotState::Deleting, None).await
    }

    async fn set_snapshot(
        &self,
        snapshot: SnapshotId,
        state: SnapshotState,
        bytes: Option<i64>,
    ) -> Result<()> {
        let ready_at = (state == SnapshotState::Ready).then(|| clock::now().as_i64());
        let mut write = self.write().await?;
        let set = "UPDATE snapshots SET state = $2, bytes = COALESCE($3, bytes), \
                   ready_at = COALESCE($4, ready_at) WHERE id = $1";
        sqlx::query(set)
            .bind(snapshot.to_string())
            .bind(state.name())
            .bind(bytes)
            .bind(ready_at)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("set a snapshot's state"))?;
        write.commit().await
    }

    /// Removes a snapshot's row; a missing one is not an error. Returns its picture, which nothing has any
    /// more.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn forget_snapshot(&self, snapshot: SnapshotId) -> Result<Option<Uuid>> {
        let mut write = self.write().await?;
        let picture = write.picture_of_snapshot(snapshot).await?;
        sqlx::query("DELETE FROM snapshots WHERE id = $1")
            .bind(snapshot.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a snapshot"))?;
        write.commit().await?;
        Ok(picture)
    }

    /// Stores the target snapshot of a rollback, and the status during it. Storing any other status ends the
    /// rollback. Until then the computer counts with the larger of its size and the snapshot's.
    ///
    /// # Errors
    /// Those of [`MachineSize::admit`]; `NotFound` when the computer does not exist; `Unavailable` or
    /// `Internal` when the store fails. Nothing is changed then.
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
            let others = write.resource_use_besides(row.owner, computer).await?;
            size.admit(&row.hardware, allowance, &others)?;
        }
        sqlx::query("UPDATE computers SET status = $2, rollback_to = $3, updated_at = $4 WHERE id = $1")
            .bind(computer.to_string())
            .bind(status.name())
            .bind(target.id.to_string())
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store a rollback's target"))?;
        write.meter(computer).await?;
        write.commit().await
    }

    /// Stores that a computer was rolled back to a snapshot with memory: it is suspended, with that
    /// snapshot's token and size. A resize in progress is dropped. With `wake`, stores the start of its
    /// resume along.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; the rollback stays stored then.
    pub async fn settle_rollback_of_memory(&self, computer: ComputerId, wake: bool) -> Result<()> {
        let mut write = self.write().await?;
        let token = write.rollback_token(computer).await?;
        let token = token.map(|token| write.vault.seal(&SAVED_TOKEN, computer, &token)).transpose()?;
        sqlx::query(
            "UPDATE computers SET status = $2, updated_at = $3, rollback_to = NULL, saved_token = $4, \
             cpu = (SELECT s.cpu FROM snapshots s WHERE s.id = rollback_to), \
             ram_gb = (SELECT s.ram_gb FROM snapshots s WHERE s.id = rollback_to), \
             wanted_cpu = NULL, wanted_ram_gb = NULL, wanted_disk_gb = NULL, wanted_bandwidth_mbps = NULL WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(Status::Suspended.name())
        .bind(clock::now().as_i64())
        .bind(token)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store the outcome of a rollback"))?;
        if wake {
            write.next_wake(computer).await?;
        }
        write.meter(computer).await?;
        write.commit().await
    }

    /// Stores the agent token in the memory of a fork: that of its source.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn intend_fork(&self, fork: ComputerId, source: &Computer) -> Result<()> {
        let mut write = self.write().await?;
        write.set_saved_token(fork, &source.agent_token).await?;
        write.commit().await
    }
}

impl Write {
    /// Returns a computer's state in a snapshot; fails unless the snapshot is ready.
    pub(crate) async fn launch_state(
        &mut self,
        computer: &Computer,
        snapshot: SnapshotId,
    ) -> Result<LaunchState> {
        let row: Option<LaunchStateRow> = sqlx::query_as(
            "SELECT state, cpu, ram_gb, disk_gb, agent_token, created_at FROM snapshots \
             WHERE computer_id = $1 AND id = $2",
        )
        .bind(computer.id.to_string())
        .bind(snapshot.to_string())
        .fetch_optional(&mut *self.tx)
        .await
        .map_err(failed("read a snapshot's state"))?;
        let row = row.ok_or_else(snapshot_not_found)?;
        let bad = |what: &str| Error::internal(format!("snapshot {snapshot} holds a bad {what}"));
        check_ready(SnapshotState::parse(&row.state).ok_or_else(|| bad("state"))?)?;
        let hardware = Hardware {
            cpu: row.cpu,
            ram_gb: u32::try_from(row.ram_gb).map_err(|_| bad("ram_gb"))?,
            disk_gb: u32::try_from(row.disk_gb).map_err(|_| bad("disk_gb"))?,
            ..computer.hardware
        };
        let token = row.agent_token.map(|sealed| self.vault.open(&SNAPSHOT_TOKEN, snapshot, &sealed));
        Ok(LaunchState { hardware, token: token.transpose()?, since: UnixMillis::new(row.created_at) })
    }

    /// Returns the agent token in the memory of the snapshot to which a computer is rolled back.
    async fn rollback_token(&mut self, computer: ComputerId) -> Result<Option<Secret>> {
        let row: Option<(String, Option<SealedText>)> = sqlx::query_as(
            "SELECT s.id, s.agent_token FROM snapshots s JOIN computers c ON c.rollback_to = s.id WHERE c.id = $1",
        )
        .bind(computer.to_string())
        .fetch_optional(&mut *self.tx)
        .await
        .map_err(failed("read the token of a snapshot"))?;
        let Some((snapshot, Some(sealed))) = row else { return Ok(None) };
        self.vault.open(&SNAPSHOT_TOKEN, snapshot, &sealed).map(Some)
    }

    /// Stores the agent token in the memory with which a new computer starts.
    pub(crate) async fn set_saved_token(&mut self, computer: ComputerId, token: &Secret) -> Result<()> {
        sqlx::query("UPDATE computers SET saved_token = $2 WHERE id = $1")
            .bind(computer.to_string())
            .bind(self.vault.seal(&SAVED_TOKEN, computer, token)?)
            .execute(&mut *self.tx)
            .await
            .map_err(failed("store a fork's token"))?;
        Ok(())
    }
}

/// Returns the `NotFound` error of a missing snapshot.
pub fn snapshot_not_found() -> Error {
    Error::not_found("Snapshot not found")
}
