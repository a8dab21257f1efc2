//! `hotdesk host`: the host helper, which makes the machines of a controller without privileges.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tokio::signal::unix::{SignalKind, signal};

use super::serve::{self, BLOCKED_TIMEOUT, DRAIN_TIMEOUT};
use super::{allocator, privileges};
use crate::failure::Outcome;
use crate::output;
use hotdesk_base::tasks::Tasks;
use hotdesk_base::telemetry;
use hotdesk_controller::config::Config;
use hotdesk_controller::data_dir::{lock, relocation};
use hotdesk_engine::{AgentClient, OpenMode, remote};

/// Bits of a mode that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;

/// Runs the helper until SIGTERM or SIGINT. Computers continue to run.
///
/// # Errors
/// When the configuration names no socket or no user, another process uses the machines, or the engine cannot start.
pub fn run(options: &serve::Options) -> Outcome<()> {
    let config = options.load()?;
    telemetry::init(&config.log, config.log_json)?;
    if !config.host.is_used() {
        return Err("host.socket is empty: set it to the path at which controllers reach this helper"
            .to_owned()
            .into());
    }
    let client = config.host.client()?;
    privileges::restrict_host_helper()?;
    // A core dump would contain tokens (T24, docs/security.md).
    nix::sys::prctl::set_dumpable(false)
        .map_err(|error| format!("cannot disable core dumps (prctl): {error}"))?;
    allocator::return_large_blocks()
        .and_then(|()| allocator::bound_heaps())
        .map_err(|error| format!("cannot set up the allocator (mallopt): {error}"))?;
    relocation::prepare(&config, client)?;
    check_owner(config.machines_dir())?;
    let _lock = lock::acquire_machines(config.machines_dir())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the async runtime: {error}"))?;
    let outcome = runtime.block_on(run_until_signal(&config, client));
    runtime.shutdown_timeout(BLOCKED_TIMEOUT);
    outcome
}

/// Refuses a folder that the controller's user, or anyone but root, could replace by a link to another one.
fn check_owner(folder: &Path) -> Outcome<()> {
    let shown = folder.display();
    let found = folder.metadata().map_err(|error| format!("cannot read the owner of {shown}: {error}"))?;
    if found.uid() == 0 && found.mode() & OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(format!(
        "{shown} must belong to root, and only root may write to it; its folder `store` is the controller's"
    )
    .into())
}

async fn run_until_signal(config: &Config, client: AgentClient) -> Outcome<()> {
    let failed = |error: std::io::Error| format!("cannot install signal handlers: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let settings = config.engine_settings()?;
    serve::log_obstacles(&settings);
    let engine = hotdesk_engine::open(settings, OpenMode::Run)?;
    let listener = match remote::listener_of_systemd()? {
        Some(listener) => listener,
        None => remote::listen(&config.host.socket, client)?,
    };
    let tasks = Tasks::new();
    let serving = tasks.spawn("host helper", remote::serve(listener, engine, client, tasks.clone()));
    output::line(&format!("host helper is ready at {}", config.host.socket.display()))?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        ended = serving => {
            let ended = ended.ok().flatten().transpose()?;
            return Err(format!("the host helper accepts no more calls: {ended:?}").into());
        }
    }
    tracing::info!("host helper is stopping; computers continue to run");
    let late = tasks.drain(DRAIN_TIMEOUT).await;
    if !late.is_empty() {
        tracing::warn!(?late, "calls exceeded the shutdown timeout");
    }
    Ok(())
}
