//! Periodic work: sweeps, metrics, auto-stop, ends of trials, saved states, audit log, credential checks,
//! expired agent accounts, ends of streams, old usage, the engine's maintenance, boot snapshots, the pool, the guard of
//! the host's disk, unused layers of templates, downloads of builds, throw-away computers, timelines, the watch of hosts,
//! drains of hosts, replicas.

use std::sync::Arc;
use std::time::Duration;

pub mod auto_stop;
mod disk_guard;
mod expired_agents;
pub mod host_report;
mod host_watch;
mod hosts;
mod replicas;
pub mod trials;

use crate::api::idempotency;
use crate::audit::timeline;
use crate::identity::auth::{credential_uses, revocation};
use crate::{AppState, audit};
use hotdesk_base::clock;
use hotdesk_domain::billing::usage::retained_since;
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::error::{Error, Result};
use hotdesk_guest::QUICK_TIMEOUT;

/// Time between two sweeps. A screenshot outlives its hour by at most this.
const SWEEP_INTERVAL: Duration = Duration::from_secs(300);
/// Time between two counts of computers for the metrics.
const COUNT_INTERVAL: Duration = Duration::from_secs(15);

/// Time between two removals of expired agent accounts.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(60);
/// Time between two timestamps of running computers. If the controller dies, at most this much of their use
/// is not charged.
const STAMP_INTERVAL: Duration = Duration::from_secs(60);

/// Time between two attempts to end streams whose owner lost access. It equals the time in which an agent
/// must answer.
const END_STREAMS_INTERVAL: Duration = QUICK_TIMEOUT;

/// Time between two removals of old usage records. Usage is reported by month, so an hour is frequent enough.
const FORGET_USAGE_INTERVAL: Duration = Duration::from_secs(3600);

/// Time between two removals of unused layers of templates, which stay for a day, and of old downloads of builds.
const LAYER_SWEEP_INTERVAL: Duration = Duration::from_secs(3600);

/// Time between two removals of throw-away computers, which live for an hour.
const RUN_SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Time between two rounds of the engine's maintenance. It balances computers over the host's CPUs; a burst of work that is
/// shorter does not pay for a move.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(2);

/// Starts all periodic work.
pub fn start(app: &AppState) {
    repeat(app, "sweep", SWEEP_INTERVAL, sweep);
    repeat(app, "count-computers", COUNT_INTERVAL, count_computers);
    repeat(app, "template layers", LAYER_SWEEP_INTERVAL, |app| async move {
        app.templates.remove_unused_layers().await
    });
    repeat(app, "downloads of builds", LAYER_SWEEP_INTERVAL, |app| async move {
        app.templates.remove_old_downloads().await
    });
    repeat(app, "throw-away computers", RUN_SWEEP_INTERVAL, |app| async move {
        app.templates.delete_expired_runs().await
    });
    repeat(app, "audit", audit::WRITE_INTERVAL, |app| async move { app.audit.write().await });
    repeat(app, "timelines", timeline::FETCH_INTERVAL, |app| async move {
        app.fleet.timelines().fetch_active(app.fleet.used_guests());
        Ok(())
    });
    repeat(app, "last-used", credential_uses::WRITE_INTERVAL, |app| async move {
        app.credential_uses.write().await
    });
    repeat(app, "ended-credentials", revocation::CHECK_INTERVAL, end_revoked);
    repeat(app, "auto-stop", app.config.auto_stop.every, |app| async move {
        app.auto_stop.check_computers().await
    });
    repeat(
        app,
        "ended trials",
        app.config.auto_stop.every,
        |app| async move { app.trials.end_expired().await },
    );
    repeat(app, "agents' accounts", EXPIRY_INTERVAL, expired_agents::remove_expired);
    repeat(app, "stamp-running", STAMP_INTERVAL, stamp_running);
    repeat(app, "streams to end", END_STREAMS_INTERVAL, |app| async move { app.streams.retry().await });
    repeat(app, "old usage", FORGET_USAGE_INTERVAL, forget_old_usage);
    repeat(app, "maintenance of machines", MAINTENANCE_INTERVAL, |app| async move {
        let stop = app.tasks.stopping();
        // As in the guard of the disk: a helper that is gone must not delay the stop.
        tokio::select! {
            maintained = app.fleet.engine().maintain() => maintained.map_err(Error::internal),
            () = stop.cancelled() => Ok(()),
        }
    });
    app.fleet.start_boot_snapshots();
    app.fleet.start_pool();
    disk_guard::start(app);
    host_watch::start(app);
    replicas::start(app);
    hosts::start_drains(app);
    repeat(app, "metrics of hosts", hosts::MEASURE_INTERVAL, hosts::measure);
    if let Some(archive) = app.fleet.state_archive() {
        let (archive, fleet) = (Arc::clone(archive), app.fleet.clone());
        let stop = app.tasks.stopping();
        let maintained = async move { archive.run(&stop, |id, evict| fleet.check_copy(id, evict)).await };
        let _task = app.tasks.spawn("copies in storage", maintained);
    }
}

fn repeat<F: Future<Output = Result<()>> + Send>(
    app: &AppState,
    name: &'static str,
    every: Duration,
    work: impl Fn(AppState) -> F + Send + 'static,
) {
    let (app, stop) = (Arc::clone(app), app.tasks.stopping());
    let tasks = app.tasks.clone();
    let _task = tasks.spawn(name, async move {
        loop {
            if let Err(error) = work(Arc::clone(&app)).await {
                tracing::warn!(
                    error = format_args!("{error:#}"),
                    name,
                    "background work failed; it is retried"
                );
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(every) => {}
            }
        }
    });
}

/// Ends requests and MCP sessions whose credential is gone.
async fn end_revoked(app: AppState) -> Result<()> {
    // The controller knows its own revocations without the store, whose answer can take seconds.
    app.mcp.close_ended().await;
    let ended = revocation::end_removed(&app.store).await;
    app.mcp.close_ended().await;
    ended
}

async fn sweep(app: AppState) -> Result<()> {
    app.rates.forget_idle();
    app.oauth.sweep();
    app.audit.trim(&app.config.audit).await?;
    idempotency::sweep(&app).await?;
    app.threads.sweep().await?;
    app.runs.sweep().await?;
    app.fleet.timelines().sweep().await?;
    app.fleet.snapshot_pictures().sweep().await?;
    let known = app.store.file_ids().await?;
    let blobs = app.blobs.clone();
    let removed =
        hotdesk_base::tasks::spawn_blocking(move || blobs.sweep(&known)).await.map_err(Error::internal)??;
    if removed > 0 {
        tracing::debug!(removed, "removed old blobs");
    }
    Ok(())
}

/// Stores for each reachable computer that it runs now. Billing uses these timestamps.
async fn stamp_running(app: AppState) -> Result<()> {
    app.store.mark_running(&app.fleet.running_computers()).await
}

/// Removes usage records that are past their retention.
async fn forget_old_usage(app: AppState) -> Result<()> {
    app.store.forget_usage(retained_since(clock::now())).await
}

async fn count_computers(app: AppState) -> Result<()> {
    let counts = app.store.count_computers().await?;
    for status in Status::ALL {
        let count: u64 = counts.iter().filter(|it| it.status == status).map(|it| it.count).sum();
        metrics::gauge!("hotdesk_computers", "status" => status.name()).set(count as f64);
    }
    for isolation in Isolation::ALL {
        let count: u64 = counts.iter().filter(|it| it.isolation == isolation).map(|it| it.count).sum();
        metrics::gauge!("hotdesk_computers_by_isolation", "isolation" => isolation.name()).set(count as f64);
    }
    Ok(())
}
