//! `hotdesk serve` and `hotdesk purge`: start and shutdown of the controller, and removal of its computers.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{allocator, privileges};
use crate::failure::{Failure, Outcome};
use crate::output;
use hotdesk_base::tasks::Tasks;
use hotdesk_base::telemetry;
use hotdesk_base::time::deadline::SharedDeadline;
use hotdesk_controller::Controller;
use hotdesk_controller::config::{Config, Flags};
use hotdesk_controller::data_dir::lock::{self, DataDirLock};
use hotdesk_controller::relay::peers::{Candidate, Switch};
use hotdesk_domain::plural::plural;
use hotdesk_engine::remote::RemoteEngine;
use hotdesk_engine::{Check, Engine, EngineSettings, Finding, OpenMode};
use hotdesk_http::serve::{BoundListener, Tls, serve};
use hotdesk_store::database::{Epoch, LeaseClient, LeaseWatch};

/// Beginning of the line with the key of a new data folder; the rest of the line is the key.
pub(super) const KEY_LINE: &str = "account key (shown once): ";
/// Timeout of tasks after a stop signal. The log names those that exceed it.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);
/// Additional timeout of blocking host operations, which cannot be cancelled. Both together are below the 30 s after
/// which systemd kills the process.
pub(super) const BLOCKED_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of the release of the lease; without it, the lease ends by itself.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);

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
    /// Isolations that computers may have, the default first: sandbox, shared, vm.
    #[arg(long, value_name = "LIST")]
    pub isolations: Option<String>,
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
    pub fn load(&self) -> Outcome<Config> {
        let flags = Flags {
            data_dir: self.data_dir.clone(),
            listen: self.listen,
            isolations: self.isolations.clone(),
            image: self.image.clone(),
            stream_allow_private: self.stream_allow_private,
        };
        Ok(Config::load(self.config.as_deref(), &flags)?)
    }
}

/// Runs a controller until SIGTERM or SIGINT. Its computers continue to run.
///
/// # Errors
/// When the configuration is invalid, another controller uses the data folder, or the controller cannot start.
pub fn run(options: &Options) -> Outcome<()> {
    let config = options.load()?;
    telemetry::init(&config.log, config.log_json)?;
    if config.engines.incus.is_used() {
        raise_open_files()?;
    }
    let remote = if config.host.is_used() { Some(give_up_privileges(&config)?) } else { None };
    // A core dump would contain keys (T24, docs/security.md).
    nix::sys::prctl::set_dumpable(false)
        .map_err(|error| format!("cannot disable core dumps (prctl): {error}"))?;
    allocator::return_large_blocks()
        .and_then(|()| allocator::bound_heaps())
        .map_err(|error| format!("cannot set up the allocator (mallopt): {error}"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the async runtime: {error}"))?;
    let outcome = runtime.block_on(run_until_signal(config, remote));
    // The next controller finishes interrupted operations, as after a kill.
    runtime.shutdown_timeout(BLOCKED_TIMEOUT);
    outcome
}

/// Raises the limit of open files to the most that this process may have. Over Incus each computer that runs takes a socket here,
/// and four connections to the cluster. With other engines the programs of computers would inherit the limit.
fn raise_open_files() -> Outcome<()> {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
    Ok(raised.map_err(|error| format!("cannot raise the limit of open files (setrlimit): {error}"))?)
}

async fn run_until_signal(config: Config, remote: Option<RemoteEngine>) -> Outcome<()> {
    let mut signals = StopSignals::install()?;
    let _locks = acquire_locks(&config)?;
    let files = config.certificate_files()?;
    let tls = files.map(Tls::new).transpose().map_err(|error| format!("cannot set up TLS: {error}"))?;
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", config.listen))?;
    let address =
        listener.local_addr().map_err(|error| format!("cannot listen on {}: {error}", config.listen))?;
    let tasks = Tasks::new();
    let (scheme, bound) = match tls {
        None => ("http", BoundListener::Tcp(listener)),
        Some(tls) => {
            follow_renewals(tls.clone(), &tasks);
            ("https", BoundListener::Tls(listener, tls))
        }
    };
    let candidate = Candidate::open(&config, &tasks).await?;
    let service = Service { config, tasks, scheme, address };
    match candidate {
        None => service.serve_alone(remote, bound, &mut signals).await,
        Some(candidate) => service.serve_among_several(candidate, bound, &mut signals).await,
    }
}

/// Signals that stop the controller.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn install() -> Outcome<Self> {
        let failed = |error: std::io::Error| format!("cannot install signal handlers: {error}");
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
        })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The controller of this process, whose listener is bound.
struct Service {
    config: Config,
    tasks: Tasks,
    scheme: &'static str,
    address: SocketAddr,
}

impl Service {
    /// Serves as the only controller of the database.
    async fn serve_alone(
        &self,
        remote: Option<RemoteEngine>,
        bound: BoundListener,
        signals: &mut StopSignals,
    ) -> Outcome<()> {
        let engine: Arc<dyn Engine> = match remote {
            Some(remote) => Arc::new(remote),
            None => open_engine(&self.config, SharedDeadline::default())?,
        };
        let ready = hotdesk_controller::start(self.config.clone(), engine, &self.tasks).await?;
        self.print_first_start(&ready)?;
        self.print_listening()?;
        let (router, group) = (ready.router.clone(), self.tasks.clone());
        let _serving = self.tasks.spawn("serve", async move { serve(bound, router, &group).await });
        signals.received().await;
        self.drain().await;
        ready.close().await;
        Ok(())
    }

    /// Forwards requests to the leader until this controller leads itself.
    async fn serve_among_several(
        &self,
        mut candidate: Candidate,
        bound: BoundListener,
        signals: &mut StopSignals,
    ) -> Outcome<()> {
        let (router, group) = (candidate.router(), self.tasks.clone());
        let _serving = self.tasks.spawn("serve", async move { serve(bound, router, &group).await });
        let (epoch, is_first) = match candidate.request().await {
            Some(epoch) => (epoch, true),
            None => {
                self.print_listening()?;
                let won = tokio::select! {
                    epoch = candidate.campaign() => Some(epoch),
                    () = signals.received() => None,
                };
                let Some(epoch) = won else {
                    self.drain().await;
                    candidate.release().await;
                    return Ok(());
                };
                (epoch, false)
            }
        };
        tracing::info!(?epoch, "this controller leads");
        let (switch, lease) = candidate.take_over().await?;
        watch_lease(lease.watch())?;
        let acts_until = lease.watch().deadline();
        // It outlives the other tasks, whose writes need the lease.
        let lease_tasks = Tasks::new();
        let ended = lease_tasks.clone();
        let _keeping = lease_tasks.spawn("lease", async move { keep_lease(lease, epoch, &ended).await });
        let led = self.lead(&switch, (epoch, acts_until), is_first, signals).await;
        let is_idle = match &led {
            Ok(is_idle) => *is_idle,
            // A start that failed may have begun tasks.
            Err(_) => self.drain().await,
        };
        // A late task may act on computers until this process ends. The lease is then renewed until the runtime shuts down, and
        // holds for longer than BLOCKED_TIMEOUT after that.
        if is_idle {
            let _late = lease_tasks.drain(RELEASE_TIMEOUT).await;
        }
        led.map(drop)
    }

    /// Opens the application and serves it until a signal. Returns whether all its tasks have ended.
    async fn lead(
        &self,
        switch: &Switch,
        (epoch, acts_until): (Epoch, SharedDeadline),
        is_first: bool,
        signals: &mut StopSignals,
    ) -> Outcome<bool> {
        let engine = open_engine(&self.config, acts_until)?;
        let ready =
            hotdesk_controller::start_leading(self.config.clone(), engine, &self.tasks, epoch).await?;
        switch.lead(ready.router.clone());
        self.print_first_start(&ready)?;
        if is_first {
            self.print_listening()?;
        }
        signals.received().await;
        let is_idle = self.drain().await;
        ready.close().await;
        Ok(is_idle)
    }

    /// Prints what the first start of a service shows.
    fn print_first_start(&self, ready: &Controller) -> Outcome<()> {
        if let Some(key) = &ready.first_key {
            output::line(&format!("{KEY_LINE}{}", key.reveal()))?;
        }
        if ready.set_up_open {
            let public_url = Some(self.config.public_url.clone()).filter(|url| !url.is_empty());
            let public_url = public_url.unwrap_or_else(|| format!("{}://{}", self.scheme, self.address));
            output::line(&format!("to sign in, open {public_url}/set-up and show the account key"))?;
        }
        Ok(())
    }

    fn print_listening(&self) -> Outcome<()> {
        output::line(&hotdesk_controller::listening_line(self.scheme, self.address))
    }

    /// Stops all tasks. Returns whether they have ended.
    async fn drain(&self) -> bool {
        tracing::info!("controller is stopping; computers continue to run");
        let late = self.tasks.drain(DRAIN_TIMEOUT).await;
        if !late.is_empty() {
            tracing::warn!(?late, "tasks exceeded the shutdown timeout");
        }
        late.is_empty()
    }
}

/// Renews the lease until the tasks end, and then releases it. Ends this process when the lease is lost: nothing of it may
/// act any more, and the next start is a follower.
async fn keep_lease(mut lease: LeaseClient, epoch: Epoch, tasks: &Tasks) {
    let stop = tasks.stopping();
    let lost = tokio::select! {
        why = lease.keep(epoch) => Some(why),
        () = stop.cancelled() => None,
    };
    match lost {
        Some(why) => end_leadership(why),
        None => lease.release().await,
    }
}

/// Ends this process when the lease runs out, also while all threads of the runtime are blocked, for example by a file system
/// that does not answer.
fn watch_lease(watch: LeaseWatch) -> Outcome<()> {
    let watching = std::thread::Builder::new().name("lease".to_owned()).spawn(move || {
        if watch.has_run_out() {
            end_leadership("it could not be renewed in time");
        }
    });
    Ok(watching.map(drop).map_err(|error| format!("cannot start the thread of the lease: {error}"))?)
}

fn end_leadership(why: &str) -> ! {
    tracing::error!("this controller leads no more, and ends at once: its lease is lost, because {why}");
    std::process::abort();
}

/// Makes this process, which has one thread, a controller without privileges, and connects it to its helper.
fn give_up_privileges(config: &Config) -> Outcome<RemoteEngine> {
    privileges::become_controller(config.host.client()?)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the async runtime: {error}"))?;
    // The helper makes the store's folder, and moves an earlier store there, before it answers.
    let remote = runtime.block_on(RemoteEngine::connect(config.host.socket.clone()))?;
    privileges::limit_files(config)?;
    Ok(remote)
}

/// Takes the locks of what this process uses; the helper has that of the machines.
fn acquire_locks(config: &Config) -> Outcome<Vec<DataDirLock>> {
    if config.host.is_used() {
        return Ok(vec![lock::acquire(&config.store_dir_of_client())?]);
    }
    Ok(lock::acquire_all(config)?.into())
}

/// Opens the engine in this process. It changes nothing after the end of the lease of a controller that is one of several.
fn open_engine(config: &Config, acts_until: SharedDeadline) -> Outcome<Arc<dyn Engine>> {
    let mut settings = config.engine_settings()?;
    settings.host.acts_until = acts_until;
    log_obstacles(&settings);
    Ok(hotdesk_engine::open(settings, OpenMode::Run)?)
}

/// Uses renewed certificates until the tasks stop.
fn follow_renewals(tls: Tls, tasks: &Tasks) {
    let stop = tasks.stopping();
    let _following = tasks.spawn("certificate", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = tls.follow_renewals() => {}
        }
    });
}

/// Logs what prevents this host from running computers, with the remedies. Only quick checks run: the start does not wait
/// for those that try a guest.
pub(super) fn log_obstacles(settings: &EngineSettings) {
    let checks = hotdesk_engine::checks(settings).into_iter().flat_map(|engine| engine.checks);
    let quick = checks.filter(|check| check.is_quick);
    // Several engines need the same of the host.
    let mut logged = BTreeSet::new();
    for Finding { what, detail, remedy, .. } in quick.map(Check::run).filter(|finding| !finding.ok) {
        if !logged.insert((what.clone(), detail.clone())) {
            continue;
        }
        tracing::warn!(
            "this host cannot run computers: {what}: {detail}; to fix it: {remedy} (`hotdesk doctor` checks everything)"
        );
    }
}

/// `hotdesk purge`: removes every computer of a data folder from this host, with their disks, all layers, and what the last
/// computer leaves of the host's network. The store remains. The guest image is not needed.
///
/// # Errors
/// When a controller uses the folder, or a machine cannot be removed. The other machines are removed nevertheless.
pub fn purge(options: &Options) -> Outcome<()> {
    let config = options.load()?;
    telemetry::init(&config.log, config.log_json)?;
    let _locks = lock::acquire_all(&config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the async runtime: {error}"))?;
    runtime.block_on(async {
        let engine = hotdesk_engine::open(config.all_engine_settings()?, OpenMode::Remove)?;
        let machines = engine.list().await?;
        let (mut failures, mut removed) = (Vec::new(), Vec::new());
        for machine in machines {
            match engine.destroy(machine).await {
                Ok(()) => removed.push(format!("removed {machine}\n")),
                Err(error) => failures.push(format!("cannot remove {machine}: {error:#}")),
            }
        }
        for layer in engine.layers().await? {
            if let Err(error) = engine.remove_layer(layer).await {
                failures.push(format!("cannot remove layer {layer}: {error:#}"));
            }
        }
        // Nothing is left to do while computers of other data folders run, or where this host had none.
        if !config.engines.incus.is_used()
            && let Err(error) = hotdesk_engine::release_host()
        {
            failures.push(format!("cannot restore the host's network: {error:#}"));
        }
        let from = config.data_dir.display();
        let all = plural(u32::try_from(removed.len()).unwrap_or(u32::MAX), "computer");
        // Printed last, so that a closed standard output stops no removal.
        output::line(&format!("{}Removed {all} of {from} from this host.", removed.concat()))?;
        if failures.is_empty() { Ok(()) } else { Err(Failure::Failed(failures.join("; "))) }
    })
}
