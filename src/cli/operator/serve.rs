//! `hotdesk serve` and `hotdesk purge`: start and shutdown of the controller, and removal of its computers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Failure, Outcome};
use crate::output;
use hotdesk_base::tasks::Tasks;
use hotdesk_base::telemetry;
use hotdesk_controller::config::{Config, Flags};
use hotdesk_controller::data_dir::lock;
use hotdesk_domain::plural::plural;
use hotdesk_engine::container::{ContainerConfig, ContainerEngine, DiskSpeed};
use hotdesk_engine::qemu::{QemuConfig, QemuEngine};
use hotdesk_engine::{Engine, EngineResult, NetworkConfig};
use hotdesk_http::serve::{BoundListener, Listen, bind, serve};

/// Timeout of tasks after a stop signal. The log names those that exceed it.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);
/// Additional timeout of blocking host operations, which cannot be cancelled. Both together are below the 30 s after
/// which systemd kills the process.
const BLOCKED_TIMEOUT: Duration = Duration::from_secs(5);

/// First host user id of computers, the same for every controller of a host. It is above the accounts of Debian
/// (login.defs ends at 60000) and the start of its subuid ranges (100000).
const UID_BASE: u32 = 1_000_000;

/// Options of `hotdesk serve`; each overrides the configuration file and the environment.
#[derive(Debug, Args)]
pub struct Options {
    /// Configuration file (TOML); `hotdesk config` prints every setting.
    #[arg(long, value_name = "FILE", env = "HOTDESK_CONFIG")]
    pub config: Option<PathBuf>,
    /// Data folder: store, files and machines.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Listen address of the API; port 0 selects a free port.
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,
    /// Engine: `container`, or `qemu` for virtual machines.
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<String>,
    /// Guest image folder.
    #[arg(long, value_name = "DIR")]
    pub image: Option<PathBuf>,
    /// Allow streaming to RTMP servers with private addresses.
    #[arg(long)]
    pub stream_allow_private: bool,
}

impl Options {
    /// Returns the configuration from these options, the environment and the file, in this order of precedence.
    ///
    /// # Errors
    /// Those of [`Config::load`].
    pub fn load(&self) -> Result<Config, String> {
        let flags = Flags {
            data_dir: self.data_dir.clone(),
            listen: self.listen,
            engine: self.engine.clone(),
            image: self.image.clone(),
            stream_allow_private: self.stream_allow_private,
        };
        Config::load(self.config.as_deref(), &flags).map_err(|error| error.to_string())
    }
}

/// Runs a controller until SIGTERM or SIGINT. Its computers continue to run.
///
/// # Errors
/// When the configuration is invalid, another controller uses the data folder, or the controller cannot start.
pub fn run(options: &Options) -> Outcome<()> {
    let config = options.load()?;
    telemetry::init(&config.log, config.log_json)?;
    // A core dump would contain keys (T24, docs/security.md).
    nix::sys::prctl::set_dumpable(false)
        .map_err(|error| format!("cannot disable core dumps (prctl): {error}"))?;
    let _lock = lock::acquire(&config.data_dir).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the async runtime: {error}"))?;
    let outcome = runtime.block_on(run_until_signal(config));
    // The next controller finishes interrupted operations, as after a kill.
    runtime.shutdown_timeout(BLOCKED_TIMEOUT);
    outcome
}

async fn run_until_signal(config: Config) -> Outcome<()> {
    let failed = |error: std::io::Error| format!("cannot install signal handlers: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let bound = bind(&Listen::Tcp(config.listen))
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", config.listen))?;
    let address = match &bound {
        BoundListener::Tcp(listener) => {
            listener.local_addr().map_err(|error| format!("cannot listen on {}: {error}", config.listen))?
        }
        BoundListener::Unix(_) => {
            return Err("the API can listen on TCP addresses only: set --listen ADDR:PORT".into());
        }
    };
    let tasks = Tasks::new();
    let engine = open_engine(&config)?;
    let public_url = Some(config.public_url.clone()).filter(|url| !url.is_empty());
    let public_url = public_url.unwrap_or_else(|| format!("http://{address}"));
    let ready = hotdesk_controller::start(config, engine, &tasks).await.map_err(|error| error.to_string())?;
    if let Some(key) = &ready.first_key {
        output::line(&format!("account key (shown once): {}", key.reveal()))?;
    }
    if ready.set_up_open {
        output::line(&format!("to sign in, open {public_url}/set-up and show the account key"))?;
    }
    output::line(&hotdesk_controller::listening_line(address))?;
    let router = ready.router.clone();
    let group = tasks.clone();
    let _serving = tasks.spawn("serve", async move { serve(bound, router, &group).await });
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("controller is stopping; computers continue to run");
    let late = tasks.drain(DRAIN_TIMEOUT).await;
    if !late.is_empty() {
        tracing::warn!(?late, "tasks exceeded the shutdown timeout");
    }
    ready.close().await;
    Ok(())
}

/// `hotdesk purge`: removes every computer of a data folder from this host, with their disks. The store remains. The
/// guest image is not needed.
///
/// # Errors
/// When a controller uses the folder, or a machine cannot be removed. The other machines are removed nevertheless.
pub fn purge(options: &Options) -> Outcome<()> {
    let config = options.load()?;
    telemetry::init(&config.log, config.log_json)?;
    let _lock = lock::acquire(&config.data_dir).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the async runtime: {error}"))?;
    runtime.block_on(async {
        let container = |it| ContainerEngine::open_to_remove(it).map(shared);
        let engine = with_engine(&config, container, |it| QemuEngine::open_to_remove(it).map(shared))?;
        let machines = engine.list().await.map_err(|error| error.to_string())?;
        let (mut failures, mut removed) = (Vec::new(), Vec::new());
        for machine in machines {
            match engine.destroy(machine).await {
                Ok(()) => removed.push(format!("removed {machine}\n")),
                Err(error) => failures.push(format!("cannot remove {machine}: {error}")),
            }
        }
        let from = config.data_dir.display();
        let all = plural(u32::try_from(removed.len()).unwrap_or(u32::MAX), "computer");
        // Printed last, so that a closed standard output stops no removal.
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

/// Opens the configured engine with the constructor for its kind.
pub(crate) fn with_engine<T>(
    config: &Config,
    container: impl FnOnce(ContainerConfig) -> EngineResult<T>,
    qemu: impl FnOnce(QemuConfig) -> EngineResult<T>,
) -> Result<T, String> {
    let opened = match engine_config(config)? {
        EngineConfig::Container(config) => container(config),
        EngineConfig::Qemu(config) => qemu(config),
    };
    opened.map_err(|error| error.to_string())
}

/// Settings of the configured engine.
#[derive(Debug)]
pub enum EngineConfig {
    /// Containers.
    Container(ContainerConfig),
    /// Virtual machines.
    Qemu(QemuConfig),
}

/// Returns the settings of the configured engine.
///
/// # Errors
/// When the engine or the subnet is invalid, or the path of this program cannot be determined.
pub fn engine_config(config: &Config) -> Result<EngineConfig, String> {
    match config.engine.as_str() {
        "container" => container_config(config).map(EngineConfig::Container),
        "qemu" => container_config(config).map(|shared| {
            EngineConfig::Qemu(QemuConfig {
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
        unknown => Err(format!("unknown engine {unknown:?}: use container or qemu")),
    }
}

fn container_config(config: &Config) -> Result<ContainerConfig, String> {
    let settings = &config.container;
    Ok(ContainerConfig {
        state_dir: config.data_dir.clone(),
        runtime: settings.runtime.clone(),
        image: settings.image.clone(),
        agent_binary: std::env::current_exe()
            .map_err(|error| format!("cannot determine the path of this program: {error}"))?,
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
