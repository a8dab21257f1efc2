//! Last use of each API key and session. It is in memory and stored once a minute, so that a use costs no write.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hotdesk_base::clock;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::Credential;
use hotdesk_store::Store;

/// Time between two writes. Each credential in use is written once in it.
pub const WRITE_INTERVAL: Duration = Duration::from_secs(60);
/// Credentials that wait to be stored. The uses of further ones are dropped until the next write. 20,000 entries of
/// about 40 bytes are a megabyte.
const MAX_WAITING: usize = 20_000;

/// Last uses of credentials; cheap to clone.
#[derive(Clone, Debug)]
pub struct CredentialUses {
    store: Store,
    waiting: PendingUses,
}

/// Last uses that are not stored yet.
#[derive(Clone, Debug, Default)]
struct PendingUses(Arc<Mutex<HashMap<Credential, UnixMillis>>>);

impl CredentialUses {
    /// Creates the service with no uses that wait to be stored.
    pub fn new(store: Store) -> Self {
        Self { store, waiting: PendingUses::default() }
    }

    /// Records that a credential is used now.
    pub fn note(&self, credential: Credential) {
        self.waiting.note(credential);
    }

    /// Returns the last use of a credential: the later of `stored` and what waits to be stored.
    pub fn last(&self, credential: Credential, stored: Option<UnixMillis>) -> Option<UnixMillis> {
        self.waiting.last(credential, stored)
    }

    /// Stores the last uses. If that fails they are dropped, because a later use supersedes them.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn write(&self) -> Result<()> {
        let used = self.waiting.take();
        if used.is_empty() { Ok(()) } else { self.store.note_used(&used).await }
    }
}

impl PendingUses {
    fn note(&self, credential: Credential) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MAX_WAITING || waiting.contains_key(&credential) {
            waiting.insert(credential, clock::now());
        }
    }

    fn last(&self, credential: Credential, stored: Option<UnixMillis>) -> Option<UnixMillis> {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.get(&credential).copied().max(stored)
    }

    fn take(&self) -> Vec<(Credential, UnixMillis)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::KeyId;

    #[test]
    fn a_use_is_visible_before_it_is_stored_and_taken_once() {
        let (uses, key, stored) =
            (PendingUses::default(), Credential::Key(KeyId::random()), Some(UnixMillis::new(7)));
        assert_eq!(uses.last(key, None), None);
        assert_eq!(uses.last(key, stored), stored);
        uses.note(key);
        assert!(uses.last(key, stored) > stored);
        assert_eq!(uses.take().len(), 1);
        assert!(uses.take().is_empty());
        for _ in 0..MAX_WAITING + 10 {
            uses.note(Credential::Key(KeyId::random()));
        }
        assert_eq!(uses.take().len(), MAX_WAITING, "it is bounded");
    }
}
