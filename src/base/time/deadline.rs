//! Deadline on the boot clock that several parts of a process share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::clock;

/// A deadline on the boot clock, which also counts the time while the host is suspended. Clones share it; its holder moves
/// it. The default never passes.
#[derive(Clone, Debug)]
pub struct SharedDeadline {
    /// Milliseconds since the host's boot; `u64::MAX` when it never passes.
    at: Arc<AtomicU64>,
}

impl SharedDeadline {
    /// Returns a deadline that has passed.
    pub fn passed() -> Self {
        Self { at: Arc::default() }
    }

    /// Sets the time of the deadline, as a time since the host's boot ([`clock::since_boot`]).
    pub fn set(&self, since_boot: Duration) {
        self.at.store(u64::try_from(since_boot.as_millis()).unwrap_or(u64::MAX - 1), Ordering::SeqCst);
    }

    /// Whether it has passed.
    pub fn has_passed(&self) -> bool {
        let at = self.at.load(Ordering::SeqCst);
        at != u64::MAX && clock::since_boot() >= Duration::from_millis(at)
    }
}

impl Default for SharedDeadline {
    fn default() -> Self {
        Self { at: Arc::new(AtomicU64::new(u64::MAX)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_see_the_deadline_that_was_set_last() {
        let never = SharedDeadline::default();
        assert!(!never.has_passed());
        let own = SharedDeadline::passed();
        assert!(own.has_passed());
        let seen = own.clone();
        for (later, has_passed) in [(Duration::from_secs(3600), false), (Duration::ZERO, true)] {
            own.set(clock::since_boot() + later);
            assert_eq!(seen.has_passed(), has_passed, "{later:?}");
        }
    }
}
