//! Audit log: entries are queued and stored in batches twice a second.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::queue::EntryQueue;
use crate::config::AuditSettings;
use crate::web::source::Source;
use hotdesk_base::clock;
use hotdesk_domain::audit::Entry;
use hotdesk_domain::error::Result;
use hotdesk_store::Store;

/// Time between two writes: what a killed controller may lose.
pub const WRITE_INTERVAL: Duration = Duration::from_millis(500);
/// Entries in one transaction, so that other writers get their turn.
const BATCH_SIZE: usize = 500;
/// A day.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The audit log; cheap to clone.
#[derive(Clone, Debug)]
pub struct Log {
    store: Store,
    queue: Arc<EntryQueue>,
    /// One task writes at a time. After waiting for it, a caller's own entries are stored.
    turn: Arc<Mutex<()>>,
}

impl Log {
    /// Creates a log with no waiting entries.
    pub fn new(store: Store) -> Self {
        Self { store, queue: Arc::default(), turn: Arc::default() }
    }

    /// Adds an entry to the queue without waiting; see [`EntryQueue::add`].
    pub(super) fn add(&self, entry: Entry, from: Source) {
        self.queue.add(entry, from);
    }

    /// Stores all waiting entries. Cancel-safe: at worst one batch is stored twice.
    ///
    /// # Errors
    /// `Internal` when the database fails; the entries stay in the queue.
    pub async fn write(&self) -> Result<()> {
        let _turn = self.turn.lock().await;
        // Entries that arrive meanwhile are for the next call, so that it ends under load.
        let mut left = self.queue.waiting();
        while left > 0 {
            let batch = self.queue.oldest(left.min(BATCH_SIZE));
            self.store.add_audit(&batch).await?;
            self.queue.stored(batch.len());
            left -= batch.len();
        }
        Ok(())
    }

    /// Removes entries beyond the configured age and number.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn trim(&self, kept: &AuditSettings) -> Result<()> {
        let before = clock::now().minus(DAY * kept.days);
        self.store.trim_audit(before, kept.entries).await
    }
}
