//! Semaphore with a count per key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts of permits by key; cheap to clone. It stores nothing of a key without permits.
#[derive(Clone, Debug)]
pub struct KeyedSemaphore<K>(Arc<Mutex<HashMap<K, usize>>>);

impl<K> Default for KeyedSemaphore<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// A permit; dropping it releases it.
#[derive(Debug)]
pub struct Permit<K: Eq + Hash> {
    semaphore: KeyedSemaphore<K>,
    key: K,
}

impl<K: Clone + Eq + Hash> KeyedSemaphore<K> {
    /// Takes a permit of a key; `None` when it has `most` already.
    pub fn try_acquire(&self, key: K, most: usize) -> Option<Permit<K>> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.clone()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Permit { semaphore: self.clone(), key })
    }

    /// The number of permits of a key.
    pub fn count(&self, key: &K) -> usize {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(key).copied().unwrap_or_default()
    }
}

impl<K: Eq + Hash> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut counts = self.semaphore.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        let semaphore = KeyedSemaphore::default();
        let two: Vec<_> = (0..2).map(|_| semaphore.try_acquire("a", 2).expect("a permit")).collect();
        assert!(semaphore.try_acquire("a", 2).is_none());
        assert!(semaphore.try_acquire("b", 2).is_some());
        assert_eq!((semaphore.count(&"a"), semaphore.count(&"b")), (2, 0));
        drop(two);
        assert!(semaphore.try_acquire("a", 2).is_some());
        assert!(semaphore.0.lock().unwrap().is_empty());
    }
}
