//! Registry of revocable things, such as credentials, and of the leases under which work goes on.
//!
//! ```text
//!   lease(key) --> Lease, valid --- revoke(key) ---> Lease, revoked (waiters wake)
//!                                                    lease(key) again --> a new, valid Lease
//! ```

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The keys with leases; cheap to clone. It stores nothing of a key without a lease.
#[derive(Debug)]
pub struct RevocationRegistry<K: Clone + Eq + Hash>(Arc<Mutex<State<K>>>);

#[derive(Debug)]
struct State<K: Clone + Eq + Hash> {
    revocations: u64,
    entries: HashMap<K, Weak<Entry<K>>>,
}

#[derive(Debug)]
struct Entry<K: Clone + Eq + Hash> {
    registry: RevocationRegistry<K>,
    key: K,
    revoked: CancellationToken,
}

/// A lease of a key. Dropping the last clone removes the key from the registry.
#[derive(Clone, Debug)]
pub struct Lease<K: Clone + Eq + Hash>(Arc<Entry<K>>);

impl<K: Clone + Eq + Hash> Clone for RevocationRegistry<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Clone + Eq + Hash> Default for RevocationRegistry<K> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { revocations: 0, entries: HashMap::new() })))
    }
}

impl<K: Clone + Eq + Hash> RevocationRegistry<K> {
    /// The number of revocations so far. Read it, check that a thing is valid, lease it, and read it again:
    /// if the number has changed, repeat the check, because the thing may have been revoked in between.
    pub fn revocations(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).revocations
    }

    /// Leases a key.
    pub fn lease(&self, key: K) -> Lease<K> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = state.entries.get(&key).and_then(Weak::upgrade) {
            return Lease(entry);
        }
        let entry = Entry { registry: self.clone(), key: key.clone(), revoked: CancellationToken::new() };
        let entry = Arc::new(entry);
        state.entries.insert(key, Arc::downgrade(&entry));
        Lease(entry)
    }

    /// Revokes all leases of a key. Call it after the thing is gone.
    pub fn revoke(&self, key: &K) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.revocations += 1;
        let entry = state.entries.remove(key).and_then(|entry| entry.upgrade());
        // Leases that woken waiters drop take the lock too.
        drop(state);
        if let Some(entry) = entry {
            entry.revoked.cancel();
        }
    }

    /// The keys with leases, in no order.
    pub fn leased(&self) -> Vec<K> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entries.keys().cloned().collect()
    }
}

impl<K: Clone + Eq + Hash> Lease<K> {
    /// Whether both are leases of the same key with no revocation between them.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether it was revoked.
    pub fn is_revoked(&self) -> bool {
        self.0.revoked.is_cancelled()
    }

    /// Waits for its revocation.
    pub fn revoked(&self) -> WaitForCancellationFutureOwned {
        self.0.revoked.clone().cancelled_owned()
    }
}

impl<K: Clone + Eq + Hash> Drop for Entry<K> {
    fn drop(&mut self) {
        let mut state = self.registry.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The key may have a new lease by now.
        if state.entries.get(&self.key).is_some_and(|entry| entry.strong_count() == 0) {
            state.entries.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_revocation_reaches_the_leases_of_that_key_and_leaves_nothing() {
        let registry = RevocationRegistry::default();
        let (first, again, other) = (registry.lease("a"), registry.lease("a"), registry.lease("b"));
        assert_eq!(registry.revocations(), 0);
        assert!(first.is_same(&again) && !first.is_same(&other));
        registry.revoke(&"a");
        first.revoked().await;
        assert!(again.is_revoked() && !other.is_revoked());
        assert_eq!((registry.revocations(), registry.leased()), (1, vec!["b"]));
        let new = registry.lease("a");
        drop((first, again));
        assert!(!new.is_revoked() && registry.leased().len() == 2, "a later lease is another one");
        drop((new, other));
        assert!(registry.leased().is_empty());
        registry.revoke(&"c");
        assert_eq!(registry.revocations(), 2, "a revocation without leases counts too");
    }
}
