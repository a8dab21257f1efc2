//! Bandwidth limit that all copies share.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// A shared rate.
#[derive(Debug)]
pub(super) struct Bandwidth {
    bytes_per_second: Option<f64>,
    /// Earliest start of the next transfer.
    free: Mutex<Instant>,
}

impl Bandwidth {
    /// Creates a limit in megabits per second; 0 is no limit.
    pub(super) fn new(mbps: u32) -> Self {
        let bytes_per_second = (mbps > 0).then(|| f64::from(mbps) * 1e6 / 8.0);
        Self { bytes_per_second, free: Mutex::new(Instant::now()) }
    }

    /// Waits until the limit allows this many bytes.
    pub(super) async fn take(&self, bytes: usize) {
        let Some(rate) = self.bytes_per_second else { return };
        let begin = {
            let mut free = self.free.lock().await;
            let (begin, next) = turn(*free, Instant::now(), bytes, rate);
            *free = next;
            begin
        };
        tokio::time::sleep_until(begin).await;
    }
}

/// Returns when a transfer may begin that is requested now, and when the one after it may.
fn turn(free: Instant, now: Instant, bytes: usize, rate: f64) -> (Instant, Instant) {
    let begin = free.max(now);
    (begin, begin + Duration::from_secs_f64(bytes as f64 / rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_transfer_waits_for_earlier_ones_and_idle_time_is_not_credited() {
        let now = Instant::now();
        let (begin, free) = turn(now, now, 1_000_000, 1e6);
        assert_eq!((begin, free), (now, now + Duration::from_secs(1)));
        let (begin, free) = turn(free, now, 500_000, 1e6);
        assert_eq!((begin, free), (now + Duration::from_secs(1), now + Duration::from_millis(1500)));
        let later = now + Duration::from_secs(10);
        assert_eq!(turn(free, later, 0, 1e6), (later, later));
        Bandwidth::new(0).take(usize::MAX).await;
    }
}
