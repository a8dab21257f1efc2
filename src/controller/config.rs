//! How is a controller set up? Plain data with defaults; a TOML file, `HOTDESK_*` variables and flags change it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{Environment, File, FileFormat};
use serde::{Deserialize, Serialize};

use crate::domain::allowance::Allowance;
use crate::objects::Objects;

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
    /// Limits of every account.
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
    /// How time passes for auto-stop; not to be set, but by tests, which have none.
    #[serde(skip)]
    pub auto_stop: Pace,
}

/// Limits of every account.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Computers that an account may have.
    pub max_computers: u32,
    /// vCPUs that one computer may have.
    pub max_cpu: u32,
    /// GB of RAM that one computer may have.
    pub max_ram_gb: u32,
    /// GB of RAM that a resize may reach; more is for create alone.
    pub max_resize_ram_gb: u32,
    /// GB of RAM that an account's computers may have together, running or not.
    pub max_account_ram_gb: u32,
    /// GB of disk that one computer may have.
    pub max_disk_gb: u32,
    /// GB of disk that an account's computers may have together.
    pub max_account_disk_gb: u32,
    /// Mbps each way that a computer gets and may at most be set to; 0 is without a bound.
    pub max_bandwidth_mbps: u32,
    /// Megabytes a second that each computer may read from its disk, and as many that it may write; 0 is without a bound.
    pub disk_mb_per_second: u32,
    /// Operations a second on its disk, of each kind; 0 is without a bound.
    pub disk_ops_per_second: u32,
    /// Snapshots that one computer may have; what they take counts as disk of the account.
    pub max_snapshots: u32,
    /// API requests per second and key, on average.
    pub requests_per_second: u32,
    /// API requests per key at once.
    pub request_burst: u32,
}

/// The container engine's settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Container {
    /// OCI runtime: a name on the path or a file.
    pub runtime: String,
    /// Folder of a guest image (with `rootfs` in it).
    pub image: PathBuf,
    /// Whether computers reach the outside.
    pub network: bool,
    /// Private range from which computers get their addresses.
    pub subnet: String,
    /// Whether computers may reach private ranges outside the host.
    pub allow_private_egress: bool,
}

/// What virtual machines need beside an image and a network.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Qemu {
    /// QEMU: a name on the path or a file.
    pub program: String,
    /// Folder of the guests' kernel and initial RAM disk.
    pub kernel: PathBuf,
    /// Whether guests are emulated without trying this host's processors.
    pub emulate: bool,
}

/// What streaming may do.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Streaming {
    /// Whether RTMP servers may have addresses that are not public: private, loopback, link-local and the like. Whether a
    /// computer reaches them is the engine's matter (`container.allow_private_egress`).
    pub allow_private: bool,
}

/// How computers sleep.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Suspension {
    /// Whether reading from a suspended computer (a screenshot, a listing) wakes it, as acting on it does; if not, it
    /// answers 409 `computer_asleep`.
    pub reads_wake: bool,
}

/// Where the states of suspended computers are copied to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StorageSettings {
    /// A folder, or `s3://BUCKET/PREFIX`; empty: nowhere.
    pub url: String,
    /// Origin of an S3 server other than Amazon's, for example `https://s3.example.org`.
    pub endpoint: String,
    /// The store's region, as S3 and clients are told; empty: none.
    pub region: String,
    /// File (mode 0600, TOML) with `access_key_id` and `secret_access_key`, and perhaps `session_token`; empty: the
    /// environment's `AWS_ACCESS_KEY_ID` and so on.
    pub credentials_file: PathBuf,
    /// When a suspend is done.
    pub when: When,
    /// MiB of saved states that stay on the host beside their copies; what was suspended first goes first. Not set: all.
    pub local_quota_mb: Option<u64>,
    /// Mbps that copies may take together; 0 is without a bound.
    pub bandwidth_mbps: u32,
    /// A store of one's own; not to be set, but by tests.
    #[serde(skip)]
    pub objects: Option<Objects>,
}

/// When a suspend is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Once the state is on the host; the copy follows.
    #[default]
    Background,
    /// Once the copy is whole.
    BeforeRelease,
}

/// How time passes for auto-stop.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between two rounds of asking what is idle: a computer rests at most so much late.
    pub every: Duration,
    /// A minute of `auto_stop_minutes`.
    pub minute: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { every: Duration::from_secs(15), minute: Duration::from_secs(60) }
    }
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
            auto_stop: Pace::default(),
        }
    }
}

impl Default for Limits {
    /// Generous for a self-hoster: 50 computers; each may be as large as can be ordered, all of them together too;
    /// 300 GB of disk and 32 GB by resize are the specification's ceilings ("Resize ceilings", "Limits"); 100 requests
    /// a second serve dozens of agents on one key. The bound on disks is most of what a SATA disk gives in bytes, and a
    /// small part in operations: one computer is quick by itself and cannot starve a host with NVMe.
    fn default() -> Self {
        Self {
            max_computers: 50,
            max_cpu: 16,
            max_ram_gb: 64,
            max_resize_ram_gb: 32,
            max_account_ram_gb: 3200,
            max_disk_gb: 300,
            max_account_disk_gb: 15_000,
            max_bandwidth_mbps: 0,
            disk_mb_per_second: 400,
            disk_ops_per_second: 20_000,
            max_snapshots: 10,
            requests_per_second: 100,
            request_burst: 400,
        }
    }
}

impl Limits {
    /// What every account may have.
    pub fn allowance(&self) -> Allowance {
        Allowance {
            computers: self.max_computers,
            cpu: self.max_cpu,
            ram_gb: self.max_ram_gb,
            resize_ram_gb: self.max_resize_ram_gb,
            account_ram_gb: self.max_account_ram_gb,
            disk_gb: self.max_disk_gb,
            account_disk_gb: self.max_account_disk_gb,
            bandwidth_mbps: self.max_bandwidth_mbps,
            snapshots: self.max_snapshots,
        }
    }
}

impl Default for StorageSettings {
    /// 400 Mbps: a state of 300 MB is away in seconds, and most of a line and a disk is left to others.
    fn default() -> Self {
        Self {
            url: String::new(),
            endpoint: String::new(),
            region: String::new(),
            credentials_file: PathBuf::new(),
            when: When::Background,
            local_quota_mb: None,
            bandwidth_mbps: 400,
            objects: None,
        }
    }
}

impl Default for Suspension {
    /// Clients that know nothing of sleep act without polling (wire.md 16 A): for them a computer is there.
    fn default() -> Self {
        Self { reads_wake: true }
    }
}

impl Default for Container {
    fn default() -> Self {
        Self {
            runtime: "runc".to_owned(),
            image: PathBuf::from("/var/cache/hotdesk/images/full"),
            network: true,
            subnet: "10.213.0.0/16".to_owned(),
            allow_private_egress: false,
        }
    }
}

impl Default for Qemu {
    fn default() -> Self {
        Self {
            program: "qemu-system-x86_64".to_owned(),
            kernel: PathBuf::from("/var/cache/hotdesk/vm"),
            emulate: false,
        }
    }
}

/// What the command line sets; `None` leaves what file and environment say.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// `--listen`.
    pub listen: Option<SocketAddr>,
    /// `--engine`.
    pub engine: Option<String>,
    /// `--image`.
    pub image: Option<PathBuf>,
    /// `--stream-allow-private`: allows, and cannot forbid.
    pub stream_allow_private: bool,
}

impl Config {
    /// Reads the configuration: defaults, then the file, then `HOTDESK_*` variables (`__` between a section and its
    /// field, as in `HOTDESK_LIMITS__MAX_COMPUTERS`), then flags. Those of the clients and of the
    /// build are left out.
    ///
    /// # Errors
    /// A sentence naming the file, the unknown field or the bad value.
    pub fn load(file: Option<&Path>, flags: &Flags) -> Result<Self, String> {
        let own = std::env::vars().filter(|(name, _)| !CLIENT_VARIABLES.contains(&name.as_str())).collect();
        let mut builder = config::Config::builder();
        if let Some(file) = file {
            builder = builder.add_source(File::from(file.to_owned()).format(FileFormat::Toml));
        }
        let environment = Environment::with_prefix("HOTDESK").separator("__").prefix_separator("_");
        let merged = builder.add_source(environment.try_parsing(true).source(Some(own))).build();
        let mut config: Self = merged
            .and_then(config::Config::try_deserialize)
            .map_err(|error| format!("configuration: {error}"))?;
        if let Some(data_dir) = &flags.data_dir {
            config.data_dir.clone_from(data_dir);
        }
        if let Some(listen) = flags.listen {
            config.listen = listen;
        }
        if let Some(engine) = &flags.engine {
            config.engine.clone_from(engine);
        }
        if let Some(image) = &flags.image {
            config.container.image.clone_from(image);
        }
        config.streaming.allow_private |= flags.stream_allow_private;
        config.public_url = config.public_url.trim_end_matches('/').to_owned();
        Ok(config)
    }
}

/// Variables of the command-line client, the makefile and the image build, which share the prefix.
const CLIENT_VARIABLES: [&str; 8] = [
    "HOTDESK_API_KEY",
    "HOTDESK_CACHE",
    "HOTDESK_CONFIG",
    "HOTDESK_IMAGE",
    "HOTDESK_IMAGE_DIR",
    "HOTDESK_PROFILE",
    "HOTDESK_PYTHON",
    "HOTDESK_URL",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_defaults_and_flags_change_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hotdesk.toml");
        std::fs::write(&file, "listen = \"127.0.0.1:1\"\n[limits]\nmax_computers = 3\n").unwrap();
        let flags = Flags { listen: Some("127.0.0.1:2".parse().unwrap()), ..Flags::default() };
        assert!(!Config::load(Some(&file), &flags).unwrap().streaming.allow_private);
        let flags = Flags { stream_allow_private: true, ..flags };
        assert!(Config::load(Some(&file), &flags).unwrap().streaming.allow_private);
        let config = Config::load(Some(&file), &flags).unwrap();
        assert_eq!(
            (config.listen.port(), config.limits.max_computers, config.limits.max_disk_gb),
            (2, 3, 300)
        );
        std::fs::write(&file, "lisssten = \"127.0.0.1:1\"\n").unwrap();
        assert!(Config::load(Some(&file), &Flags::default()).unwrap_err().contains("lisssten"));
        assert!(Config::load(Some(Path::new("/nowhere.toml")), &Flags::default()).is_err());
    }
}
