//! `hotdesk agent`: options and start of the in-guest agent.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

use super::allocator;
use hotdesk_agent::display::ScreenSession;
use hotdesk_agent::display::config::SESSION_DIR;
use hotdesk_agent::exec::session::IDLE;
use hotdesk_agent::server::config::{AgentConfig, Display};
use hotdesk_base::telemetry;
use hotdesk_domain::desktop::resolution::Resolution;
use hotdesk_http::serve::Listen;

/// Options of `hotdesk agent`.
#[derive(Debug, Args)]
pub struct Options {
    /// Listen address: ADDR:PORT, unix:PATH, or fd:NUMBER for an inherited unix socket.
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:8585")]
    listen: Listen,
    /// Allow a listen address that other hosts can reach. The token gives root access.
    #[arg(long)]
    allow_remote: bool,
    /// Token file, readable by its owner only. Default: generate a token and print its path.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Size of the boot screen.
    #[arg(long, value_name = "WIDTHxHEIGHTxDEPTH", default_value_t)]
    resolution: Resolution,
    /// Boot screen: `own` or `own:NUMBER` starts an X server (default :99), `:NUMBER` uses a running one,
    /// `none` disables screens.
    #[arg(long, value_name = "DISPLAY", default_value = "own")]
    display: Display,
    /// Session scripts for its own screen: `embedded` ones, those in DIR, or `none`.
    #[arg(long, value_name = "DIR", default_value = "embedded", value_parser = parse_session)]
    session: ScreenSession,
    /// Folder where the session publishes its environment.
    #[arg(long, value_name = "DIR", default_value = SESSION_DIR)]
    session_dir: PathBuf,
    /// Folder for sockets and other runtime files.
    #[arg(long, value_name = "DIR", default_value = "/run/hotdesk-agent")]
    runtime_dir: PathBuf,
    /// Keep `CAP_SYS_ADMIN` from all programs that the agent starts. It needs it to set the host name after a fork.
    #[arg(long, hide = true)]
    confine_admin: bool,
    /// Home folder of the user.
    #[arg(long, value_name = "DIR", default_value = "/root")]
    home: PathBuf,
    /// Idle timeout of Python sessions.
    #[arg(long, value_name = "SECONDS", default_value_t = IDLE.as_secs())]
    session_idle: u64,
    /// Log filter, for example `info,hotdesk=debug`.
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log: String,
}

fn parse_session(text: &str) -> Result<ScreenSession, std::convert::Infallible> {
    Ok(match text {
        "embedded" => ScreenSession::Embedded,
        "none" => ScreenSession::None,
        folder => ScreenSession::Folder(PathBuf::from(folder)),
    })
}

/// Runs an agent until a signal stops it.
///
/// # Errors
/// When the agent cannot start, for example because its address is in use.
pub fn run(options: Options) -> Result<(), String> {
    telemetry::init(&options.log, false)?;
    // Before any thread starts: `hotdesk init` blocks signals, and threads inherit the mask.
    hotdesk_agent::system::unblock_signals()?;
    if options.confine_admin {
        // Of this thread, which all others and all programs inherit.
        remove_capability_from_bounding_set(CapabilitySet::SYS_ADMIN)
            .map_err(|error| format!("cannot confine CAP_SYS_ADMIN to the agent: {error}"))?;
    }
    allocator::bound_heaps().map_err(|error| format!("cannot set up the allocator (mallopt): {error}"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the async runtime: {error}"))?;
    let config = AgentConfig {
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
    Ok(runtime.block_on(hotdesk_agent::server::run(config))?)
}
