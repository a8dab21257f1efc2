//! Computers: records, requests and lists (docs/api/computers.md).

pub mod clone;
pub mod egress;
pub mod live;
pub mod port;
pub mod replica;
pub mod resize;
pub mod snapshot;
pub mod ssh;
pub mod suspension;
pub mod template;
pub mod ticket;
pub mod tunnel;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::agent::BusyReason;
use crate::computer::egress::EgressPolicyRecord;
use crate::computer::replica::{RecoveryRecord, Replica, Replication};
use crate::field;

/// A computer's record: the union of what clients read from create, get and list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Computer {
    /// UUID; it never changes.
    pub id: String,
    /// Name, unique in its workspace.
    pub name: String,
    /// Id of its workspace.
    pub workspace_id: String,
    /// Older name of `workspace_id`.
    pub project_id: String,
    /// Name of its workspace.
    pub project_name: String,
    /// Id of the account that owns it.
    pub user_id: String,
    /// Always `linux`.
    pub os: String,
    /// Number of vCPUs.
    #[serde(serialize_with = "field::number")]
    pub cpu: f64,
    /// RAM, in GB.
    pub ram: u32,
    /// Disk, in GB.
    pub disk_size_gb: u32,
    /// The kernel behind its programs: `sandbox` (its own, in user space), `shared` (the host's) or `vm` (its own, in a
    /// virtual machine). All but `shared` keep memory.
    #[schema(pattern = "^(sandbox|shared|vm)$")]
    pub isolation: String,
    /// Name of the host that runs it; absent where the service runs on one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Template that it was launched from, as `namespace/name@version`; null for the guest image without additions.
    #[serde(default)]
    pub template_ref: Option<String>,
    /// Id of the template's build whose layers it has; null for the guest image without additions.
    #[serde(default)]
    pub template_build_id: Option<String>,
    /// Numbers of the ports that its template declares as public; `GET /computers/{id}/ports` has their URLs.
    #[serde(default)]
    pub template_ports: Vec<u16>,
    /// When the service deletes it, ISO 8601; absent for a computer that stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Always `none`.
    pub gpu: String,
    /// Resolution of the boot screen, `WIDTHxHEIGHTxDEPTH`.
    pub resolution: String,
    /// `creating`, `starting`, `running`, `suspending`, `suspended`, `stopping`, `stopped`, `restarting`,
    /// `deleting` or `error`.
    #[schema(
        pattern = "^(creating|starting|running|suspending|suspended|stopping|stopped|restarting|deleting|error)$"
    )]
    pub status: String,
    /// Why the service suspended or stopped it: `trial_ended` or `auto_stop`. After `auto_stop` the next
    /// action wakes or starts it. `host_disk_full`: it wrote much while the host's disk was nearly full. While
    /// it runs it is frozen until there is space. One that still grew was stopped. `host_unreachable`: its host does not
    /// answer, and it may still run. `host_gone`: the operator confirmed that its host is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_reason: Option<String>,
    /// What is wrong with its host, for people; absent while its host answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// Time since which its agent answers nothing, ISO 8601; absent while it answers. A restart is the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_unresponsive_since: Option<String>,
    /// Idle timeout in minutes, after which it is suspended; 0 means always on.
    pub auto_stop_minutes: i64,
    /// State of the idle timeout; only when one computer is created or read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_stop: Option<AutoStop>,
    /// Its replication to a second host; absent when it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicate: Option<Replication>,
    /// Its replica; absent before the first refresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<Replica>,
    /// What it last began with instead of its own disk; absent unless it began from a replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<RecoveryRecord>,
    /// Billing; only when one computer is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub billing: Option<ComputerBilling>,
    /// Base URL of its sockets and its proxy.
    pub url: String,
    /// Host name for connections.
    pub hostname: String,
    /// Base URL of its sockets and its proxy; absent while it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_url: Option<String>,
    /// Id of the current instance.
    pub instance_id: String,
    /// Older name of `instance_id`.
    pub fly_instance_id: String,
    /// Password of its screens and sockets; only in the answers to create and read, and not for viewers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnc_password: Option<String>,
    /// Port of the agent if clients can reach it directly, else null: use the proxy path.
    pub api_port: Option<u16>,
    /// Port of noVNC if clients can reach it directly, else null: use the socket path.
    pub novnc_port: Option<u16>,
    /// Port of SSH on the host; null if there is none.
    pub ssh_host_port: Option<u16>,
    /// IP address in the private network of its host; null while it does not run.
    pub ip: Option<String>,
    /// Details of the running instance; null while it does not run.
    pub instance_details: Option<InstanceDetails>,
    /// Time of creation, ISO 8601.
    pub created_at: String,
    /// Time of the last change, ISO 8601.
    pub updated_at: String,
}

/// Billing of a computer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ComputerBilling {
    /// `included` (in the owner's plan), `trial`, `hourly`, `reservation` or `dedicated`.
    pub variant: String,
    /// `current` or `lapsed`; `lapsed` when the payment of the computer or of its owner is.
    pub payment: String,
    /// End of its trial, ISO 8601; null if it has none.
    pub trial_ends_at: Option<String>,
    /// Whether the service manages the computer, as a device.
    pub device: bool,
}

/// State of a computer's idle timeout.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AutoStop {
    /// Idle timeout in minutes; 0 means always on.
    pub minutes: i64,
    /// Time of the suspend if nothing happens, ISO 8601; null if it is always on, does not run, or work is in
    /// progress.
    pub suspends_at: Option<String>,
    /// Work in progress at the last check; `unknown` while its agent does not answer.
    pub held_by: Vec<BusyReason>,
    /// Whether the idle computer is suspended with its memory. If not, it is stopped, what is in its memory is
    /// lost, and the next action starts it from its disk.
    pub keeps_memory: bool,
}

/// Details of a running instance, under the names that older clients read.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct InstanceDetails {
    /// Id of the instance.
    pub id: String,
    /// `WIDTHxHEIGHTxDEPTH`.
    pub resolution: String,
    /// Same as `api_port`.
    #[serde(rename = "apiPort")]
    pub api_port: Option<u16>,
    /// Host of the agent if clients can reach it directly, else null.
    #[serde(rename = "publicHost")]
    pub public_host: Option<String>,
    /// Host of the VNC server if clients can reach it directly, else null.
    #[serde(rename = "vncHost")]
    pub vnc_host: Option<String>,
    /// Whether it streams with WebRTC.
    pub webrtc: Option<bool>,
    /// Terminals that its template declares.
    #[serde(default, rename = "templateTerminals")]
    pub template_terminals: Vec<DeclaredTerminal>,
}

/// A terminal that the template of a computer declares: a session of tmux.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeclaredTerminal {
    /// Name of the session: `tmux attach -t NAME` shows it.
    pub name: String,
    /// Title for people; null if it has none.
    pub title: Option<String>,
}

/// `POST /computers`. Unknown fields are ignored.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"workspace_id": "00000000-0000-4000-8000-000000000000", "name": "desk", "cpu": 2, "ram": 4, "disk_size_gb": 20, "resolution": "1280x720x24"}))]
pub struct CreateComputer {
    /// The target workspace; this or `project_id` is required.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Older name of `workspace_id`.
    #[serde(default)]
    pub project_id: Option<String>,
    /// Name, 1 to 255 characters after trimming, unique in the workspace.
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
    /// `linux` (default).
    #[serde(default)]
    #[schema(pattern = "^(linux)$")]
    pub os: Option<String>,
    /// `none` (default).
    #[serde(default)]
    pub gpu: Option<String>,
    /// Number of vCPUs: 0.5, 1 (default), 2, 4, 8 or 16.
    #[serde(default)]
    #[schema(minimum = 0.5, maximum = 16)]
    pub cpu: Option<f64>,
    /// RAM in GB: 4 (default), 8, 16, 32 or 64.
    #[serde(default)]
    #[schema(minimum = 4, maximum = 64)]
    pub ram: Option<f64>,
    /// Disk in GB, a whole number; 8 when absent.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1_000_000, multiple_of = 1)]
    pub disk_size_gb: Option<f64>,
    /// `sandbox`, `shared` or `vm`, as the host offers (`isolations` of `GET /health`); the default of the workspace when
    /// absent.
    #[serde(default)]
    #[schema(pattern = "^(sandbox|shared|vm)$")]
    pub isolation: Option<String>,
    /// Boot resolution, `WIDTHxHEIGHTxDEPTH`; `1280x720x24` when absent.
    #[serde(default)]
    pub resolution: Option<String>,
    /// Idle timeout in minutes, after which it is suspended, 0 (always on, default) to 43200.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 43200)]
    pub auto_stop_minutes: Option<i64>,
    /// Keep a replica on a second host, where the engine can; off when absent.
    #[serde(default)]
    pub replicate: Option<Replication>,
    /// Template, as `namespace/name@version`.
    #[serde(default)]
    pub template_ref: Option<String>,
    /// Which destinations it reaches; the policy of the template when absent.
    #[serde(default)]
    pub egress_policy: Option<EgressPolicyRecord>,
    /// Older name of `template_ref`; text of another form is ignored.
    #[serde(default)]
    pub image: Option<String>,
    /// Put the earlier uploads of the workspace on its desktop.
    #[serde(default)]
    #[schema(required = false)]
    pub deliver_files: bool,
    /// Prefer a host with few computers of the same workspace, where there are several hosts; false when absent.
    #[serde(default)]
    #[schema(required = false)]
    pub spread: bool,
}

/// `PATCH /computers/{id}`. Omitted fields are unchanged.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "desk"}))]
#[serde(deny_unknown_fields)]
pub struct UpdateComputer {
    /// The new name.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// `sandbox`, `shared` or `vm`, of a stopped computer; it takes effect at the next start.
    #[serde(default)]
    #[schema(pattern = "^(sandbox|shared|vm)$")]
    pub isolation: Option<String>,
    /// Keep a replica on a second host, where the engine can; an interval of 0 removes it.
    #[serde(default)]
    pub replicate: Option<Replication>,
}

/// `GET /computers`'s query.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ComputerListQuery {
    /// Only computers of this workspace.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Older name of `workspace_id`.
    #[serde(default)]
    pub project_id: Option<String>,
    /// Only computers with this status.
    #[serde(default)]
    #[param(
        pattern = "^(creating|starting|running|suspending|suspended|stopping|stopped|restarting|deleting|error)$"
    )]
    pub status: Option<String>,
    /// Only computers whose name contains this text, ignoring case.
    #[serde(default)]
    pub name: Option<String>,
    /// Largest number of entries, 1 to 1000; all when absent.
    #[serde(default)]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// Number of entries to skip; 0 when absent.
    #[serde(default)]
    #[param(format = Int64, maximum = 4_294_967_295_u32)]
    pub offset: Option<u32>,
}

/// `GET /computers`. The list has two names, because clients read both.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ComputerList {
    /// Computers, oldest first, without their passwords.
    pub computers: Vec<Computer>,
    /// The same list under its older name.
    pub desktops: Vec<Computer>,
    /// Total number of entries, without `limit` and `offset`.
    pub total: u64,
    /// Offset of the next page; null on the last.
    pub next_offset: Option<u64>,
}

/// The answer to start, stop and restart: the change is stored and in progress.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Transition {
    /// Always true; a failure has an error body.
    pub success: bool,
    /// Status at the time of the answer.
    pub status: String,
}

/// `GET /computers/{id}/vnc-password`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct VncPassword {
    /// Password of its screens and sockets.
    pub password: String,
}
