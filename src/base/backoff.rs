//! Back-off between restarts: pauses double until a run lasts long enough.

use std::time::Duration;

/// Growing pauses between short runs.
#[derive(Clone, Debug)]
pub struct Backoff {
    least: Duration,
    longest: Duration,
    long_run: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses from `least`, doubled each time up to `longest`. A run of at least `long_run` resets them.
    pub fn new(least: Duration, longest: Duration, long_run: Duration) -> Self {
        Self { least, longest, long_run, next: least }
    }

    /// The pause after a run that lasted `run`.
    pub fn after(&mut self, run: Duration) -> Duration {
        if run >= self.long_run {
            self.next = self.least;
        }
        let pause = self.next;
        self.next = (self.next * 2).min(self.longest);
        pause
    }

    /// Whether the last run was the first short one in a row.
    pub fn is_first(&self) -> bool {
        self.next <= self.least * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_limit_and_a_long_run_resets_them() {
        let long_run = Duration::from_secs(30);
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5), long_run);
        let pauses: Vec<_> = (0..8).map(|_| backoff.after(Duration::ZERO).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(!backoff.is_first());
        assert_eq!(backoff.after(long_run).as_millis(), 100);
        assert!(backoff.is_first());
    }
}
