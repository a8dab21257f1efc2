//! How fast may copies leave? All of them together at one rate, so that what else uses the line and the disk goes on.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// A rate that is shared.
#[derive(Debug)]
pub(super) struct Pace {
    bytes_per_second: Option<f64>,
    /// When the next may begin.
    free: Mutex<Instant>,
}

impl Pace {
    /// At most so many megabits a second; 0 is without a bound.
    pub(super) fn new(mbps: u32) -> Self {
        let bytes_per_second = (mbps > 0).then(|| f64::from(mbps) * 1e6 / 8.0);
        Self { bytes_per_second, free: Mutex::new(Instant::now()) }
    }

    /// Waits until this much may go.
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

/// When something may begin that comes now, and what comes after it.
fn turn(free: Instant, now: Instant, bytes: usize, rate: f64) -> (Instant, Instant) {
    let begin = free.max(now);
    (begin, begin + Duration::from_secs_f64(bytes as f64 / rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_goes_waits_for_what_went_before_and_nothing_is_saved_up() {
        let now = Instant::now();
        let (begin, free) = turn(now, now, 1_000_000, 1e6);
        assert_eq!((begin, free), (now, now + Duration::from_secs(1)));
        let (begin, free) = turn(free, now, 500_000, 1e6);
        assert_eq!((begin, free), (now + Duration::from_secs(1), now + Duration::from_millis(1500)));
        let later = now + Duration::from_secs(10);
        assert_eq!(turn(free, later, 0, 1e6), (later, later));
        Pace::new(0).take(usize::MAX).await;
    }
}
