//! Guard of the host's disk: asks the engine to look at it, as often as the engine says.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::AppState;
use hotdesk_store::fleet::changes::RecordChange;

/// Time after which a look that failed is repeated.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Starts the guard (docs/operating.md#full-disk).
pub(super) fn start(app: &AppState) {
    let (app, stop) = (Arc::clone(app), app.tasks.stopping());
    let tasks = app.tasks.clone();
    let _task = tasks.spawn("guard of the disk", async move {
        let mut frozen = 0;
        loop {
            let pause = look(&app, &mut frozen, &stop).await;
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
        }
    });
}

/// Looks once. `frozen` is the number of frozen computers at the last look. Returns the time until the next
/// look.
async fn look(app: &AppState, frozen: &mut usize, stop: &CancellationToken) -> Duration {
    // Before the guard freezes a computer.
    if let Err(error) = app.templates.make_room().await {
        tracing::warn!(error = format_args!("{error:#}"), "could not remove downloads of builds");
    }
    // A call to a host helper that is gone waits for its successor, longer than a stop of the controller may take.
    let looked = tokio::select! {
        looked = app.fleet.engine().watch_disk() => looked,
        () = stop.cancelled() => return RETRY_PAUSE,
    };
    match looked {
        Ok(seen) => {
            app.fleet.note_free_disk(seen.free);
            if std::mem::replace(frozen, seen.frozen) != seen.frozen {
                // Records name this as the reason of their status.
                app.store.changes.send(RecordChange::AnyComputer);
            }
            metrics::gauge!("hotdesk_disk_free_bytes").set(seen.free as f64);
            metrics::gauge!("hotdesk_computers_frozen").set(seen.frozen as f64);
            seen.next
        }
        Err(error) => {
            tracing::warn!(
                error = format_args!("{error:#}"),
                "could not look at the host's disk; it is retried"
            );
            RETRY_PAUSE
        }
    }
}
