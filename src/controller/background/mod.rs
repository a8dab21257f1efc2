//! What goes on without a request? Sweeping expired screenshots and lost blobs, counting computers, giving rest to idle ones, looking after
//! copies in storage.

use std::sync::Arc;
use std::time::Duration;

pub mod idle;

use super::Shared;
use crate::domain::error::{Error, Result};
use crate::domain::lifecycle::Status;

/// Between two sweeps: a screenshot outlives its hour by at most this.
const SWEEP_EVERY: Duration = Duration::from_secs(300);
/// Between two counts of computers for the metrics.
const COUNT_EVERY: Duration = Duration::from_secs(15);

/// Starts all of it.
pub fn start(app: &Shared) {
    repeat(app, "sweep", SWEEP_EVERY, sweep);
    repeat(app, "count-computers", COUNT_EVERY, count);
    repeat(app, "auto-stop", app.config.auto_stop.every, idle::look);
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
    app.limiter.retain_recent();
    let known = app.store.file_ids().await?;
    let storage = app.storage.clone();
    let removed =
        tokio::task::spawn_blocking(move || storage.sweep(&known)).await.map_err(Error::internal)??;
    if removed > 0 {
        tracing::debug!(removed, "swept blobs");
    }
    Ok(())
}

async fn count(app: Shared) -> Result<()> {
    let computers = app.store.all_computers().await?;
    for status in Status::ALL {
        let count = computers.iter().filter(|computer| computer.status == status).count();
        metrics::gauge!("hotdesk_computers", "status" => status.name()).set(count as f64);
    }
    Ok(())
}
