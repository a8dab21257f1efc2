//! How is a controller set up? Plain data with defaults; a TOML file, `HOTDESK_*` variables and flags change it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

mod limits;
mod load;
mod machines;
mod plans;
mod sleep;

pub use limits::Limits;
pub use load::Flags;
pub use machines::{Container, Qemu, Streaming};
pub use plans::{AgentAccounts, BillingSettings, PlanSettings};
pub use sleep::{Pace, StorageSettings, Suspension, When};

/// Everything that can be set; `hotdesk config` prints it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Folder of the store, the blobs and the machines.
    pub data_dir: PathBuf,
    /// Address of the API; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Origin under which clients reach it, for example `https://desk.example.org`; empty: what the request's `Host`
    /// says.
    pub public_url: String,
    /// Addresses and networks of the proxies in front, separated by commas, whose `X-Forwarded-For` tells the clients apart.
    pub trusted_proxies: String,
    /// What makes the computers: `container`, or `qemu` for virtual machines.
    pub engine: String,
    /// Log filter, for example `info,hotdesk=debug`.
    pub log: String,
    /// Log lines as JSON.
    pub log_json: bool,
    /// Limits of every account without a plan of its own.
    pub limits: Limits,
    /// The container engine; its image and its network are those of virtual machines too.
    pub container: Container,
    /// The engine of virtual machines.
    pub qemu: Qemu,
    /// Streaming to RTMP servers.
    pub streaming: Streaming,
    /// Computers that sleep.
    pub suspension: Suspension,
    /// Where the states of suspended computers are copied to.
    pub storage: StorageSettings,
    /// Plans beside the default one, which is `limits`.
    pub plans: BTreeMap<String, PlanSettings>,
    /// Billing by another service.
    pub billing: BillingSettings,
    /// Accounts that AI agents make for themselves.
    pub agent_accounts: AgentAccounts,
    /// How time passes for auto-stop and the ends of trials; not to be set, but by tests, which have none.
    #[serde(skip)]
    pub auto_stop: Pace,
    /// The audit log.
    pub audit: AuditSettings,
    /// Names and pages.
    pub web: Web,
}

/// Under which names and from which pages it is reached.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Web {
    /// Host names, separated by commas, under which clients reach it beside that of `public_url`, `localhost` and addresses.
    pub allowed_hosts: String,
    /// Origins of pages, separated by commas, that may reach `/mcp` from a browser beside our own, for example
    /// `https://inspector.example.org`.
    pub allowed_origins: String,
}

/// What of the audit log is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditSettings {
    /// Days that an entry is kept.
    pub days: u32,
    /// Entries that are kept; the oldest go first.
    pub entries: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("/var/lib/hotdesk"),
            listen: SocketAddr::from(([127, 0, 0, 1], 8700)),
            public_url: String::new(),
            trusted_proxies: String::new(),
            engine: "container".to_owned(),
            log: "info".to_owned(),
            log_json: false,
            limits: Limits::default(),
            container: Container::default(),
            qemu: Qemu::default(),
            streaming: Streaming::default(),
            suspension: Suspension::default(),
            storage: StorageSettings::default(),
            plans: BTreeMap::new(),
            billing: BillingSettings::default(),
            agent_accounts: AgentAccounts::default(),
            auto_stop: Pace::default(),
            audit: AuditSettings::default(),
            web: Web::default(),
        }
    }
}

impl Default for AuditSettings {
    /// A quarter of a year, and at most about 250 MB.
    fn default() -> Self {
        Self { days: 90, entries: 500_000 }
    }
}
