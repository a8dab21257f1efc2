//! Floor 5: the in-guest face. One process in the computer that owns its screens, runs its commands and moves its
//! files, for whoever shows the token.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::SigSet;
use tokio::signal::unix::{SignalKind, signal};

pub mod acting;
pub mod activity;
pub mod audio;
pub mod config;
pub mod desktop;
pub mod display;
pub mod elements;
mod epoll;
pub mod events;
pub mod exec;
mod ffmpeg;
pub mod files;
pub mod hangup;
pub mod identity;
mod inherited;
pub mod init;
pub mod journal;
mod memory;
pub mod programs;
mod quiet;
mod reaped;
pub mod recording;
pub mod routes;
pub mod selftest;
pub mod state;
pub mod stream;
pub mod token;
pub mod vm;
pub mod vnc;

use audio::Audio;
use config::{Config, Display};
use desktop::{Desktop, Headless, Seen};
use display::Displays;
use exec::Commands;
use exec::process::Processes;
use exec::session::Sessions;
use exec::terminal::Terminals;
use journal::Journal;
use state::{Agent, Parts};
use token::Token;

use hotdesk_base::tally::Tally;
use hotdesk_base::tasks::Tasks;
use hotdesk_http::feed::Feed;
use hotdesk_http::serve::{self, Bound, Listen};

/// How long tasks may take to end: a connection's drain (10 s) is cut short, because by then every command has been
/// killed and answered.
const STOP_TIMEOUT: Duration = Duration::from_secs(4);

/// The folder of the journal of actions, in the runtime folder: it outlives the agent, not the computer's boot.
const JOURNAL: &str = "journal";

/// Runs an agent until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot start; the text names what failed.
pub async fn run(config: Config) -> Result<(), String> {
    let started = Instant::now();
    config.check()?;
    inherited::keep_from_commands().map_err(|error| format!("inherited descriptors: {error}"))?;
    // No core dumps, and no debugger of another user: the memory holds the token (threats.md T24).
    nix::sys::prctl::set_dumpable(false).map_err(|error| format!("PR_SET_DUMPABLE: {error}"))?;
    private_folder(&config.runtime_dir)?;
    let token = match &config.token_file {
        Some(path) => Token::given(path, &config.runtime_dir)?,
        None => {
            let (token, path) = Token::made(&config.runtime_dir)?;
            announce(&format!("token written to {}", path.display()))?;
            token
        }
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| format!("SIGTERM: {error}"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| format!("SIGINT: {error}"))?;
    let bound = serve::bind(&config.listen).await.map_err(|error| format!("{:?}: {error}", config.listen))?;
    let address = address(&bound, &config.listen);
    let tasks = Tasks::new();
    let displays = displays(&config, &tasks)?;
    let desktop: Arc<dyn Desktop> = match &displays {
        Some(displays) => Arc::new(Seen::new(displays.clone(), config.session_dir.clone())),
        None => Arc::new(Headless),
    };
    let journal = config.runtime_dir.join(JOURNAL);
    let journal = Journal::open(journal).map_err(|error| format!("the journal of actions: {error}"))?;
    let files = files::Files::new(&config.home);
    files.uploads.sweep_in(&tasks);
    let commands = Commands::new(config.home.clone(), Arc::clone(&desktop), tasks.clone());
    let feed = Feed::new();
    let sources = events::Sources {
        feed: feed.clone(),
        displays: displays.clone(),
        home: config.home.clone(),
        session_dir: config.session_dir.clone(),
    };
    events::watch(sources, &tasks);
    let agent = Agent::new(Parts {
        token,
        journal,
        files,
        sessions: Sessions::new(commands.clone(), config.session_idle),
        processes: Processes::new(commands.clone()),
        terminals: Terminals::new(commands.clone()),
        commands,
        home: config.home,
        audio: Audio::new(Arc::clone(&desktop)),
        desktop,
        channels: Tally::default(),
        answers: Tally::default(),
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
    // Commands, connections and screens together: a screen's session gets its own time to end inside this one.
    let late = tasks.drain(STOP_TIMEOUT).await;
    if !late.is_empty() {
        tracing::warn!(?late, "tasks did not end in time");
    }
    Ok(())
}

/// Starts the boot screen, where there is to be one.
fn displays(config: &Config, tasks: &Tasks) -> Result<Option<Displays>, String> {
    let (xserver, display_base) = match &config.display {
        Display::None => return Ok(None),
        Display::Own(number) => (display::XServer::Own { boot: config.resolution }, *number),
        Display::Attach(number) => (display::XServer::Attach(format!(":{number}")), *number),
    };
    let room = display::Config {
        xserver,
        session: config.session(),
        runtime_dir: config.runtime_dir.clone(),
        session_dir: config.session_dir.clone(),
        display_base,
    };
    Displays::start(room, tasks).map(Some).map_err(|error| error.to_string())
}

/// Lets every signal through to this thread and those it starts. A mask is inherited by every program that is started,
/// and one that blocks signals cannot be ended by the usual means.
///
/// # Errors
/// When the kernel refuses, which it has no reason to.
pub fn unblock_signals() -> Result<(), String> {
    SigSet::empty().thread_set_mask().map_err(|error| format!("signal mask: {error}"))
}

/// A line on standard output, for whoever started the agent.
fn announce(line: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| format!("standard output: {error}"))
}

fn address(bound: &Bound, listen: &Listen) -> String {
    match (bound, listen) {
        (Bound::Tcp(listener), _) => {
            listener.local_addr().map_or_else(|error| format!("(unknown: {error})"), |at| at.to_string())
        }
        (Bound::Unix(_), Listen::Unix(path)) => format!("unix:{}", path.display()),
        (Bound::Unix(_), Listen::Inherited(fd)) => format!("fd:{fd}"),
        (Bound::Unix(_), Listen::Tcp(address)) => address.to_string(),
    }
}

/// Makes a folder that only its owner enters; one that is there is closed to others.
fn private_folder(path: &Path) -> Result<(), String> {
    let fail = |error: std::io::Error| format!("folder {}: {error}", path.display());
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(fail)?;
    let facts = fs::symlink_metadata(path).map_err(fail)?;
    if !facts.is_dir() {
        return Err(format!("folder {}: is a symbolic link", path.display()));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(fail)
}
