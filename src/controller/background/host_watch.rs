//! Watch of the hosts: asks the engine which of them answer, so that records of computers say it within seconds.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::AppState;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::host::outage::HostOutage;
use hotdesk_store::fleet::changes::RecordChange;

/// Pause between two looks. With the longest look (6 s) and the pause, an outage shows within 15 s.
const LOOK_PAUSE: Duration = Duration::from_secs(3);

/// Starts the watch.
pub(super) fn start(app: &AppState) {
    let (app, stop) = (Arc::clone(app), app.tasks.stopping());
    let tasks = app.tasks.clone();
    let _task = tasks.spawn("watch of the hosts", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            never = watch(&app) => match never {},
        }
    });
}

async fn watch(app: &AppState) -> Infallible {
    let mut known = BTreeMap::new();
    loop {
        look(app, &mut known).await;
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Looks once. `known` are the outages of the last look.
async fn look(app: &AppState, known: &mut BTreeMap<ComputerId, HostOutage>) {
    app.fleet.engine().watch_hosts().await;
    let now = app.fleet.outages();
    metrics::gauge!("hotdesk_computers_host_unreachable").set(now.len() as f64);
    if *known != now {
        // Records say what is wrong with the host.
        app.store.changes.send(RecordChange::AnyComputer);
        *known = now;
    }
    if let Err(error) = app.fleet.forget_returned_hosts().await {
        tracing::warn!(
            error = format_args!("{error:#}"),
            "could not look which hosts are gone; it is retried"
        );
    }
}
