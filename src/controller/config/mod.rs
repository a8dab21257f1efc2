//! Configuration of a controller: defaults, a TOML file, `HOTDESK_*` variables and flags.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

mod engines;
mod host;
mod limits;
mod load;
mod machines;
mod mail;
mod models;
mod oidc;
mod plans;
mod pool;
pub mod secret_file;
mod store;
mod suspension;
mod transport;

pub use engines::Engines;
pub use host::HostHelper;
pub use limits::Limits;
pub use load::Flags;
pub use machines::{BootSnapshotSettings, Container, Streaming, WebhookSettings};
pub use mail::{SmtpSettings, SmtpTls};
pub use models::{BackendApi, BackendModel, BackendSettings, ModelSettings};
pub use oidc::OidcSettings;
pub use plans::{AgentAccounts, BillingSettings, PlanSettings};
pub use pool::{PoolSettings, PoolSizeSettings};
pub use store::{EncryptionSettings, SecretSettings, StoreSettings};
pub use suspension::{AutoStopTiming, StorageSettings, SuspendCompletion, Suspension};
pub use transport::TlsSettings;

use hotdesk_domain::desktop::screen::timeline::{
    DEFAULT_ENTRIES, DEFAULT_MEGABYTES, MAX_ENTRIES, MAX_MEGABYTES,
};
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::QemuSettings;
use hotdesk_store::fleet::timeline::TimelineBounds;

/// All settings; `hotdesk config` prints them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Folder of the database, the blobs and the machines.
    pub data_dir: PathBuf,
    /// Address of the API; port 0 selects a free one.
    pub listen: SocketAddr,
    /// Origin under which clients reach the service, such as `https://desk.example.org`; empty: the request's
    /// `Host`.
    pub public_url: String,
    /// Trusted proxies: addresses and networks, separated by commas. `X-Forwarded-For` is honoured from these
    /// addresses.
    pub trusted_proxies: String,
    /// Engines.
    pub engines: Engines,
    /// Log filter, such as `info,hotdesk=debug`.
    pub log: String,
    /// Whether log lines are JSON.
    pub log_json: bool,
    /// Host helper, beside which the controller needs no root.
    pub host: HostHelper,
    /// Limits of accounts without a plan.
    pub limits: Limits,
    /// Image and network of all computers.
    pub container: Container,
    /// Virtual machine engine.
    pub qemu: QemuSettings,
    /// Snapshots of booted desktops, from which computers begin.
    pub boot_snapshots: BootSnapshotSettings,
    /// Pool of booted computers.
    pub pool: PoolSettings,
    /// Streaming to RTMP servers.
    pub streaming: Streaming,
    /// Webhooks of templates.
    pub webhooks: WebhookSettings,
    /// Suspended computers.
    pub suspension: Suspension,
    /// Database.
    pub store: StoreSettings,
    /// Sealing of secrets.
    pub secrets: SecretSettings,
    /// Encryption of computers on the host.
    pub encryption: EncryptionSettings,
    /// Object storage for the states of suspended computers.
    pub storage: StorageSettings,
    /// Plans besides the default one, which is `limits`.
    pub plans: BTreeMap<String, PlanSettings>,
    /// Billing by another service.
    pub billing: BillingSettings,
    /// Accounts that AI agents create for themselves.
    pub agent_accounts: AgentAccounts,
    /// Timing of auto-stop and ends of trials; only tests set it.
    #[serde(skip)]
    pub auto_stop: AutoStopTiming,
    /// Audit log.
    pub audit: AuditSettings,
    /// Timelines of the actions on screens.
    pub timeline: TimelineSettings,
    /// Host names and origins.
    pub web: Web,
    /// TLS of the listener.
    pub tls: TlsSettings,
    /// Mail server.
    pub smtp: SmtpSettings,
    /// Sign-in by an OpenID Connect provider.
    pub oidc: OidcSettings,
    /// Language models.
    pub models: ModelSettings,
}

/// Host names and origins under which the service is reached.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Web {
    /// Host names, separated by commas, besides that of `public_url`, `localhost` and IP addresses.
    pub allowed_hosts: String,
    /// Wildcard of the hosts of ports, such as `*.computers.example`, each of which is one port of one computer; empty: ports
    /// have paths of the service's own host.
    pub ports_host: String,
    /// Names of header fields, separated by commas, that pass to and from programs behind ports besides the usual ones.
    pub port_fields: String,
    /// Origins, separated by commas, whose pages may use the API, `/mcp` and live channels from a browser and
    /// show the viewer in a frame, besides the service's own, such as `https://app.example.org`.
    pub allowed_origins: String,
    /// File (mode 0600) with the key that reads `GET /metrics`; empty: callers on this machine read it without a key.
    pub metrics_key_file: PathBuf,
    /// Whether the service may listen beyond this machine without TLS and without a trusted proxy.
    pub plain_http: bool,
}

/// Retention of the audit log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditSettings {
    /// Days until an entry is removed.
    pub days: u32,
    /// Most entries; the oldest are removed first.
    pub entries: u32,
}

/// Timelines of the actions on screens.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimelineSettings {
    /// Whether actions are stored.
    pub enabled: bool,
    /// Most entries of one computer, 1 to 20,000; the oldest are removed first.
    pub entries: u32,
    /// Most megabytes of one computer's entries and pictures, 1 to 1,024.
    pub megabytes: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("/var/lib/hotdesk"),
            listen: SocketAddr::from(([127, 0, 0, 1], 8700)),
            public_url: String::new(),
            trusted_proxies: String::new(),
            engines: Engines::default(),
            log: "info".to_owned(),
            log_json: false,
            host: HostHelper::default(),
            limits: Limits::default(),
            container: Container::default(),
            qemu: QemuSettings::default(),
            boot_snapshots: BootSnapshotSettings::default(),
            pool: PoolSettings::default(),
            streaming: Streaming::default(),
            webhooks: WebhookSettings::default(),
            suspension: Suspension::default(),
            store: StoreSettings::default(),
            secrets: SecretSettings::default(),
            encryption: EncryptionSettings::default(),
            storage: StorageSettings::default(),
            plans: BTreeMap::new(),
            billing: BillingSettings::default(),
            agent_accounts: AgentAccounts::default(),
            auto_stop: AutoStopTiming::default(),
            audit: AuditSettings::default(),
            timeline: TimelineSettings::default(),
            web: Web::default(),
            tls: TlsSettings::default(),
            smtp: SmtpSettings::default(),
            oidc: OidcSettings::default(),
            models: ModelSettings::default(),
        }
    }
}

impl Default for AuditSettings {
    /// A quarter of a year, and at most about 250 MB.
    fn default() -> Self {
        Self { days: 90, entries: 500_000 }
    }
}

impl Default for TimelineSettings {
    fn default() -> Self {
        Self { enabled: true, entries: DEFAULT_ENTRIES, megabytes: DEFAULT_MEGABYTES }
    }
}

impl TimelineSettings {
    /// Returns the bounds of one computer; `None` where timelines are off.
    pub fn bounds(&self) -> Option<TimelineBounds> {
        self.enabled.then(|| TimelineBounds {
            entries: self.entries.into(),
            bytes: i64::from(self.megabytes) * 1024 * 1024,
        })
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// `Internal` for a number out of range; it names the setting.
    pub fn check(&self) -> Result<()> {
        for (name, value, most) in
            [("entries", self.entries, MAX_ENTRIES), ("megabytes", self.megabytes, MAX_MEGABYTES)]
        {
            if !(1..=most).contains(&value) {
                let why = format!("configuration: timeline.{name} must be 1 to {most}, not {value}");
                return Err(Error::internal(why));
            }
        }
        Ok(())
    }
}
