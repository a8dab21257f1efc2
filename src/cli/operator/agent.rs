//! `hotdesk agent`: which options does it have?

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use hotdesk_agent::config::{Config, Display};
use hotdesk_agent::display::Session;
use hotdesk_agent::display::config::SESSION_DIR;
use hotdesk_agent::exec::session::IDLE;
use hotdesk_base::telemetry;
use hotdesk_domain::resolution::Resolution;
use hotdesk_http::serve::Listen;

/// Options of `hotdesk agent`.
#[derive(Debug, Args)]
pub struct Options {
    /// Where to listen: ADDR:PORT, unix:PATH, or fd:NUMBER for an inherited unix socket.
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:8585")]
    listen: Listen,
    /// Listen on an address that other hosts reach. Whoever has the token is root here.
    #[arg(long)]
    allow_remote: bool,
    /// File with the token, readable by its owner only. Without it a token is made and its path printed.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Size of the boot screen.
    #[arg(long, value_name = "WIDTHxHEIGHTxDEPTH", default_value_t)]
    resolution: Resolution,
    /// The boot screen: `own` starts an X server on :99, `own:NUMBER` on another, `:NUMBER` uses one that runs, `none` is
    /// commands and files only.
    #[arg(long, value_name = "DISPLAY", default_value = "own")]
    display: Display,
    /// What runs on a screen of our own: the scripts that are `embedded` in this program, those in DIR, or `none`.
    #[arg(long, value_name = "DIR", default_value = "embedded", value_parser = session)]
    session: Session,
    /// Where the session tells its environment.
    #[arg(long, value_name = "DIR", default_value = SESSION_DIR)]
    session_dir: PathBuf,
    /// Folder for what lasts as long as the agent.
    #[arg(long, value_name = "DIR", default_value = "/run/hotdesk-agent")]
    runtime_dir: PathBuf,
    /// Home folder of the computer's user.
    #[arg(long, value_name = "DIR", default_value = "/root")]
    home: PathBuf,
    /// Python sessions without a call for this long are ended.
    #[arg(long, value_name = "SECONDS", default_value_t = IDLE.as_secs())]
    session_idle: u64,
    /// Which messages are logged, for example `info,hotdesk=debug`.
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log: String,
}

fn session(text: &str) -> Result<Session, std::convert::Infallible> {
    Ok(match text {
        "embedded" => Session::Embedded,
        "none" => Session::None,
        folder => Session::Folder(PathBuf::from(folder)),
    })
}

/// Runs an agent until it is told to stop.
///
/// # Errors
/// When it cannot start.
pub fn run(options: Options) -> Result<(), String> {
    telemetry::init(&options.log, false)?;
    // Before any thread starts, so that none inherits what `hotdesk init` blocks for itself.
    hotdesk_agent::unblock_signals()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("tokio: {error}"))?;
    let config = Config {
        listen: options.listen,
        allow_remote: options.allow_remote,
        token_file: options.token_file,
        resolution: options.resolution,
        display: options.display,
        runtime_dir: options.runtime_dir,
        session: options.session,
        session_dir: options.session_dir,
        home: options.home,
        session_idle: Duration::from_secs(options.session_idle),
    };
    runtime.block_on(hotdesk_agent::run(config))
}
