//! When does a watcher run? While anybody wants its types; one that ends meanwhile is started again.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use hotdesk_base::backoff::Backoff;
use hotdesk_domain::event::{Kind, Kinds};
use hotdesk_http::feed::Feed;

/// First pause before a watcher is started again.
pub(super) const LEAST_PAUSE: Duration = Duration::from_millis(200);
/// Longest such pause: a source that is not there, a sound server for one, is found soon after it comes.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A life this long forgives the short ones before, and the next end is in the log again.
pub(super) const LONG_LIFE: Duration = Duration::from_secs(30);

/// Finds out about events of some types and publishes them.
pub(super) trait Watcher: Send {
    /// What it is called in the log.
    const NAME: &'static str;
    /// The types it finds out about.
    const KINDS: &'static [Kind];

    /// Watches until it cannot any more; returns why. `begun` is called once everything that happens from then on will
    /// be told. It is called again after it has returned, with what it remembers; it must bear being dropped at any
    /// wait.
    fn run(&mut self, begun: &(dyn Fn() + Send + Sync)) -> impl Future<Output = String> + Send;
}

/// Runs watchers, a fresh one each time somebody begins to want their types, until told to stop.
pub(super) async fn keep<W: Watcher>(feed: Feed, stop: CancellationToken, make: impl Fn(Feed) -> W + Send) {
    let kinds: Kinds = super::kinds(W::KINDS);
    let mut wanted = feed.wanted();
    loop {
        let is_wanted = wanted.wait_for(|wanted| !wanted.intersection(kinds).is_empty());
        tokio::select! {
            () = stop.cancelled() => return,
            alive = is_wanted => if alive.is_err() { return },
        }
        let mut watcher = make(feed.clone());
        let unwanted = async {
            // The feed lives as long as this.
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

/// Runs a watcher again and again.
async fn restart<W: Watcher>(feed: &Feed, kinds: Kinds, watcher: &mut W) {
    let mut backoff = Backoff::new(LEAST_PAUSE, LONGEST_PAUSE, LONG_LIFE);
    loop {
        let began = Instant::now();
        let begun = || feed.set_watched(kinds, true);
        let why = watcher.run(&begun).await;
        let pause = backoff.after(began.elapsed());
        if backoff.is_first() {
            tracing::warn!(watcher = W::NAME, why, "events are not detected for a while");
        } else {
            tracing::debug!(watcher = W::NAME, why, ?pause, "events are still not detected");
        }
        // Who subscribes now need not wait for what may not come.
        feed.set_watched(kinds, true);
        tokio::time::sleep(pause).await;
    }
}
