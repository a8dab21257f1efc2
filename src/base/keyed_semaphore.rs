//! How many of a thing does each have at once? A count per key that is given back by itself.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts by key; nothing is kept of keys that have none.
#[derive(Clone, Debug)]
pub struct Tally<K>(Arc<Mutex<HashMap<K, usize>>>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// One that is counted; it counts until it is dropped.
#[derive(Debug)]
pub struct Seat<K: Eq + Hash> {
    tally: Tally<K>,
    key: K,
}

impl<K: Clone + Eq + Hash> Tally<K> {
    /// Counts one more of a key; `None` when it has `most` already.
    pub fn admit(&self, key: K, most: usize) -> Option<Seat<K>> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.clone()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Seat { tally: self.clone(), key })
    }

    /// How many of a key there are.
    pub fn count(&self, key: &K) -> usize {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(key).copied().unwrap_or_default()
    }
}

impl<K: Eq + Hash> Drop for Seat<K> {
    fn drop(&mut self) {
        let mut counts = self.tally.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_count_and_leaves_nothing_behind() {
        let tally = Tally::default();
        let two: Vec<_> = (0..2).map(|_| tally.admit("a", 2).expect("a seat")).collect();
        assert!(tally.admit("a", 2).is_none());
        assert!(tally.admit("b", 2).is_some());
        assert_eq!((tally.count(&"a"), tally.count(&"b")), (2, 0));
        drop(two);
        assert!(tally.admit("a", 2).is_some());
        assert!(tally.0.lock().unwrap().is_empty());
    }
}
