//! Reader of changed records: it collects notices, reads each changed record once, and tells all pages.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio_util::sync::DropGuard;

use super::LiveUpdate;
use hotdesk_base::ids::{AccountId, ComputerId, ComputerRef, ThreadId, WorkspaceId};
use hotdesk_domain::desktop::thread::RunState;
use hotdesk_domain::error::Result;
use hotdesk_store::Store;
use hotdesk_store::fleet::changes::RecordChange;

/// Time in which notices are collected: a person does not see the delay, and a record that changes ten times
/// in it is read and sent once.
const COLLECT_TIME: Duration = Duration::from_millis(100);
/// Most notices that are collected at once. The others are collected next.
const MAX_NOTICES: usize = 4096;
/// Most computers that are read one by one. With more changed ones, each page reads its list, which is one
/// query.
const MAX_READS: usize = 256;

/// Guard of the running reader, which all pages share.
#[derive(Debug)]
pub(super) struct ChangeReader {
    _reading: DropGuard,
}

impl ChangeReader {
    /// `reading` ends the reader's task when it is dropped.
    pub(super) fn new(reading: DropGuard) -> Self {
        Self { _reading: reading }
    }
}

/// Changes that were noted since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
struct PendingChanges {
    /// Notices were lost, or any computer changed: every page lists its computers again.
    every_computer: bool,
    computers: HashSet<ComputerId>,
    workspaces: HashSet<WorkspaceId>,
    accounts: HashSet<AccountId>,
    threads: HashSet<ThreadId>,
}

impl PendingChanges {
    /// Adds a notice.
    fn add(&mut self, change: RecordChange) {
        match change {
            RecordChange::Computer(id) => {
                self.computers.insert(id);
            }
            RecordChange::Workspace(id) => {
                self.workspaces.insert(id);
            }
            RecordChange::Account(id) => {
                self.accounts.insert(id);
            }
            RecordChange::Thread(id) => {
                self.threads.insert(id);
            }
            RecordChange::AnyComputer => self.every_computer = true,
        }
    }

    /// Adds the notices that wait.
    fn collect(&mut self, changes: &mut broadcast::Receiver<RecordChange>) {
        for _ in 0..MAX_NOTICES {
            match changes.try_recv() {
                Ok(change) => self.add(change),
                Err(TryRecvError::Lagged(_)) => self.every_computer = true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Whether every page lists its computers again, which covers all changes of computers, workspaces and
    /// accounts.
    fn is_everything(&self) -> bool {
        self.every_computer || self.computers.len() > MAX_READS
    }
}

/// Reads what changes and tells the pages. It never returns; it ends by being dropped.
pub(super) async fn run(
    store: Store,
    mut changes: broadcast::Receiver<RecordChange>,
    updates: broadcast::Sender<LiveUpdate>,
) -> Infallible {
    loop {
        let mut pending = PendingChanges::default();
        match changes.recv().await {
            Ok(change) => pending.add(change),
            Err(RecvError::Lagged(_)) => pending.every_computer = true,
            // `store` has the sender.
            Err(RecvError::Closed) => return std::future::pending().await,
        }
        tokio::time::sleep(COLLECT_TIME).await;
        pending.collect(&mut changes);
        // An error says that there is no page.
        let tell = |update| drop(updates.send(update));
        if let Err(error) = publish(&store, &pending, tell).await {
            tracing::warn!(
                error = format_args!("{error:#}"),
                "could not read changed records: pages of the console list their computers again"
            );
            tell(LiveUpdate::EveryComputer);
        }
    }
}

/// Reads the changed records and tells the pages.
///
/// # Errors
/// `Unavailable` or `Internal` when the store fails; what was read before has been told.
async fn publish(store: &Store, pending: &PendingChanges, tell: impl Fn(LiveUpdate)) -> Result<()> {
    if pending.is_everything() {
        tell(LiveUpdate::EveryComputer);
    } else {
        pending.accounts.iter().for_each(|account| tell(LiveUpdate::Account(*account)));
        pending.workspaces.iter().for_each(|workspace| tell(LiveUpdate::Workspace(*workspace)));
        for computer in &pending.computers {
            let row = store.computer(&ComputerRef::Id(*computer)).await?;
            tell(LiveUpdate::Computer(*computer, row.map(Arc::new)));
        }
    }
    for id in &pending.threads {
        let thread = store.thread(*id).await?;
        if let Some((computer, run)) = thread.and_then(|thread| Some((thread.computer, thread.run?))) {
            tell(LiveUpdate::Thread(*id, computer, RunState::name(run)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_notices_of_a_record_are_one_change() {
        let (sender, mut receiver) = broadcast::channel(64);
        let (computer, thread) = (ComputerId::random(), ThreadId::random());
        let (workspace, account) = (WorkspaceId::random(), AccountId::random());
        for _ in 0..10 {
            sender.send(RecordChange::Computer(computer)).unwrap();
            sender.send(RecordChange::Thread(thread)).unwrap();
        }
        sender.send(RecordChange::Workspace(workspace)).unwrap();
        sender.send(RecordChange::Account(account)).unwrap();
        let mut pending = PendingChanges::default();
        pending.collect(&mut receiver);
        let expected = PendingChanges {
            every_computer: false,
            computers: [computer].into(),
            workspaces: [workspace].into(),
            accounts: [account].into(),
            threads: [thread].into(),
        };
        assert_eq!(pending, expected);
        assert!(!pending.is_everything());
        let mut later = PendingChanges::default();
        later.collect(&mut receiver);
        assert_eq!(later, PendingChanges::default());
    }

    #[test]
    fn lost_notices_make_every_page_list_again() {
        let (sender, mut receiver) = broadcast::channel(4);
        let last = ComputerId::random();
        for _ in 0..9 {
            sender.send(RecordChange::Computer(ComputerId::random())).unwrap();
        }
        sender.send(RecordChange::Computer(last)).unwrap();
        let mut pending = PendingChanges::default();
        pending.collect(&mut receiver);
        assert!(pending.is_everything() && pending.computers.contains(&last), "{pending:?}");
        // The next look begins anew.
        sender.send(RecordChange::Computer(last)).unwrap();
        let mut later = PendingChanges::default();
        later.collect(&mut receiver);
        assert!(!later.is_everything());
        sender.send(RecordChange::AnyComputer).unwrap();
        later.collect(&mut receiver);
        assert!(later.is_everything());
    }

    #[test]
    fn a_change_of_the_whole_fleet_is_one_list() {
        let mut pending = PendingChanges::default();
        for count in 1..=MAX_READS + 1 {
            pending.add(RecordChange::Computer(ComputerId::random()));
            assert_eq!(pending.is_everything(), count > MAX_READS);
        }
    }
}
