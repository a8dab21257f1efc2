//! Refresh of replicas, one at a time, and removal of those that nobody wants.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::AppState;
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::host::outage::ReplicaState;
use hotdesk_domain::host::replica::{RefreshCandidate, next_refresh};
use hotdesk_engine::EngineError;
use hotdesk_store::fleet::computers::Computer;

/// Pause between two looks for replicas to refresh. The shortest interval is a minute.
const LOOK_PAUSE: Duration = Duration::from_secs(10);
/// Time between two looks for replicas without a computer, which a host that did not answer may have left.
const SWEEP_INTERVAL: Duration = Duration::from_secs(300);

/// Starts the refreshes, where an engine can replicate.
pub(super) fn start(app: &AppState) {
    if !app.fleet.engine().offers().all().any(|offer| offer.capabilities.replicate) {
        return;
    }
    let (app, stop) = (Arc::clone(app), app.tasks.stopping());
    let tasks = app.tasks.clone();
    let _task = tasks.spawn("replicas", async move {
        // A refresh that is cut off here goes on in the cluster, and the next one is whole again.
        tokio::select! {
            () = stop.cancelled() => {}
            never = refresh_forever(&app) => match never {},
        }
    });
}

async fn refresh_forever(app: &AppState) -> Infallible {
    let mut swept: Option<Instant> = None;
    loop {
        if let Err(error) = work(app, &mut swept).await {
            tracing::warn!(
                error = format_args!("{error:#}"),
                "could not look for replicas to refresh; it is retried"
            );
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Removes what is not wanted, then refreshes replicas until none is due.
async fn work(app: &AppState, swept: &mut Option<Instant>) -> Result<()> {
    let computers = app.store.computers_with_replicas().await?;
    for computer in computers.iter().filter(|it| it.replicate_minutes == 0 && it.replica.is_some()) {
        if remove(app, computer.id).await {
            app.store.set_replica(computer.id, None).await?;
        }
    }
    if swept.is_none_or(|swept| swept.elapsed() >= SWEEP_INTERVAL) {
        sweep(app, &computers).await?;
        *swept = Some(Instant::now());
    }
    while let Some(computer) = most_overdue(app).await? {
        refresh(app, &computer).await?;
    }
    Ok(())
}

/// Removes replicas of computers that are not there or want none.
async fn sweep(app: &AppState, computers: &[Computer]) -> Result<()> {
    let wanted: BTreeSet<ComputerId> =
        computers.iter().filter(|it| it.replicate_minutes > 0).map(|it| it.id).collect();
    let present = app.fleet.engine().replicas().await.map_err(Error::internal)?;
    for id in present.into_iter().filter(|id| !wanted.contains(id)) {
        tracing::info!(computer = %id, "removing a replica that no computer wants");
        remove(app, id).await;
    }
    Ok(())
}

/// Removes a replica, and returns whether that is done. A failure delays no other replica.
async fn remove(app: &AppState, id: ComputerId) -> bool {
    let removed = app.fleet.engine().remove_replica(id).await;
    if let Err(error) = &removed {
        tracing::warn!(
            computer = %id,
            error = format_args!("{error:#}"),
            "could not remove a replica; it is retried"
        );
    }
    removed.is_ok()
}

/// Returns the computer whose replica should have been refreshed first; `None` when none is due.
async fn most_overdue(app: &AppState) -> Result<Option<Computer>> {
    let now = clock::now();
    let engine = app.fleet.engine();
    let due = app.store.computers_with_replicas().await?.into_iter().filter_map(|computer| {
        if computer.move_to.is_some() || !engine.offers().capabilities(computer.isolation).replicate {
            return None;
        }
        let candidate = RefreshCandidate {
            status: computer.status,
            interval_minutes: computer.replicate_minutes,
            refreshed_at: computer.replica.as_ref().map(|replica| replica.refreshed_at),
            tried_at: computer.replica_tried_at,
            is_out: engine.host_outage(computer.id).is_some(),
        };
        let at = next_refresh(&candidate).filter(|at| *at <= now)?;
        Some((at, computer))
    });
    Ok(due.min_by_key(|(at, computer)| (*at, computer.id)).map(|(_, computer)| computer))
}

/// Refreshes one replica. A failure is logged, and the next attempt has a pause.
async fn refresh(app: &AppState, computer: &Computer) -> Result<()> {
    app.store.note_refresh_attempt(computer.id).await?;
    // A move of the computer would wait for the refresh while the computer is down.
    let Some(permit) = app.fleet.begin_refresh(computer.id).await? else { return Ok(()) };
    // Such a host may leave the cluster.
    let drains = app.store.host_drains().await?;
    let drained: BTreeSet<String> = drains.into_iter().map(|drain| drain.host).collect();
    let refreshed_at = clock::now();
    let present = computer.replica.as_ref().map(|replica| replica.host.as_str());
    let engine = app.fleet.engine();
    let mut replicated = engine.replicate(computer.id, present, &drained).await;
    if let Err(EngineError::Damaged(why)) = &replicated {
        tracing::warn!(computer = %computer.id, why, "a replica cannot be refreshed; it is copied anew");
        // In this order, so that no record shows a replica that is not there.
        app.store.set_replica(computer.id, None).await?;
        replicated = match engine.remove_replica(computer.id).await {
            Ok(()) => engine.replicate(computer.id, None, &drained).await,
            Err(error) => Err(error),
        };
    }
    drop(permit);
    match replicated {
        Ok(host) => app.store.set_replica(computer.id, Some(&ReplicaState { host, refreshed_at })).await,
        Err(error) => {
            metrics::counter!("hotdesk_replica_failures_total").increment(1);
            tracing::warn!(
                computer = %computer.id,
                error = format_args!("{error:#}"),
                "could not refresh a replica; it is retried"
            );
            Ok(())
        }
    }
}
