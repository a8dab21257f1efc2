//! Which computers are there, and what is each one's state?

use super::{Store, Write, failed, id, is_duplicate};
use crate::base::clock::now_ms;
use crate::base::ids::{AccountId, ComputerId, ComputerRef, FileId, InstanceId, SnapshotId, WorkspaceId};
use crate::base::secret::Secret;
use crate::domain::allowance::Allowance;
use crate::domain::computer::Hardware;
use crate::domain::error::{Error, Result};
use crate::domain::lifecycle::Status;
use crate::domain::name::Name;

/// A computer as it is stored, with its workspace's name and owner.
#[derive(Clone, Debug)]
pub struct Computer {
    /// The stable handle.
    pub id: ComputerId,
    /// The workspace that holds it.
    pub workspace: WorkspaceId,
    /// That workspace's name.
    pub workspace_name: String,
    /// The account that owns the workspace.
    pub owner: AccountId,
    /// Its name, unique in the workspace whatever the case.
    pub name: String,
    /// CPU, RAM, disk, resolution, bandwidth.
    pub hardware: Hardware,
    /// The size that a resize under way leads to.
    pub wanted: Option<Hardware>,
    /// Idle minutes before it suspends itself; 0 is always-on.
    pub auto_stop_minutes: i64,
    /// What it is doing.
    pub status: Status,
    /// Handle of its current instance.
    pub instance: InstanceId,
    /// Counts its starts.
    pub generation: u64,
    /// Its agent's bearer token.
    pub agent_token: Secret,
    /// The token that its saved memory knows, while a resume is under way or has failed and `agent_token` is the next one.
    pub saved_token: Option<Secret>,
    /// The snapshot that a rollback under way leads to.
    pub rollback_to: Option<SnapshotId>,
    /// Whether it woke from storage and what it fetched may not be on the host's disk yet.
    pub converging: bool,
    /// Password of its screens and sockets.
    pub vnc_password: Secret,
    /// When it was made.
    pub created_at: i64,
    /// When it last changed.
    pub updated_at: i64,
}

/// What a create stores.
#[derive(Clone, Debug)]
pub struct NewComputer {
    /// Its id.
    pub id: ComputerId,
    /// The workspace that will hold it.
    pub workspace: WorkspaceId,
    /// Its name.
    pub name: Name,
    /// CPU, RAM, disk, resolution, bandwidth.
    pub hardware: Hardware,
    /// Idle minutes before it suspends itself; 0 is always-on.
    pub auto_stop_minutes: i64,
    /// What the owner may have.
    pub allowance: Allowance,
}

/// What a boot changes in a row: the next generation with fresh secrets.
#[derive(Clone, Debug)]
pub struct BootSecrets {
    /// The new agent token.
    pub agent_token: Secret,
    /// The new password.
    pub vnc_password: Secret,
}

impl BootSecrets {
    /// Characters of an agent token: 43 of base62 are 256 bits (threats.md design 4).
    const TOKEN_CHARACTERS: usize = 43;
    /// Characters of a VNC password: 16 of base62; RFB looks at 8 of them, 47 bits (threats.md design 5).
    const PASSWORD_CHARACTERS: usize = 16;

    /// Fresh secrets.
    pub fn random() -> Self {
        Self {
            agent_token: Secret::random(Self::TOKEN_CHARACTERS),
            vnc_password: Secret::random(Self::PASSWORD_CHARACTERS),
        }
    }
}

/// Which computers a listing shows.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this workspace's.
    pub workspace: Option<WorkspaceId>,
    /// Only those with this status.
    pub status: Option<Status>,
    /// Only those whose name holds this text, whatever the case.
    pub name_contains: Option<String>,
    /// At most so many; `None` is all.
    pub limit: Option<u32>,
    /// After so many.
    pub offset: u32,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    workspace_id: String,
    workspace_name: String,
    account_id: String,
    name: String,
    cpu: f64,
    ram_gb: i64,
    disk_gb: i64,
    bandwidth_mbps: i64,
    wanted_cpu: Option<f64>,
    wanted_ram_gb: Option<i64>,
    wanted_disk_gb: Option<i64>,
    wanted_bandwidth_mbps: Option<i64>,
    resolution: String,
    auto_stop_minutes: i64,
    status: String,
    instance_id: String,
    generation: i64,
    agent_token: String,
    saved_token: Option<String>,
    rollback_to: Option<String>,
    converging: i64,
    vnc_password: String,
    created_at: i64,
    updated_at: i64,
}

const SELECT: &str = "SELECT c.*, w.name AS workspace_name, w.account_id FROM computers c \
                      JOIN workspaces w ON w.id = c.workspace_id ";

/// Handles are random: one that is somebody's present one and was another's before is the former's.
const BY_INSTANCE: &str = "c.id = COALESCE((SELECT id FROM computers WHERE instance_id = $1), \
                           (SELECT computer_id FROM earlier_instances WHERE instance_id = $1))";

impl TryFrom<Row> for Computer {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let bad = |what: &str| Error::internal(format!("computer {} holds a bad {what}", row.id));
        let whole = |value: i64, what| u32::try_from(value).map_err(|_| bad(what));
        let hardware = Hardware {
            cpu: row.cpu,
            ram_gb: whole(row.ram_gb, "ram_gb")?,
            disk_gb: whole(row.disk_gb, "disk_gb")?,
            resolution: row.resolution.parse().map_err(|_| bad("resolution"))?,
            bandwidth_mbps: whole(row.bandwidth_mbps, "bandwidth_mbps")?,
        };
        let wanted = (row.wanted_cpu, row.wanted_ram_gb, row.wanted_disk_gb, row.wanted_bandwidth_mbps);
        let wanted = match wanted {
            (Some(cpu), Some(ram_gb), Some(disk_gb), Some(bandwidth_mbps)) => Some(Hardware {
                cpu,
                ram_gb: whole(ram_gb, "wanted_ram_gb")?,
                disk_gb: whole(disk_gb, "wanted_disk_gb")?,
                bandwidth_mbps: whole(bandwidth_mbps, "wanted_bandwidth_mbps")?,
                ..hardware
            }),
            _ => None,
        };
        Ok(Self {
            id: id(&row.id)?,
            workspace: id(&row.workspace_id)?,
            owner: id(&row.account_id)?,
            hardware,
            wanted,
            status: Status::parse(&row.status).ok_or_else(|| bad("status"))?,
            instance: row.instance_id.parse().map_err(|()| bad("instance_id"))?,
            generation: u64::try_from(row.generation).map_err(|_| bad("generation"))?,
            workspace_name: row.workspace_name,
            name: row.name,
            auto_stop_minutes: row.auto_stop_minutes,
            agent_token: Secret::new(row.agent_token),
            saved_token: row.saved_token.map(Secret::new),
            rollback_to: row.rollback_to.as_deref().map(id).transpose()?,
            converging: row.converging != 0,
            vnc_password: Secret::new(row.vnc_password),
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

pub(super) fn name_taken(name: impl std::fmt::Display) -> Error {
    Error::conflict(format!("A computer named \"{name}\" already exists in this workspace"))
        .code("NAME_TAKEN")
}

impl Store {
    /// Stores a computer with the intent to make it (status `creating`). The limit and the name are checked in the
    /// same transaction, so that of many at once only as many win as there is room (threats.md T23).
    ///
    /// # Errors
    /// `NAME_TAKEN`; [`Allowance::admit`]'s; `NotFound` when the workspace is gone; or the store fails.
    pub async fn add_computer(&self, new: &NewComputer) -> Result<Computer> {
        let mut write = self.write().await?;
        write.add(new).await?;
        write.commit().await?;
        self.computer(&ComputerRef::Id(new.id))
            .await?
            .ok_or_else(|| Error::internal("the new computer is not there"))
    }

    /// One computer by UUID or instance handle, its present one or one of before.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn computer(&self, reference: &ComputerRef) -> Result<Option<Computer>> {
        let (clause, value) = match reference {
            ComputerRef::Id(id) => ("c.id = $1", id.to_string()),
            ComputerRef::Instance(instance) => (BY_INSTANCE, instance.to_string()),
        };
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} WHERE {clause}")))
            .bind(value)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a computer"))?;
        row.map(Computer::try_from).transpose()
    }

    /// Every computer there is, for recovery.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn all_computers(&self) -> Result<Vec<Computer>> {
        let rows: Vec<Row> =
            sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} ORDER BY c.created_at, c.id")))
                .fetch_all(&self.pool)
                .await
                .map_err(failed("list computers"))?;
        rows.into_iter().map(Computer::try_from).collect()
    }

    /// An account's computers that a filter lets through, oldest first, and how many there are without the page.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn computers(&self, account: AccountId, filter: &Filter) -> Result<(Vec<Computer>, u64)> {
        let clause = "WHERE w.account_id = $1 AND ($2 = '' OR c.workspace_id = $2) AND ($3 = '' OR c.status = $3) \
                      AND ($4 = '' OR c.name_folded LIKE $4 ESCAPE '\\')";
        let pattern = filter.name_contains.as_deref().map(like_pattern).unwrap_or_default();
        let workspace = filter.workspace.map(|id| id.to_string()).unwrap_or_default();
        let status = filter.status.map(Status::name).unwrap_or_default();
        let counted: (i64,) = sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "SELECT COUNT(*) FROM computers c JOIN workspaces w ON w.id = c.workspace_id {clause}"
        )))
        .bind(account.to_string())
        .bind(&workspace)
        .bind(status)
        .bind(&pattern)
        .fetch_one(&self.pool)
        .await
        .map_err(failed("count computers"))?;
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "{SELECT} {clause} ORDER BY c.created_at, c.id LIMIT $5 OFFSET $6"
        )))
        .bind(account.to_string())
        .bind(&workspace)
        .bind(status)
        .bind(&pattern)
        .bind(filter.limit.map_or(i64::MAX, i64::from))
        .bind(i64::from(filter.offset))
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list computers"))?;
        let page = rows.into_iter().map(Computer::try_from).collect::<Result<_>>()?;
        Ok((page, u64::try_from(counted.0).unwrap_or_default()))
    }

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

    /// Sets after how many idle minutes a computer suspends itself; 0 is never.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_auto_stop(&self, computer: ComputerId, minutes: i64) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET auto_stop_minutes = $2, updated_at = $3 WHERE id = $1")
            .bind(computer.to_string())
            .bind(minutes)
            .bind(now_ms())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("set the auto-stop"))?;
        write.commit().await
    }

    /// Renames a computer; it as it is then.
    ///
    /// # Errors
    /// `NAME_TAKEN`; `NotFound` when it is gone; or the store fails.
    pub async fn rename_computer(&self, computer: ComputerId, name: &Name) -> Result<Computer> {
        let mut write = self.write().await?;
        let renamed =
            sqlx::query("UPDATE computers SET name = $2, name_folded = $3, updated_at = $4 WHERE id = $1")
                .bind(computer.to_string())
                .bind(name.as_str())
                .bind(name.folded())
                .bind(now_ms())
                .execute(&mut *write.tx)
                .await;
        match renamed {
            Err(error) if is_duplicate(&error) => return Err(name_taken(name)),
            other => other.map_err(failed("rename a computer"))?,
        };
        write.commit().await?;
        let renamed = self.computer(&ComputerRef::Id(computer)).await?;
        renamed.ok_or_else(|| Error::not_found("Desktop not found"))
    }

    /// Removes a computer's row and what was meant for it alone; copies of its saved state are to be removed. Files that
    /// were exported from it stay in its workspace. Returns the ids of the files whose records went.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn remove_computer(&self, computer: ComputerId) -> Result<Vec<FileId>> {
        let text = computer.to_string();
        let mut write = self.write().await?;
        sqlx::query("UPDATE files SET computer_id = NULL WHERE computer_id = $1 AND source = 'export'")
            .bind(&text)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("keep a computer's exports"))?;
        let files: Vec<(String,)> = sqlx::query_as("SELECT id FROM files WHERE computer_id = $1")
            .bind(&text)
            .fetch_all(&mut *write.tx)
            .await
            .map_err(failed("list a computer's files"))?;
        write.give_up_copies(computer).await?;
        sqlx::query("DELETE FROM computers WHERE id = $1")
            .bind(&text)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a computer"))?;
        write.commit().await?;
        files.iter().map(|(text,)| id(text)).collect()
    }
}

impl Write {
    /// Stores a computer with the intent to make it.
    pub(super) async fn add(&mut self, new: &NewComputer) -> Result<()> {
        self.check_workspace(new.workspace).await?;
        let used = self.used_beside(new.workspace, new.id).await?;
        new.allowance.admit(&new.hardware, &used)?;
        let secrets = BootSecrets::random();
        let inserted = sqlx::query(
            "INSERT INTO computers (id, workspace_id, name, name_folded, cpu, ram_gb, disk_gb, resolution, \
             auto_stop_minutes, status, instance_id, generation, agent_token, vnc_password, created_at, updated_at, \
             bandwidth_mbps) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 1, $12, $13, $14, $14, $15)",
        )
        .bind(new.id.to_string())
        .bind(new.workspace.to_string())
        .bind(new.name.as_str())
        .bind(new.name.folded())
        .bind(new.hardware.cpu)
        .bind(i64::from(new.hardware.ram_gb))
        .bind(i64::from(new.hardware.disk_gb))
        .bind(new.hardware.resolution.to_string())
        .bind(new.auto_stop_minutes)
        .bind(Status::Creating.name())
        .bind(InstanceId::random().as_str())
        .bind(secrets.agent_token.reveal())
        .bind(secrets.vnc_password.reveal())
        .bind(now_ms())
        .bind(i64::from(new.hardware.bandwidth_mbps))
        .execute(&mut *self.tx)
        .await;
        match inserted {
            Err(error) if is_duplicate(&error) => Err(name_taken(&new.name)),
            other => other.map(|_| ()).map_err(failed("store a computer")),
        }
    }

    /// Refuses a workspace that is gone.
    pub(super) async fn check_workspace(&mut self, workspace: WorkspaceId) -> Result<()> {
        let (there,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM workspaces WHERE id = $1")
            .bind(workspace.to_string())
            .fetch_one(&mut *self.tx)
            .await
            .map_err(failed("read a workspace"))?;
        if there == 0 { Err(Error::not_found("Workspace not found")) } else { Ok(()) }
    }

    /// A computer as this write sees it.
    pub(super) async fn computer(&mut self, computer: ComputerId) -> Result<Computer> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} WHERE c.id = $1")))
            .bind(computer.to_string())
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("read a computer"))?;
        row.ok_or_else(|| Error::not_found("Desktop not found"))?.try_into()
    }

    /// The next generation with fresh secrets, under this status.
    pub(super) async fn next_boot(&mut self, computer: ComputerId, status: Status) -> Result<()> {
        self.begin(computer, status, "NULL").await
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
             agent_token = $3, vnc_password = $4, updated_at = $5 WHERE id = $1"
        )))
        .bind(computer.to_string())
        .bind(status.name())
        .bind(secrets.agent_token.reveal())
        .bind(secrets.vnc_password.reveal())
        .bind(now_ms())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("store the intent to boot"))?;
        Ok(())
    }

    /// See [`Store::set_status`].
    pub(super) async fn status(&mut self, computer: ComputerId, status: Status) -> Result<()> {
        sqlx::query(
            "UPDATE computers SET status = $2, updated_at = $3, rollback_to = NULL, \
             saved_token = CASE WHEN $2 = 'suspended' THEN saved_token ELSE NULL END WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(status.name())
        .bind(now_ms())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("set a status"))?;
        Ok(())
    }
}

/// A LIKE pattern that finds a text anywhere, its own wildcards taken literally.
fn like_pattern(text: &str) -> String {
    let mut pattern = String::from("%");
    for character in text.to_lowercase().chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}
