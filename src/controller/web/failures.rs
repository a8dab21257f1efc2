//! Counter of recent failures by key, with a bounded memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hotdesk_domain::error::{Error, Result};

/// Most entries; the oldest is evicted. 10,000 entries of about 100 bytes are a megabyte.
const MAX_ENTRIES: usize = 10_000;

/// Start of each key's window, and its count.
type Counts<K> = HashMap<K, (Instant, u32)>;

/// Failures by key, counted in a window that begins with the first one. Attempts that are refused do not
/// count, so every lock-out ends.
#[derive(Debug)]
pub struct Failures<K> {
    most: u32,
    window: Duration,
    counts: Mutex<Counts<K>>,
}

impl<K: Clone + Eq + Hash> Failures<K> {
    /// Allows `most` failures of each key within `window`.
    pub fn new(most: u32, window: Duration) -> Self {
        Self { most, window, counts: Mutex::default() }
    }

    /// Returns how long a key must wait that has reached its limit, else `None`.
    pub fn wait(&self, key: &K, now: Instant) -> Option<Duration> {
        self.left(&self.counts.lock().unwrap_or_else(PoisonError::into_inner), key, now)
    }

    /// Counts a failure.
    pub fn note(&self, key: K, now: Instant) {
        self.count(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner), key, now);
    }

    /// Counts an attempt as a failure before its outcome is known, so that concurrent attempts cannot exceed
    /// the limit. [`Failures::forgive`] undoes it.
    ///
    /// # Errors
    /// `RateLimited` with the seconds until the next attempt is allowed.
    pub fn attempt(&self, key: &K, now: Instant) -> Result<()> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = self.left(&counts, key, now) {
            let seconds = u32::try_from(left.as_secs()).unwrap_or(u32::MAX);
            return Err(Error::rate_limited(seconds.saturating_add(1)));
        }
        self.count(&mut counts, key.clone(), now);
        Ok(())
    }

    fn left(&self, counts: &Counts<K>, key: &K, now: Instant) -> Option<Duration> {
        let (since, count) = counts.get(key)?;
        let left = self.window.checked_sub(now.duration_since(*since)).filter(|left| !left.is_zero())?;
        (*count >= self.most).then_some(left)
    }

    fn count(&self, counts: &mut Counts<K>, key: K, now: Instant) {
        if counts.len() >= MAX_ENTRIES && !counts.contains_key(&key) {
            counts.retain(|_, (since, _)| now.duration_since(*since) < self.window);
            let oldest = counts.iter().min_by_key(|(_, (since, _))| *since).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest.filter(|_| counts.len() >= MAX_ENTRIES) {
                counts.remove(&oldest);
            }
        }
        let entry = counts.entry(key).or_insert((now, 0));
        if now.duration_since(entry.0) >= self.window {
            *entry = (now, 0);
        }
        entry.1 = entry.1.saturating_add(1);
    }

    /// Undoes one counted failure.
    pub fn forgive(&self, key: &K) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, count)) = counts.get_mut(key) {
            *count = count.saturating_sub(1);
        }
    }

    /// Forgets a key's failures.
    pub fn forget(&self, key: &K) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    #[test]
    fn each_key_has_its_own_limit_and_window() {
        let (failures, began) = (Failures::new(10, WINDOW), Instant::now());
        for _ in 0..10 {
            assert_eq!(failures.wait(&"a", began), None);
            failures.note("a", began);
        }
        assert_eq!(failures.wait(&"a", began + WINDOW / 4), Some(WINDOW * 3 / 4));
        assert_eq!(failures.wait(&"b", began), None);
        assert_eq!(failures.wait(&"a", began + WINDOW), None);
        failures.note("a", began + WINDOW);
        assert_eq!(failures.wait(&"a", began + WINDOW), None, "a new minute, a new count");
    }

    #[test]
    fn a_refused_attempt_does_not_count() {
        let (failures, began) = (Failures::new(2, WINDOW), Instant::now());
        assert!(failures.attempt(&"a", began).is_ok() && failures.attempt(&"a", began).is_ok());
        for second in 0..60 {
            let refused = failures.attempt(&"a", began + Duration::from_secs(second)).unwrap_err();
            assert_eq!(refused.retry_after, u32::try_from(61 - second).ok());
        }
        assert!(failures.attempt(&"a", began + WINDOW).is_ok());
    }

    #[test]
    fn a_forgiven_attempt_does_not_count() {
        let (failures, now) = (Failures::new(1, WINDOW), Instant::now());
        for _ in 0..5 {
            assert!(failures.attempt(&"a", now).is_ok());
            failures.forgive(&"a");
        }
        assert!(failures.attempt(&"a", now).is_ok() && failures.attempt(&"a", now).is_err());
        failures.forget(&"a");
        assert!(failures.attempt(&"a", now).is_ok());
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let (failures, now) = (Failures::new(1, WINDOW), Instant::now());
        for key in 0..MAX_ENTRIES + 10 {
            failures.note(key, now);
        }
        assert_eq!(failures.counts.lock().unwrap().len(), MAX_ENTRIES);
    }
}
