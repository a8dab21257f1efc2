//! Delivery of frames: what each viewer was sent, and what it has, as it reports.
//!
//! Buffers between the agent and a viewer hold seconds of video before a write waits, so only the viewer
//! knows how late it is. One that reports nothing is sent everything.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Lag from which a viewer is sent nothing until it has everything: it sees the newest frames again then. It
/// is more than that which lowers the rate, so that the rate goes first.
const TOO_LATE: Duration = Duration::from_secs(2);

/// Frames of one viewer, by their times in microseconds; 0 for none.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Delivery {
    /// Notes a frame before it is sent.
    pub(super) fn note_sent(&self, micros: u64) {
        // A viewer that has everything is not late, however long nothing was sent.
        let (sent, received) = (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed));
        if received > 0 && received >= sent {
            self.received.fetch_max(micros.saturating_sub(1), Ordering::Relaxed);
        }
        self.sent.store(micros, Ordering::Relaxed);
    }

    /// Notes the newest frame that the viewer has. It cannot have one that it was not sent.
    pub(super) fn note_received(&self, micros: u64) {
        self.received.fetch_max(micros.min(self.sent.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// How long the viewer has lacked a frame that it was sent: zero when it has all, `None` when it never
    /// reported.
    pub(super) fn lag(&self, now: u64) -> Option<Duration> {
        let (sent, received) = (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed));
        let lag = if received < sent { now.saturating_sub(received) } else { 0 };
        (received > 0).then(|| Duration::from_micros(lag))
    }

    /// Whether the viewer is so late that it should be sent nothing.
    pub(super) fn is_too_late(&self, now: u64) -> bool {
        self.lag(now).is_some_and(|lag| lag >= TOO_LATE)
    }
}

/// Deliveries to all viewers of a source.
#[derive(Debug, Default)]
pub(super) struct Deliveries(Mutex<Vec<Weak<Delivery>>>);

impl Deliveries {
    /// Adds a viewer, which leaves when its delivery is dropped.
    pub(super) fn join(&self) -> Arc<Delivery> {
        let delivery = Arc::<Delivery>::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&delivery));
        delivery
    }

    /// The lag of the viewer with the least, so that one on a slow network lowers nobody's rate; `None` when
    /// none reports.
    pub(super) fn least_lag(&self, now: u64) -> Option<Duration> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|delivery| delivery.strong_count() > 0);
        all.iter().filter_map(|delivery| delivery.upgrade()?.lag(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn a_viewer_is_late_by_the_frames_that_it_lacks() {
        let delivery = Delivery::default();
        let lag = |now| delivery.lag(now).map(|lag| lag.as_millis());
        delivery.note_sent(SECOND);
        assert_eq!(lag(9 * SECOND), None, "it reports nothing");
        assert!(!delivery.is_too_late(9 * SECOND));
        delivery.note_received(u64::MAX);
        assert_eq!(lag(9 * SECOND), Some(0), "it has all that it was sent");
        // After a pause.
        delivery.note_sent(5 * SECOND);
        delivery.note_sent(6 * SECOND);
        assert_eq!(lag(6 * SECOND), Some(1000));
        assert!(!delivery.is_too_late(7 * SECOND - 2) && delivery.is_too_late(7 * SECOND - 1));
        // What it says later of an earlier frame has no meaning.
        delivery.note_received(6 * SECOND);
        delivery.note_received(SECOND);
        assert_eq!(lag(9 * SECOND), Some(0));
    }

    #[test]
    fn the_viewer_with_the_least_lag_counts() {
        let all = Deliveries::default();
        assert_eq!(all.least_lag(SECOND), None);
        let (slow, fast, _silent) = (all.join(), all.join(), all.join());
        for delivery in [&slow, &fast] {
            delivery.note_sent(SECOND);
            delivery.note_sent(2 * SECOND);
            delivery.note_received(SECOND);
        }
        fast.note_received(2 * SECOND);
        assert_eq!(all.least_lag(4 * SECOND), Some(Duration::ZERO));
        drop(fast);
        assert_eq!(all.least_lag(4 * SECOND), Some(Duration::from_secs(3)));
    }
}
