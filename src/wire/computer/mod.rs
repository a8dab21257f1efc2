//! What is a computer on the wire? (interface.md "Computer", wire.md 4 and 5)

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::agent::Hold;

/// A computer's record: the union of what clients read from create, get and list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Computer {
    /// UUID; the stable handle.
    pub id: String,
    /// Unique in its workspace.
    pub name: String,
    /// The workspace that holds it.
    pub workspace_id: String,
    /// Older name of `workspace_id`.
    pub project_id: String,
    /// The workspace's name.
    pub project_name: String,
    /// The account that owns it.
    pub user_id: String,
    /// `linux`.
    pub os: String,
    /// vCPUs.
    pub cpu: f64,
    /// GB.
    pub ram: u32,
    /// GB.
    pub disk_size_gb: u32,
    /// `none`.
    pub gpu: String,
    /// `WIDTHxHEIGHTxDEPTH`.
    pub resolution: String,
    /// `creating`, `starting`, `running`, `suspending`, `suspended`, `stopping`, `stopped`, `restarting`, `deleting` or
    /// `error`.
    pub status: String,
    /// Why it does not run, where the service ended it by itself: `trial_ended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_reason: Option<String>,
    /// Idle minutes before it suspends itself; 0 is always-on.
    pub auto_stop_minutes: i64,
    /// When and why it suspends itself; only in get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_stop: Option<AutoStop>,
    /// How it is paid for; only in get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub billing: Option<ComputerBilling>,
    /// Where its sockets and proxy are.
    pub url: String,
    /// Host for connections.
    pub hostname: String,
    /// Base of its sockets and proxy; absent while it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_url: Option<String>,
    /// Handle of the current instance.
    pub instance_id: String,
    /// Older name of `instance_id`.
    pub fly_instance_id: String,
    /// Password of its screens and sockets; only in create and get, and not for viewers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnc_password: Option<String>,
    /// Port of the agent where clients can reach it directly, else null: use the proxy path.
    pub api_port: Option<u16>,
    /// Port of noVNC where clients can reach it directly, else null: use the socket path.
    pub novnc_port: Option<u16>,
    /// Port of SSH on the host, null where there is none.
    pub ssh_host_port: Option<u16>,
    /// The computer's address in its host's private network; null while it does not run.
    pub ip: Option<String>,
    /// Details of the running instance; null while it does not run.
    pub instance_details: Option<InstanceDetails>,
    /// ISO 8601.
    pub created_at: String,
    /// ISO 8601.
    pub updated_at: String,
}

/// How a computer is paid for.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ComputerBilling {
    /// `included` (in the owner's plan), `trial`, `hourly`, `reservation` or `dedicated`.
    pub variant: String,
    /// `current` or `lapsed`, of the computer and of its owner.
    pub payment: String,
    /// ISO 8601: when its trial ends; null where it has none.
    pub trial_ends_at: Option<String>,
    /// Whether the service itself manages it, as a device.
    pub device: bool,
}

/// When and why a computer suspends itself.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AutoStop {
    /// Idle minutes before it does; 0 is always-on.
    pub minutes: i64,
    /// ISO 8601: when it does if nothing more happens; null where it is always-on, does not run, or something is at work.
    pub suspends_at: Option<String>,
    /// What is at work and keeps it up, as last looked; `unknown` while its agent does not tell.
    pub held_by: Vec<Hold>,
}

/// Details of a running instance, under the names that older clients read.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct InstanceDetails {
    /// The instance handle.
    pub id: String,
    /// `WIDTHxHEIGHTxDEPTH`.
    pub resolution: String,
    /// As `api_port`.
    #[serde(rename = "apiPort")]
    pub api_port: Option<u16>,
    /// Host of a directly reachable agent, else null.
    #[serde(rename = "publicHost")]
    pub public_host: Option<String>,
    /// Host of a directly reachable VNC server, else null.
    #[serde(rename = "vncHost")]
    pub vnc_host: Option<String>,
    /// Whether it streams by WebRTC.
    pub webrtc: Option<bool>,
}

/// `POST /computers`. Unknown fields are ignored.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"workspace_id": "00000000-0000-4000-8000-000000000000", "name": "desk", "cpu": 2, "ram": 4, "disk_size_gb": 20, "resolution": "1280x720x24"}))]
pub struct CreateComputer {
    /// The workspace that shall hold it (this or `project_id` is needed).
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Older name of `workspace_id`.
    #[serde(default)]
    pub project_id: Option<String>,
    /// 1 to 255 characters after trimming, unique in the workspace.
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
    /// `linux` (default).
    #[serde(default)]
    pub os: Option<String>,
    /// `none` (default).
    #[serde(default)]
    pub gpu: Option<String>,
    /// vCPUs: 0.5, 1 (default), 2, 4, 8 or 16.
    #[serde(default)]
    pub cpu: Option<f64>,
    /// GB: 4 (default), 8, 16, 32 or 64.
    #[serde(default)]
    pub ram: Option<f64>,
    /// GB, whole; 8 when absent.
    #[serde(default)]
    pub disk_size_gb: Option<f64>,
    /// `WIDTHxHEIGHTxDEPTH`; `1280x720x24` when absent.
    #[serde(default)]
    pub resolution: Option<String>,
    /// Idle minutes before it suspends itself, 0 (default, always-on) to 43200.
    #[serde(default)]
    pub auto_stop_minutes: Option<i64>,
    /// `namespace/name@version` of a template.
    #[serde(default)]
    pub template_ref: Option<String>,
    /// Older name of `template_ref`.
    #[serde(default)]
    pub image: Option<String>,
}

/// `PATCH /computers/{id}`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "desk"}))]
pub struct UpdateComputer {
    /// A new name.
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
}

/// `GET /computers`'s query.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Only this workspace's.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Older name of `workspace_id`.
    #[serde(default)]
    pub project_id: Option<String>,
    /// Only those with this status.
    #[serde(default)]
    pub status: Option<String>,
    /// Only those whose name holds this text, whatever the case.
    #[serde(default)]
    pub name: Option<String>,
    /// At most so many, 1 to 1000; all when absent.
    #[serde(default)]
    pub limit: Option<u32>,
    /// After so many.
    #[serde(default)]
    pub offset: Option<u32>,
}

/// `GET /computers`, under both keys that clients read.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ComputerList {
    /// The computers, oldest first, without their passwords.
    pub computers: Vec<Computer>,
    /// The same list under its older name.
    pub desktops: Vec<Computer>,
    /// How many there are in all.
    pub total: u64,
    /// Where the next page begins; null on the last.
    pub next_offset: Option<u64>,
}

/// The answer to start, stop and restart: the change is stored and under way.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Transition {
    /// Always true; a refusal is an error body.
    pub success: bool,
    /// The status at the time of the answer.
    pub status: String,
}

/// `GET /computers/{id}/vnc-password`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct VncPassword {
    /// Password of its screens and sockets.
    pub password: String,
}
