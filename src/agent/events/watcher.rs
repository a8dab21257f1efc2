//! Lifecycle of event watchers: they run while a client subscribes to their types, and restart after
//! failures.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use hotdesk_base::backoff::Backoff;
use hotdesk_domain::desktop::event::{EventKind, EventKinds};
use hotdesk_http::feed::Feed;

/// First delay before a restart.
pub(super) const MIN_PAUSE: Duration = Duration::from_millis(200);
/// Longest delay before a restart: a source that appears later, such as a sound server, is found soon.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Lifetime after which the delays start again, and the next failure is logged as a warning again.
pub(super) const STABLE_AFTER: Duration = Duration::from_secs(30);

/// Source of events of some types.
pub(super) trait Watcher: Send {
    /// Name for log messages.
    const NAME: &'static str;
    /// Types of its events.
    const KINDS: &'static [EventKind];

    /// Watches until a failure; returns its reason. Calls `begun` once all further events will be published.
    /// It is called again after it has returned and keeps its state. It must tolerate being dropped at any
    /// await point.
    fn run(&mut self, begun: &(dyn Fn() + Send + Sync)) -> impl Future<Output = String> + Send;
}

/// Runs a new watcher whenever a client subscribes to its types, until `stop` is cancelled.
pub(super) async fn run_watcher<W: Watcher>(
    feed: Feed,
    stop: CancellationToken,
    make: impl Fn(Feed) -> W + Send,
) {
    let kinds: EventKinds = super::kinds(W::KINDS);
    let mut wanted = feed.wanted();
    loop {
        let is_wanted = wanted.wait_for(|wanted| !wanted.intersection(kinds).is_empty());
        tokio::select! {
            () = stop.cancelled() => return,
            alive = is_wanted => if alive.is_err() { return },
        }
        let mut watcher = make(feed.clone());
        let unwanted = async {
            // It cannot fail, because this function holds the feed.
            let _ = wanted.wait_for(|wanted| wanted.intersection(kinds).is_empty()).await;
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = unwanted => {}
            () = restart(&feed, kinds, &mut watcher) => {}
        }
        feed.set_watched(kinds, false);
    }
}

/// Restarts a watcher after each failure.
async fn restart<W: Watcher>(feed: &Feed, kinds: EventKinds, watcher: &mut W) {
    let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE, STABLE_AFTER);
    loop {
        let began = Instant::now();
        let begun = || feed.set_watched(kinds, true);
        let why = watcher.run(&begun).await;
        let pause = backoff.after(began.elapsed());
        if backoff.is_first() {
            tracing::warn!(
                watcher = W::NAME,
                why,
                "an event source failed; its events are missing until it restarts"
            );
        } else {
            tracing::debug!(watcher = W::NAME, why, ?pause, "an event source failed again");
        }
        // A client that subscribes now must not wait for a source that may never appear.
        feed.set_watched(kinds, true);
        tokio::time::sleep(pause).await;
    }
}
