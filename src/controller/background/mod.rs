//! What goes on without a request? Sweeping expired screenshots, lost blobs, old idempotency keys and old usage, counting
//! computers, giving rest to idle ones, ending those whose trial is over, looking after copies in storage, writing down what was
//! done, credentials that went without a word, streams that are still to be ended.

use std::sync::Arc;
use std::time::Duration;

pub mod idle;
mod trials;

use super::accounts::expiry;
use super::auth::{live, usage};
use super::people::streams;
use super::{Shared, audit, idempotent};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::lifecycle::Status;
use hotdesk_domain::usage::kept_since;
use hotdesk_guest::QUICK;

/// Between two sweeps: a screenshot outlives its hour by at most this.
const SWEEP_EVERY: Duration = Duration::from_secs(300);
/// Between two counts of computers for the metrics.
const COUNT_EVERY: Duration = Duration::from_secs(15);

/// Between two looks for agents' accounts whose time is over.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);
/// Between two stamps of the computers that run: what dies together with the controller is charged at most so much less.
const SEE_EVERY: Duration = Duration::from_secs(60);

/// Between two tries to end streams of those who lost a computer: an agent that hangs is given as long to answer.
const END_EVERY: Duration = QUICK;

/// Between two looks for usage that is past its time, which is told in months.
const FORGET_EVERY: Duration = Duration::from_secs(3600);

/// Starts all of it.
pub fn start(app: &Shared) {
    repeat(app, "sweep", SWEEP_EVERY, sweep);
    repeat(app, "count-computers", COUNT_EVERY, count);
    repeat(app, "audit", audit::WRITTEN_EVERY, audit::write);
    repeat(app, "last-used", usage::WRITTEN_EVERY, usage::write);
    repeat(app, "ended-credentials", live::LOOKED_EVERY, live::look);
    repeat(app, "auto-stop", app.config.auto_stop.every, idle::look);
    repeat(app, "ended trials", app.config.auto_stop.every, trials::end);
    repeat(app, "agents' accounts", EXPIRE_EVERY, expiry::remove_expired);
    repeat(app, "stamp-running", SEE_EVERY, see);
    repeat(app, "streams to end", END_EVERY, streams::end_the_rest);
    repeat(app, "old usage", FORGET_EVERY, forget);
    if let Some(keeper) = app.fleet.keeper() {
        let (keeper, told) = (Arc::clone(keeper), Arc::clone(app));
        let _task = app.tasks.spawn("copies in storage", async move { keeper.look_after(told).await });
    }
}

fn repeat<F: Future<Output = Result<()>> + Send>(
    app: &Shared,
    name: &'static str,
    every: Duration,
    work: impl Fn(Shared) -> F + Send + 'static,
) {
    let (app, stop) = (Arc::clone(app), app.tasks.stopping());
    let tasks = app.tasks.clone();
    let _task = tasks.spawn(name, async move {
        loop {
            if let Err(error) = work(Arc::clone(&app)).await {
                tracing::warn!(%error, name, "background work failed; it is tried again");
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(every) => {}
            }
        }
    });
}

async fn sweep(app: Shared) -> Result<()> {
    app.rates.forget_idle();
    app.oauth.sweep();
    audit::trim(&app).await?;
    idempotent::sweep(&app).await?;
    let known = app.store.file_ids().await?;
    let storage = app.storage.clone();
    let removed =
        tokio::task::spawn_blocking(move || storage.sweep(&known)).await.map_err(Error::internal)??;
    if removed > 0 {
        tracing::debug!(removed, "swept blobs");
    }
    Ok(())
}

/// Stamps the computers that are reachable: when they ran is charged for.
async fn see(app: Shared) -> Result<()> {
    let mut running: Vec<ComputerId> =
        app.store.all_computers().await?.into_iter().map(|computer| computer.id).collect();
    running.retain(|id| app.fleet.running_guest(*id).is_some());
    app.store.saw_running(&running).await
}

/// Forgets usage that is past its time.
async fn forget(app: Shared) -> Result<()> {
    app.store.forget_usage(kept_since(now_ms())).await
}

async fn count(app: Shared) -> Result<()> {
    let computers = app.store.all_computers().await?;
    for status in Status::ALL {
        let count = computers.iter().filter(|computer| computer.status == status).count();
        metrics::gauge!("hotdesk_computers", "status" => status.name()).set(count as f64);
    }
    Ok(())
}
