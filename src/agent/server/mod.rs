//! Start and stop of an agent: the composition root.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

pub mod config;

use crate::display::desktop::{Desktop, Headless, X11Desktop};
use crate::display::{self, Displays};
use crate::events;
use crate::exec::Commands;
use crate::exec::process::Processes;
use crate::exec::services::Services;
use crate::exec::session::Sessions;
use crate::exec::terminal::Terminals;
use crate::files::Files;
use crate::media::audio::Audio;
use crate::media::timeline::Timelines;
use crate::routes;
use crate::state::journal::Journal;
use crate::state::token::Token;
use crate::state::{Agent, Parts};
use crate::system::env_file::EnvFile;
use crate::system::inherited;
use config::{AgentConfig, Display};

use hotdesk_base::keyed_semaphore::KeyedSemaphore;
use hotdesk_base::step_error::StepError;
use hotdesk_base::tasks::Tasks;
use hotdesk_http::feed::Feed;
use hotdesk_http::serve::{self, BoundListener, Listen};

/// How long tasks may take to end. It cuts the drain of a connection (10 s) short, because every command has
/// been killed and answered by then.
const STOP_TIMEOUT: Duration = Duration::from_secs(4);

/// Folder of the request journal in the runtime folder: it outlives the agent, but not the boot of the
/// computer.
const JOURNAL: &str = "journal";

/// Runs an agent until SIGTERM or SIGINT.
///
/// # Errors
/// When the agent cannot start; the error names the step that failed.
pub async fn run(config: AgentConfig) -> Result<(), StepError> {
    let started = Instant::now();
    config.check()?;
    inherited::close_on_exec().map_err(StepError::at("inherited descriptors"))?;
    // No core dumps, and no debugger of another user: the memory holds the token (T24, docs/security.md).
    nix::sys::prctl::set_dumpable(false).map_err(StepError::at("PR_SET_DUMPABLE"))?;
    private_folder(&config.runtime_dir)?;
    let token = match &config.token_file {
        Some(path) => Token::from_file(path, &config.runtime_dir)?,
        None => {
            let (token, path) = Token::generate(&config.runtime_dir)?;
            announce(&format!("token written to {}", path.display()))?;
            token
        }
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(StepError::at("SIGTERM"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(StepError::at("SIGINT"))?;
    let bound = serve::bind(&config.listen).await.map_err(StepError::at(format!("{:?}", config.listen)))?;
    let address = address(&bound, &config.listen);
    let tasks = Tasks::new();
    let feed = Feed::new();
    let displays = displays(&config, feed.clone(), &tasks)?;
    let desktop: Arc<dyn Desktop> = match &displays {
        Some(displays) => Arc::new(X11Desktop::new(displays.clone(), config.session_dir.clone())),
        None => Arc::new(Headless),
    };
    let journal = config.runtime_dir.join(JOURNAL);
    let journal = Journal::open(journal).map_err(StepError::at("request journal"))?;
    let files = Files::new(&config.home);
    files.uploads.start_cleanup(&tasks);
    let commands = Commands::new(config.home.clone(), Arc::clone(&desktop), tasks.clone());
    let sources = events::Sources {
        feed: feed.clone(),
        displays: displays.clone(),
        home: config.home.clone(),
        session_dir: config.session_dir.clone(),
    };
    events::watch(sources, &tasks);
    let secrets = EnvFile::new(&config.runtime_dir, &config.home).path().to_owned();
    let services =
        Services::new(&config.runtime_dir, secrets, Arc::clone(&desktop), feed.clone(), tasks.clone());
    services.recover();
    let agent = Agent::new(Parts {
        token,
        journal,
        files,
        sessions: Sessions::new(commands.clone(), config.session_idle),
        processes: Processes::new(commands.clone()),
        services,
        terminals: Terminals::new(commands.clone()),
        commands,
        home: config.home,
        runtime_dir: config.runtime_dir,
        audio: Audio::new(Arc::clone(&desktop)),
        timelines: Timelines::new(tasks.clone()),
        desktop,
        channels: KeyedSemaphore::default(),
        answers: KeyedSemaphore::default(),
        feed,
        tasks: tasks.clone(),
        started,
    });
    let router = routes::router(agent, displays);
    announce(&format!("agent listening on {address}"))?;
    tokio::select! {
        () = serve::serve(bound, router, &tasks) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    // One timeout for commands, connections and screens: the timeout of a screen's session is shorter.
    let late = tasks.drain(STOP_TIMEOUT).await;
    if !late.is_empty() {
        tracing::warn!(?late, "background tasks did not end in time; the agent exits without them");
    }
    Ok(())
}

/// Starts the boot screen if one is configured.
fn displays(config: &AgentConfig, feed: Feed, tasks: &Tasks) -> Result<Option<Displays>, StepError> {
    let (xserver, display_base) = match &config.display {
        Display::None => return Ok(None),
        Display::Own(number) => (display::XServer::Own { boot: config.resolution }, *number),
        Display::Attach(number) => (display::XServer::Attach(format!(":{number}")), *number),
    };
    let screens = display::DisplayConfig {
        xserver,
        session: config.session(),
        runtime_dir: config.runtime_dir.clone(),
        session_dir: config.session_dir.clone(),
        display_base,
        feed,
    };
    Displays::start(screens, tasks).map(Some).map_err(StepError::at("displays"))
}

/// Writes a line to standard output, for the program that started the agent.
fn announce(line: &str) -> Result<(), StepError> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(StepError::at("standard output"))
}

fn address(bound: &BoundListener, listen: &Listen) -> String {
    match (bound, listen) {
        (BoundListener::Tcp(listener) | BoundListener::Tls(listener, _), _) => {
            listener.local_addr().map_or_else(|error| format!("(unknown: {error})"), |at| at.to_string())
        }
        (BoundListener::Unix(_), Listen::Unix(path)) => format!("unix:{}", path.display()),
        (BoundListener::Unix(_), Listen::Inherited(fd)) => format!("fd:{fd}"),
        (BoundListener::Unix(_), Listen::Tcp(address)) => address.to_string(),
    }
}

/// Creates a folder with mode 0700, or sets that mode on an existing one.
fn private_folder(path: &Path) -> Result<(), StepError> {
    let step = format!("folder {}", path.display());
    let fail = StepError::at(&step);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(&fail)?;
    let facts = fs::symlink_metadata(path).map_err(&fail)?;
    if !facts.is_dir() {
        return Err(StepError::new(format!("{step}: is a symbolic link")));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(fail)
}
