//! What is going on under something that may end at any moment? Whoever works under it holds it, and hears of the end.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The things that somebody holds; cheap to clone. Nothing is kept of those that nobody holds.
#[derive(Debug)]
pub struct Living<K: Clone + Eq + Hash>(Arc<Mutex<State<K>>>);

#[derive(Debug)]
struct State<K: Clone + Eq + Hash> {
    ends: u64,
    held: HashMap<K, Weak<Held<K>>>,
}

#[derive(Debug)]
struct Held<K: Clone + Eq + Hash> {
    living: Living<K>,
    key: K,
    ended: CancellationToken,
}

/// A thing that is held, until the last clone of this is dropped.
#[derive(Clone, Debug)]
pub struct Hold<K: Clone + Eq + Hash>(Arc<Held<K>>);

impl<K: Clone + Eq + Hash> Clone for Living<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Clone + Eq + Hash> Default for Living<K> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { ends: 0, held: HashMap::new() })))
    }
}

impl<K: Clone + Eq + Hash> Living<K> {
    /// How many ends there were. Who reads it, looks whether a thing is there, holds the thing and finds another number
    /// must look again: it may have ended in between.
    pub fn ends(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ends
    }

    /// Holds a thing.
    pub fn hold(&self, key: K) -> Hold<K> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = state.held.get(&key).and_then(Weak::upgrade) {
            return Hold(held);
        }
        let held = Held { living: self.clone(), key: key.clone(), ended: CancellationToken::new() };
        let held = Arc::new(held);
        state.held.insert(key, Arc::downgrade(&held));
        Hold(held)
    }

    /// Tells all who hold a thing that it is gone. To be called once it is.
    pub fn end(&self, key: &K) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.ends += 1;
        let held = state.held.remove(key).and_then(|held| held.upgrade());
        // What is dropped at its end asks for the lock too.
        drop(state);
        if let Some(held) = held {
            held.ended.cancel();
        }
    }

    /// Everything that is held now.
    pub fn held(&self) -> Vec<K> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).held.keys().cloned().collect()
    }
}

impl<K: Clone + Eq + Hash> Hold<K> {
    /// Whether both hold the same thing, and since before its last end or both after it.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.0.ended.is_cancelled()
    }

    /// Waits for its end.
    pub fn ended(&self) -> WaitForCancellationFutureOwned {
        self.0.ended.clone().cancelled_owned()
    }
}

impl<K: Clone + Eq + Hash> Drop for Held<K> {
    fn drop(&mut self) {
        let mut state = self.living.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody may hold it anew by now.
        if state.held.get(&self.key).is_some_and(|held| held.strong_count() == 0) {
            state.held.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_end_is_heard_by_those_who_hold_that_thing_and_nothing_is_left() {
        let living = Living::default();
        let (first, again, other) = (living.hold("a"), living.hold("a"), living.hold("b"));
        assert_eq!(living.ends(), 0);
        assert!(first.is_same(&again) && !first.is_same(&other));
        living.end(&"a");
        first.ended().await;
        assert!(again.has_ended() && !other.has_ended());
        assert_eq!((living.ends(), living.held()), (1, vec!["b"]));
        let new = living.hold("a");
        drop((first, again));
        assert!(!new.has_ended() && living.held().len() == 2, "who comes later holds another one");
        drop((new, other));
        assert!(living.held().is_empty());
        living.end(&"c");
        assert_eq!(living.ends(), 2, "an end of what nobody holds counts too");
    }
}
