//! Notices of changed records, for watchers in the same process.
//!
//! ```text
//!   a transaction notes changes -- commit --> notices --> watchers, which read the records
//! ```
//! A notice says that a record may have changed, and nothing of how. It comes after the commit, so a watcher
//! reads at least that state.

use std::collections::HashSet;

use tokio::sync::broadcast;

use hotdesk_base::ids::{AccountId, ComputerId, ThreadId, WorkspaceId};

/// Notices that wait for a watcher: more than what changes in a large fleet while a watcher reads. A slower
/// one is told that it missed some, and reads everything again.
const MAX_WAITING: usize = 4096;

/// A record that may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordChange {
    /// A computer was created, changed or removed.
    Computer(ComputerId),
    /// The name or the owner of a workspace changed, which are in the records of its computers.
    Workspace(WorkspaceId),
    /// An account reaches other workspaces than before, or all of its computers changed.
    Account(AccountId),
    /// A run of a chat thread began or ended.
    Thread(ThreadId),
    /// Any computer changed, and it is not known which.
    AnyComputer,
}

/// Notices of changed records; clones share the watchers.
#[derive(Clone, Debug)]
pub struct RecordChanges(broadcast::Sender<RecordChange>);

impl Default for RecordChanges {
    fn default() -> Self {
        Self(broadcast::Sender::new(MAX_WAITING))
    }
}

impl RecordChanges {
    /// Sends a notice. It costs next to nothing while nobody watches.
    pub fn send(&self, change: RecordChange) {
        // An error says that nobody watches.
        let _unwatched = self.0.send(change);
    }

    /// Watches the changes from now on.
    pub fn watch(&self) -> broadcast::Receiver<RecordChange> {
        self.0.subscribe()
    }
}

/// Notices of one transaction. They are sent when it is dropped after the begin of the commit: a caller that
/// is gone in the middle of a commit costs no notice, and one too many does no harm.
#[derive(Debug)]
pub(crate) struct CommitNotices {
    changes: HashSet<RecordChange>,
    target: RecordChanges,
    is_committing: bool,
}

impl CommitNotices {
    pub(crate) fn new(target: RecordChanges) -> Self {
        Self { changes: HashSet::new(), target, is_committing: false }
    }

    pub(crate) fn note(&mut self, change: RecordChange) {
        self.changes.insert(change);
    }

    /// The commit begins.
    pub(crate) fn begin_commit(&mut self) {
        self.is_committing = true;
    }
}

impl Drop for CommitNotices {
    fn drop(&mut self) {
        if self.is_committing {
            self.changes.iter().for_each(|change| self.target.send(*change));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_sent_once_and_only_after_a_commit() {
        let changes = RecordChanges::default();
        let mut watcher = changes.watch();
        let computer = RecordChange::Computer(ComputerId::random());
        let noted = || {
            let mut notices = CommitNotices::new(changes.clone());
            notices.note(computer);
            notices.note(computer);
            notices
        };
        drop(noted());
        assert!(watcher.try_recv().is_err(), "a rollback changes nothing");
        let mut committed = noted();
        committed.begin_commit();
        assert!(watcher.try_recv().is_err(), "the commit is not over");
        drop(committed);
        assert_eq!(watcher.try_recv().unwrap(), computer);
        assert!(watcher.try_recv().is_err());
        drop(watcher);
        changes.send(computer);
    }
}
