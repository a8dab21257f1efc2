//! When was each key last used? Kept in memory, and written down once a minute: a use costs no write.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::super::{App, Shared};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::KeyId;
use hotdesk_domain::error::Result;

/// Between two writes: each key in use is written once in it.
pub const WRITTEN_EVERY: Duration = Duration::from_secs(60);
/// Keys that wait to be written; the use of one more is not noted until the next write. 20,000 x about 40 bytes are a
/// megabyte.
const MAX_WAITING: usize = 20_000;

/// The last uses that are not written down yet.
#[derive(Debug, Default)]
pub struct Usage(Mutex<HashMap<KeyId, i64>>);

impl Usage {
    /// Notes that a key is used now.
    pub fn note(&self, key: KeyId) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MAX_WAITING || waiting.contains_key(&key) {
            waiting.insert(key, now_ms());
        }
    }

    /// When a key was last used, of which the store knows this.
    pub fn last(&self, key: KeyId, stored: Option<i64>) -> Option<i64> {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.get(&key).copied().max(stored)
    }

    fn take(&self) -> Vec<(KeyId, i64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain().collect()
    }
}

impl App {
    /// Writes the last uses down. Those that cannot be written are lost: the next use tells more.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn write_usage(&self) -> Result<()> {
        let used = self.usage.take();
        if used.is_empty() { Ok(()) } else { self.store.note_used(&used).await }
    }
}

/// As [`App::write_usage`], in the background.
pub async fn write(app: Shared) -> Result<()> {
    app.write_usage().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_told_before_it_is_written_and_taken_once() {
        let (usage, key) = (Usage::default(), KeyId::random());
        assert_eq!(usage.last(key, None), None);
        assert_eq!(usage.last(key, Some(7)), Some(7));
        usage.note(key);
        assert!(usage.last(key, Some(7)) > Some(7));
        assert_eq!(usage.take().len(), 1);
        assert!(usage.take().is_empty());
        for _ in 0..MAX_WAITING + 10 {
            usage.note(KeyId::random());
        }
        assert_eq!(usage.take().len(), MAX_WAITING, "it is bounded");
    }
}
