//! How long is waited before something that ended is started again? Longer each time, until it lived for a while.

use std::time::Duration;

/// Growing pauses between short lives.
#[derive(Clone, Debug)]
pub struct Backoff {
    least: Duration,
    longest: Duration,
    long_life: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses from `least`, doubled each time up to `longest`. A life of `long_life` forgives the short ones before.
    pub fn new(least: Duration, longest: Duration, long_life: Duration) -> Self {
        Self { least, longest, long_life, next: least }
    }

    /// The pause after a life that lasted so long.
    pub fn after(&mut self, lived: Duration) -> Duration {
        if lived >= self.long_life {
            self.next = self.least;
        }
        let pause = self.next;
        self.next = (self.next * 2).min(self.longest);
        pause
    }

    /// Whether the last life was the first short one in a row.
    pub fn is_first(&self) -> bool {
        self.next <= self.least * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound_and_a_long_life_forgives() {
        let long_life = Duration::from_secs(30);
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5), long_life);
        let pauses: Vec<_> = (0..8).map(|_| backoff.after(Duration::ZERO).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(!backoff.is_first());
        assert_eq!(backoff.after(long_life).as_millis(), 100);
        assert!(backoff.is_first());
    }
}
