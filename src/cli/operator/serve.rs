//! `hotdesk serve`: how does a controller start and end?

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::failure::{Failure, Outcome};
use super::output;
use hotdesk_base::tasks::Tasks;
use hotdesk_base::telemetry;
use hotdesk_controller::config::{Config, Flags};
use hotdesk_controller::lock;
use hotdesk_domain::counted::counted;
use hotdesk_engine::container::{ContainerConfig, ContainerEngine, DiskSpeed};
use hotdesk_engine::qemu::{QemuConfig, QemuEngine};
use hotdesk_engine::{Engine, EngineResult, NetworkConfig};
use hotdesk_http::serve::{Bound, Listen, bind, serve};

/// How long everything may take to end after a signal; then it is named and left.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);
/// How long steps on the host that cannot be called off may take after that: together less than the 30 s after which
/// systemd kills.
const BLOCKED_TIMEOUT: Duration = Duration::from_secs(5);

/// First host user id of computers: above every account that Debian hands out (login.defs ends at 60000, subuid ranges
/// begin at 100000), the same for every controller of a host.
const UID_BASE: u32 = 1_000_000;

/// Options of `hotdesk serve`; each overrides the configuration file and the environment.
#[derive(Debug, Args)]
pub struct Options {
    /// Configuration file (TOML); `hotdesk config` prints every setting.
    #[arg(long, value_name = "FILE", env = "HOTDESK_CONFIG")]
    pub config: Option<PathBuf>,
    /// Folder of the store, the files and the machines.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Address of the API; port 0 takes a free one.
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,
    /// What makes the computers: `container`, or `qemu` for virtual machines.
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<String>,
    /// Guest image folder.
    #[arg(long, value_name = "DIR")]
    pub image: Option<PathBuf>,
    /// Lets screens be streamed to RTMP servers with private addresses.
    #[arg(long)]
    pub stream_allow_private: bool,
}

impl Options {
    /// The configuration that these options, the environment and the file give.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load(&self) -> Result<Config, String> {
        let flags = Flags {
            data_dir: self.data_dir.clone(),
            listen: self.listen,
            engine: self.engine.clone(),
            image: self.image.clone(),
            stream_allow_private: self.stream_allow_private,
        };
        Config::load(self.config.as_deref(), &flags)
    }
}

/// Runs a controller until it is told to stop. Computers run on.
///
/// # Errors
/// When it cannot start.
pub fn run(options: &Options) -> Outcome<()> {
    let config = options.load()?;
    telemetry::init(&config.log, config.log_json)?;
    // A core dump would hold keys (threats.md T24).
    nix::sys::prctl::set_dumpable(false).map_err(|error| format!("prctl: {error}"))?;
    let _lock = lock::acquire(&config.data_dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("tokio: {error}"))?;
    let outcome = runtime.block_on(run_until_told(config));
    // What is cut short then is finished by the next controller, as after a kill.
    runtime.shutdown_timeout(BLOCKED_TIMEOUT);
    outcome
}

async fn run_until_told(config: Config) -> Outcome<()> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| format!("signals: {error}"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| format!("signals: {error}"))?;
    let bound =
        bind(&Listen::Tcp(config.listen)).await.map_err(|error| format!("{}: {error}", config.listen))?;
    let address = match &bound {
        Bound::Tcp(listener) => {
            listener.local_addr().map_err(|error| format!("{}: {error}", config.listen))?
        }
        Bound::Unix(_) => return Err("the API listens on TCP".into()),
    };
    let tasks = Tasks::new();
    let engine = open_engine(&config)?;
    let own = Some(config.public_url.clone()).filter(|url| !url.is_empty());
    let own = own.unwrap_or_else(|| format!("http://{address}"));
    let ready = hotdesk_controller::start(config, engine, &tasks).await.map_err(|error| error.to_string())?;
    if let Some(key) = &ready.first_key {
        output::line(&format!("account key (shown once): {}", key.reveal()))?;
    }
    if ready.set_up_open {
        output::line(&format!("to sign in, open {own}/set-up and show the account key"))?;
    }
    output::line(&hotdesk_controller::listening_line(address))?;
    let router = ready.router.clone();
    let group = tasks.clone();
    let _serving = tasks.spawn("serve", async move { serve(bound, router, &group).await });
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping; computers run on");
    let late = tasks.drain(DRAIN_TIMEOUT).await;
    if !late.is_empty() {
        tracing::warn!(?late, "tasks did not end in time");
    }
    ready.close().await;
    Ok(())
}

/// `hotdesk purge`: removes every computer of a data folder from this host, with their disks; the store is kept. It works
/// without the guest image, which may be gone.
///
/// # Errors
/// When a controller uses the folder, or a machine cannot be removed; the others were tried.
pub fn purge(options: &Options) -> Outcome<()> {
    let config = options.load()?;
    telemetry::init(&config.log, config.log_json)?;
    let _lock = lock::acquire(&config.data_dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("tokio: {error}"))?;
    runtime.block_on(async {
        let container = |it| ContainerEngine::open_to_remove(it).map(shared);
        let engine = with_engine(&config, container, |it| QemuEngine::open_to_remove(it).map(shared))?;
        let machines = engine.list().await.map_err(|error| error.to_string())?;
        let (mut failures, mut removed) = (Vec::new(), Vec::new());
        for machine in machines {
            match engine.destroy(machine).await {
                Ok(()) => removed.push(format!("removed {machine}\n")),
                Err(error) => failures.push(format!("{machine}: {error}")),
            }
        }
        let from = config.data_dir.display();
        let all = counted(u32::try_from(removed.len()).unwrap_or(u32::MAX), "computer");
        // Last: that nobody can be told keeps no computer on the host.
        output::line(&format!("{}Removed {all} of {from} from this host.", removed.concat()))?;
        if failures.is_empty() { Ok(()) } else { Err(Failure::Failed(failures.join("; "))) }
    })
}

fn open_engine(config: &Config) -> Result<Arc<dyn Engine>, String> {
    with_engine(config, |it| ContainerEngine::open(it).map(shared), |it| QemuEngine::open(it).map(shared))
}

fn shared(engine: impl Engine) -> Arc<dyn Engine> {
    Arc::new(engine)
}

/// What is made of the settings of the engine that a configuration asks for.
pub(super) fn with_engine<T>(
    config: &Config,
    container: impl FnOnce(ContainerConfig) -> EngineResult<T>,
    qemu: impl FnOnce(QemuConfig) -> EngineResult<T>,
) -> Result<T, String> {
    let made = match known_engine(config)? {
        Known::Container(config) => container(config),
        Known::Qemu(config) => qemu(config),
    };
    made.map_err(|error| error.to_string())
}

/// An engine's own settings.
#[derive(Debug)]
pub enum Known {
    /// Containers.
    Container(ContainerConfig),
    /// Virtual machines.
    Qemu(QemuConfig),
}

/// What a configuration says to the engine that it asks for.
///
/// # Errors
/// When there is no such engine, the subnet is none, or this program's own path is not known.
pub fn known_engine(config: &Config) -> Result<Known, String> {
    match config.engine.as_str() {
        "container" => container_config(config).map(Known::Container),
        "qemu" => container_config(config).map(|shared| {
            Known::Qemu(QemuConfig {
                state_dir: shared.state_dir,
                program: config.qemu.program.clone(),
                kernel: config.qemu.kernel.clone(),
                emulate: config.qemu.emulate,
                image: shared.image,
                agent_binary: shared.agent_binary,
                network: shared.network,
                disk_speed: shared.disk_speed,
                uid_base: shared.uid_base,
                init_args: None,
            })
        }),
        unknown => Err(format!("engine {unknown:?} is not known: use container or qemu")),
    }
}

fn container_config(config: &Config) -> Result<ContainerConfig, String> {
    let settings = &config.container;
    Ok(ContainerConfig {
        state_dir: config.data_dir.clone(),
        runtime: settings.runtime.clone(),
        image: settings.image.clone(),
        agent_binary: std::env::current_exe().map_err(|error| format!("own executable: {error}"))?,
        network: NetworkConfig {
            enabled: settings.network,
            subnet: settings.subnet.parse()?,
            allow_private_egress: settings.allow_private_egress,
            ..NetworkConfig::default()
        },
        disk_speed: DiskSpeed {
            mb_per_second: config.limits.disk_mb_per_second,
            ops_per_second: config.limits.disk_ops_per_second,
        },
        uid_base: UID_BASE,
        init_args: None,
    })
}
