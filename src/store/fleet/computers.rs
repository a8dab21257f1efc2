//! Computers: rows, creation, renaming and removal.

use crate::fleet::changes::RecordChange;
use crate::fleet::status::BootSecrets;
use crate::secrets::stored_name;
use crate::templates::{layers_text, parse_layers, parse_terminals, terminals_text};
use crate::vault::columns::{AGENT_TOKEN, SAVED_TOKEN, VNC_PASSWORD};
use crate::vault::{SealedText, Vault};
use crate::{Store, Write, failed, id, is_duplicate};
use hotdesk_base::clock;
use hotdesk_base::ids::{
    AccountId, ComputerId, ComputerRef, FileId, InstanceId, LayerId, SnapshotId, WorkspaceId,
};
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::billing::{Billing, Payment, Variant};
use hotdesk_domain::computer::Hardware;
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::computer::status_reason::StatusReason;
use hotdesk_domain::computer::template::network::egress::EgressPolicy;
use hotdesk_domain::desktop::terminal::ComputerTerminal;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::host::outage::ReplicaState;
use hotdesk_domain::host::replica::Recovery;
use hotdesk_domain::name::Name;
use hotdesk_domain::network::port::{ComputerPort, parse_ports, ports_text};
use hotdesk_domain::secret::{LaunchSecrets, SecretName};
use uuid::Uuid;

/// Record of a computer, with its workspace's name and owner.
#[derive(Clone, Debug)]
pub struct Computer {
    /// Its permanent id.
    pub id: ComputerId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// Name of the workspace.
    pub workspace_name: String,
    /// The account that owns the workspace.
    pub owner: AccountId,
    /// Its name, unique in the workspace regardless of case.
    pub name: String,
    /// CPU, RAM, disk, resolution and bandwidth.
    pub hardware: Hardware,
    /// The kernel behind its programs.
    pub isolation: Isolation,
    /// Target size of a resize in progress.
    pub wanted: Option<Hardware>,
    /// Idle minutes before it is suspended; 0 means never.
    pub auto_stop_minutes: i64,
    /// Minutes between two refreshes of its replica; 0 means that it has none.
    pub replicate_minutes: i64,
    /// Its replica on a second host.
    pub replica: Option<ReplicaState>,
    /// The last attempt to refresh the replica.
    pub replica_tried_at: Option<UnixMillis>,
    /// When it last began from a replica, what was lost then.
    pub recovered: Option<Recovery>,
    /// The template that it was launched from.
    pub template: Option<String>,
    /// Secrets that it gets at each boot.
    pub secrets: LaunchSecrets,
    /// Read-only layers below its disk, the lowest first.
    pub layers: Vec<LayerId>,
    /// Which destinations it reaches.
    pub egress: Option<EgressPolicy>,
    /// Ports that its template declares.
    pub ports: Vec<ComputerPort>,
    /// Terminals that its template declares.
    pub terminals: Vec<ComputerTerminal>,
    /// When the service deletes it; `None` for a computer that stays.
    pub expires_at: Option<UnixMillis>,
    /// Its billing.
    pub billing: Billing,
    /// Its status.
    pub status: Status,
    /// Reason of the status, when the service changed it.
    pub status_reason: Option<StatusReason>,
    /// Id of its current instance.
    pub instance: InstanceId,
    /// Number of its boots.
    pub generation: u64,
    /// Bearer token of its agent.
    pub agent_token: Secret,
    /// Token in its saved memory, while a resume is in progress or has failed and `agent_token` is the next
    /// one.
    pub saved_token: Option<Secret>,
    /// Target snapshot of a rollback in progress.
    pub rollback_to: Option<SnapshotId>,
    /// Its host, where the engine has several and it is known.
    pub host: Option<String>,
    /// Target of a move to another host in progress.
    pub move_to: Option<String>,
    /// Whether it was resumed from storage, and fetched state may not be on the host's disk yet.
    pub converging: bool,
    /// Password of its screens and sockets.
    pub vnc_password: Secret,
    /// Creation time.
    pub created_at: UnixMillis,
    /// Time of the last change.
    pub updated_at: UnixMillis,
}

/// Record of a new computer.
#[derive(Clone, Debug)]
pub struct NewComputer {
    /// Its id.
    pub id: ComputerId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// Its name.
    pub name: Name,
    /// CPU, RAM, disk, resolution and bandwidth.
    pub hardware: Hardware,
    /// The kernel behind its programs, which the host offers.
    pub isolation: Isolation,
    /// The template that it is launched from.
    pub template: Option<String>,
    /// Secrets that it gets at each boot.
    pub secrets: LaunchSecrets,
    /// Read-only layers below its disk, the lowest first.
    pub layers: Vec<LayerId>,
    /// Which destinations it reaches.
    pub egress: Option<EgressPolicy>,
    /// Ports that its template declares.
    pub ports: Vec<ComputerPort>,
    /// Terminals that its template declares.
    pub terminals: Vec<ComputerTerminal>,
    /// Idle minutes before it is suspended; 0 means never.
    pub auto_stop_minutes: i64,
    /// Minutes between two refreshes of its replica; 0 means that it has none.
    pub replicate_minutes: i64,
    /// When the service deletes it; `None` for a computer that stays.
    pub expires_at: Option<UnixMillis>,
    /// Whether it gets the earlier uploads of its whole workspace.
    pub deliver_files: bool,
    /// Whether its files on the host are encrypted with the key of its workspace.
    pub encrypt: bool,
    /// Limits of all plans; the owner's plan is read in the same transaction.
    pub plans: Plans,
}

/// Blobs of a removed computer, which are still on the disk.
#[derive(Clone, Debug)]
pub struct ComputerBlobs {
    /// Files of the workspace that were meant for it.
    pub files: Vec<FileId>,
    /// Pictures in its chat threads.
    pub step_pictures: Vec<Uuid>,
    /// Pictures in its timeline.
    pub timeline_pictures: Vec<Uuid>,
    /// Pictures of its snapshots.
    pub snapshot_pictures: Vec<Uuid>,
}

row! {
    pub(crate) struct Row {
        id: String,
        workspace_id: String,
        workspace_name: String,
        account_id: String,
        name: String,
        cpu: f64,
        ram_gb: i64,
        disk_gb: i64,
        bandwidth_mbps: i64,
        isolation: Option<String>,
        template_ref: Option<String>,
        secret_names: String,
        account_secrets: i64,
        layers: String,
        egress_policy: Option<String>,
        ports: String,
        terminals: String,
        expires_at: Option<i64>,
        wanted_cpu: Option<f64>,
        wanted_ram_gb: Option<i64>,
        wanted_disk_gb: Option<i64>,
        wanted_bandwidth_mbps: Option<i64>,
        resolution: String,
        auto_stop_minutes: i64,
        replicate_minutes: i64,
        replica_host: Option<String>,
        replica_refreshed_at: Option<i64>,
        replica_tried_at: Option<i64>,
        recovered_from: Option<String>,
        recovered_state_at: Option<i64>,
        billing: String,
        payment: String,
        account_payment: String,
        trial_ends_at: Option<i64>,
        device: i64,
        status: String,
        status_reason: Option<String>,
        instance_id: String,
        generation: i64,
        agent_token: SealedText,
        saved_token: Option<SealedText>,
        rollback_to: Option<String>,
        host: Option<String>,
        move_to: Option<String>,
        converging: i64,
        vnc_password: SealedText,
        created_at: i64,
        updated_at: i64,
    }
}

pub(crate) const SELECT: &str = "SELECT c.*, w.name AS workspace_name, w.account_id, a.payment AS account_payment \
                      FROM computers c JOIN workspaces w ON w.id = c.workspace_id \
                      JOIN accounts a ON a.id = w.account_id ";

impl Row {
    /// Returns the record, with its secrets opened.
    pub(crate) fn open(self, vault: &Vault) -> Result<Computer> {
        let row = self;
        let bad = |what: &str| Error::internal(format!("computer {} holds a bad {what}", row.id));
        let whole = |value: i64, what| u32::try_from(value).map_err(|_| bad(what));
        let hardware = Hardware {
            cpu: row.cpu,
            ram_gb: whole(row.ram_gb, "ram_gb")?,
            disk_gb: whole(row.disk_gb, "disk_gb")?,
            resolution: row.resolution.parse().map_err(|_| bad("resolution"))?,
            bandwidth_mbps: whole(row.bandwidth_mbps, "bandwidth_mbps")?,
        };
        let lapsed = [&row.payment, &row.account_payment].iter().any(|it| *it == Payment::Lapsed.name());
        let billing = Billing {
            variant: Variant::from_name(&row.billing).ok_or_else(|| bad("billing"))?,
            payment: if lapsed { Payment::Lapsed } else { Payment::Current },
            trial_ends_at: row.trial_ends_at.map(UnixMillis::new),
            device: row.device != 0,
        };
        let status_reason = match &row.status_reason {
            None => None,
            Some(name) => Some(StatusReason::parse(name).ok_or_else(|| bad("status_reason"))?),
        };
        // A row of an earlier version has none until `Store::adopt_isolation`, before which nothing uses it.
        let isolation = match &row.isolation {
            None => Isolation::Shared,
            Some(name) => Isolation::parse(name).ok_or_else(|| bad("isolation"))?,
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
        let egress = row.egress_policy.as_deref().map(|text| text.parse().map_err(|_| bad("egress_policy")));
        let replica = row.replica_host.zip(row.replica_refreshed_at);
        let recovered = row.recovered_from.zip(row.recovered_state_at);
        let saved_token = row.saved_token.map(|sealed| vault.open(&SAVED_TOKEN, &row.id, &sealed));
        Ok(Computer {
            id: id(&row.id)?,
            workspace: id(&row.workspace_id)?,
            owner: id(&row.account_id)?,
            hardware,
            isolation,
            template: row.template_ref,
            expires_at: row.expires_at.map(UnixMillis::new),
            secrets: LaunchSecrets {
                names: row.secret_names.split_whitespace().map(stored_name).collect::<Result<_>>()?,
                account: row.account_secrets != 0,
            },
            layers: parse_layers(&row.layers)?,
            egress: egress.transpose()?,
            ports: parse_ports(&row.ports)?,
            terminals: parse_terminals(&row.terminals)?,
            wanted,
            billing,
            status: Status::parse(&row.status).ok_or_else(|| bad("status"))?,
            status_reason,
            instance: row.instance_id.parse().map_err(|()| bad("instance_id"))?,
            generation: u64::try_from(row.generation).map_err(|_| bad("generation"))?,
            workspace_name: row.workspace_name,
            name: row.name,
            auto_stop_minutes: row.auto_stop_minutes,
            replicate_minutes: row.replicate_minutes,
            replica: replica.map(|(host, at)| ReplicaState { host, refreshed_at: UnixMillis::new(at) }),
            replica_tried_at: row.replica_tried_at.map(UnixMillis::new),
            recovered: recovered.map(|(from, at)| Recovery { from, state_at: UnixMillis::new(at) }),
            agent_token: vault.open(&AGENT_TOKEN, &row.id, &row.agent_token)?,
            saved_token: saved_token.transpose()?,
            rollback_to: row.rollback_to.as_deref().map(id).transpose()?,
            host: row.host,
            move_to: row.move_to,
            converging: row.converging != 0,
            vnc_password: vault.open(&VNC_PASSWORD, &row.id, &row.vnc_password)?,
            created_at: UnixMillis::new(row.created_at),
            updated_at: UnixMillis::new(row.updated_at),
        })
    }
}

pub(crate) fn name_taken(name: impl std::fmt::Display) -> Error {
    Error::conflict(format!("A computer named \"{name}\" already exists in this workspace"))
        .code(ErrorCode::NameTaken)
}

impl Store {
    /// Stores a computer with status `creating`, before the engine creates it. Limit and name are checked in
    /// the same transaction, so that concurrent requests cannot exceed the limit (T23, docs/security.md).
    ///
    /// # Errors
    /// `Conflict` (`NAME_TAKEN`); those of
    /// [`AccountTerms::admit`](hotdesk_domain::billing::plan::AccountTerms::admit); `Forbidden`
    /// (`DESKTOP_LIMIT`) at a client's own limit; `NotFound` when the workspace does not exist; `Unavailable`
    /// or `Internal` when the store fails. Nothing is changed then.
    pub async fn add_computer(&self, new: &NewComputer) -> Result<Computer> {
        let mut write = self.write().await?;
        write.add(new).await?;
        // Read before the commit: a failure afterwards would leave a reservation without an owner.
        let made = write.computer(new.id).await?;
        write.commit().await?;
        Ok(made)
    }

    /// Sets the idle minutes after which a computer is suspended; 0 means never.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn set_auto_stop(&self, computer: ComputerId, minutes: i64) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET auto_stop_minutes = $2, updated_at = $3 WHERE id = $1")
            .bind(computer.to_string())
            .bind(minutes)
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("set the auto-stop"))?;
        write.note(RecordChange::Computer(computer));
        write.commit().await
    }

    /// Sets which destinations a computer reaches; `None` removes the policy.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn set_egress_policy(&self, computer: ComputerId, policy: Option<&EgressPolicy>) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET egress_policy = $2, updated_at = $3 WHERE id = $1")
            .bind(computer.to_string())
            .bind(policy.map(ToString::to_string))
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("set the egress policy"))?;
        write.note(RecordChange::Computer(computer));
        write.commit().await
    }

    /// Renames a computer and returns it.
    ///
    /// # Errors
    /// `Conflict` (`NAME_TAKEN`); `NotFound` when it does not exist; `Unavailable` or `Internal` when the
    /// store fails. Nothing is changed then, unless only the final read failed.
    pub async fn rename_computer(&self, computer: ComputerId, name: &Name) -> Result<Computer> {
        let mut write = self.write().await?;
        let renamed =
            sqlx::query("UPDATE computers SET name = $2, name_folded = $3, updated_at = $4 WHERE id = $1")
                .bind(computer.to_string())
                .bind(name.as_str())
                .bind(name.folded())
                .bind(clock::now().as_i64())
                .execute(&mut *write.tx)
                .await;
        match renamed {
            Err(error) if is_duplicate(&error) => return Err(name_taken(name)),
            other => other.map_err(failed("rename a computer"))?,
        };
        write.note(RecordChange::Computer(computer));
        write.commit().await?;
        let renamed = self.computer(&ComputerRef::Id(computer)).await?;
        renamed.ok_or_else(|| Error::not_found("Desktop not found"))
    }

    /// Removes a computer's row and its uploads, and marks copies of its saved state for removal. Exported
    /// files stay in the workspace. Returns the blobs whose records were removed.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_computer(&self, computer: ComputerId) -> Result<ComputerBlobs> {
        let text = computer.to_string();
        let mut write = self.write().await?;
        sqlx::query("UPDATE files SET computer_id = NULL WHERE computer_id = $1 AND source = 'export'")
            .bind(&text)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("detach a computer's exports"))?;
        let files: Vec<(String,)> = sqlx::query_as("SELECT id FROM files WHERE computer_id = $1")
            .bind(&text)
            .fetch_all(&mut *write.tx)
            .await
            .map_err(failed("list a computer's files"))?;
        let step_pictures = write.pictures_of_computer(computer).await?;
        let timeline_pictures = write.timeline_pictures_of(computer).await?;
        let snapshot_pictures = write.snapshot_pictures_of(computer).await?;
        write.discard_copies(computer).await?;
        sqlx::query("DELETE FROM computers WHERE id = $1")
            .bind(&text)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a computer"))?;
        write.remove_unused_workspace_keys().await?;
        write.meter(computer).await?;
        write.commit().await?;
        let files = files.iter().map(|(text,)| id(text)).collect::<Result<_>>()?;
        Ok(ComputerBlobs { files, step_pictures, timeline_pictures, snapshot_pictures })
    }
}

impl Write {
    /// Stores a computer with status `creating`.
    pub(crate) async fn add(&mut self, new: &NewComputer) -> Result<()> {
        let owner = self.owner(new.workspace).await?;
        let terms = new.plans.terms(&self.standing(owner).await?)?;
        let used = self.resource_use_besides(owner, new.id).await?;
        terms.admit(&new.hardware, &used, clock::now())?;
        self.check_client(new.workspace, new.id).await?;
        if new.encrypt {
            self.ensure_workspace_key(new.workspace).await?;
        }
        let secrets = BootSecrets::random();
        let inserted = sqlx::query(
            "INSERT INTO computers (id, workspace_id, name, name_folded, cpu, ram_gb, disk_gb, resolution, \
             auto_stop_minutes, status, instance_id, generation, agent_token, vnc_password, created_at, updated_at, \
             bandwidth_mbps, billing, trial_ends_at, isolation, encrypted_for, template_ref, layers, \
             expires_at, secret_names, account_secrets, egress_policy, ports, terminals, replicate_minutes) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 1, $12, $13, $14, $14, $15, $16, $17, $18, \
              $19, $20, $21, $22, $23, $24, $25, $26, $27, $28)",
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
        .bind(self.vault.seal(&AGENT_TOKEN, new.id, &secrets.agent_token)?)
        .bind(self.vault.seal(&VNC_PASSWORD, new.id, &secrets.vnc_password)?)
        .bind(clock::now().as_i64())
        .bind(i64::from(new.hardware.bandwidth_mbps))
        .bind(terms.variant().name())
        .bind(terms.trial_ends_at.map(UnixMillis::as_i64))
        .bind(new.isolation.name())
        .bind(new.encrypt.then(|| new.workspace.to_string()))
        .bind(new.template.as_deref())
        .bind(layers_text(&new.layers))
        .bind(new.expires_at.map(UnixMillis::as_i64))
        .bind(new.secrets.names.iter().map(SecretName::as_str).collect::<Vec<_>>().join(" "))
        .bind(i64::from(new.secrets.account))
        .bind(new.egress.as_ref().map(ToString::to_string))
        .bind(ports_text(&new.ports))
        .bind(terminals_text(&new.terminals)?)
        .bind(new.replicate_minutes)
        .execute(&mut *self.tx)
        .await;
        match inserted {
            Err(error) if is_duplicate(&error) => return Err(name_taken(&new.name)),
            other => other.map_err(failed("store a computer"))?,
        };
        self.claim_pooled_machine(new.id).await?;
        if new.deliver_files {
            self.request_earlier_files(new.id, new.workspace).await?;
        }
        self.note(RecordChange::Computer(new.id));
        Ok(())
    }

    /// Returns the owner of a workspace; `NotFound` when the workspace does not exist.
    pub(crate) async fn owner(&mut self, workspace: WorkspaceId) -> Result<AccountId> {
        let owner: Option<(String,)> = sqlx::query_as("SELECT account_id FROM workspaces WHERE id = $1")
            .bind(workspace.to_string())
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("read a workspace"))?;
        id(&owner.ok_or_else(|| Error::not_found("Workspace not found"))?.0)
    }
}
