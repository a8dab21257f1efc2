//! How is a computer forked? As a clone whose disk comes with the memory of the same moment: the source's runner has both
//! copied in its turn, and the fork goes on from them under an identity of its own. A fork of a snapshot begins with what
//! that holds; the source may do anything then, and many can be launched at once.

use std::sync::Arc;

use super::fleet::Fleet;
use super::runner::{Runner, Work, boot, gone, machine, refused};
use hotdesk_base::ids::{ComputerId, ComputerRef, SnapshotId};
use hotdesk_domain::clone::{check_fork, check_launch, not_forkable};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::snapshot::check_ready;
use hotdesk_engine::EngineError;
use hotdesk_guest::Guest;
use hotdesk_store::computers::Computer;
use hotdesk_store::copies::NewCopy;

/// What a client reads when a fork fails.
const FAILED: &str = "Computer could not be forked";

impl Fleet {
    /// Makes a fork of a computer as it is, or as it was in one of its snapshots. Returns when it is usable; on failure
    /// nothing is left of it, and a caller that goes away in between changes nothing.
    ///
    /// # Errors
    /// `Invalid` (`NOT_FORKABLE`); as [`hotdesk_store::Store::add_copy`]; or why it could not be made.
    pub async fn fork(&self, source: &Computer, copy: NewCopy) -> Result<Computer> {
        let (store, at) = (self.shared.store.clone(), copy.extent.snapshot());
        let copies_memory = self.engine().capabilities().memory_snapshot;
        if let Some(snapshot) = at {
            check_launch(store.snapshot(source.id, snapshot).await?.memory, copies_memory)?;
        } else {
            check_fork(source.status, copies_memory)?;
            self.note_action(source.id);
        }
        self.make(async move { store.add_copy(&copy).await }, Work::Fork(source.id, at)).await
    }
}

impl Runner {
    /// In the source's runner: copies disk and memory to a fork whose row is stored.
    pub(super) async fn copy_memory(&self, row: &Computer, fork: ComputerId) -> Result<()> {
        let (engine, store) = (&self.shared.engine, &self.shared.store);
        check_fork(row.status, engine.capabilities().memory_snapshot)?;
        let stored = store.computer(&ComputerRef::Id(fork)).await?.ok_or_else(gone)?;
        if stored.hardware != row.hardware {
            // Memory goes on in a machine of the size that it knows; the row is what was paid for.
            return Err(Error::conflict("The computer was resized meanwhile; fork it again").retry_after(1));
        }
        store.intend_fork(fork, row).await?;
        let forked = self.unreached(engine.fork(row.id, &machine(&stored))).await;
        forked.map_err(not_forked)
    }

    /// In the source's runner, so that the snapshot stays meanwhile: makes a fork whose row is stored begin with what it
    /// holds. Nothing is asked of the source itself.
    pub(super) async fn launch(&self, snapshot: SnapshotId, fork: ComputerId) -> Result<()> {
        let store = &self.shared.store;
        check_ready(store.snapshot(self.id, snapshot).await?.state)?;
        let stored = store.computer(&ComputerRef::Id(fork)).await?.ok_or_else(gone)?;
        let launched = self.shared.engine.launch(self.id, snapshot.0, &machine(&stored)).await;
        launched.map_err(not_forked)
    }

    /// Has nobody reach the guest while its memory is copied: a connection that is open then would be broken off. What
    /// comes meanwhile waits for the guest to be there again.
    pub(super) async fn unreached<T>(&self, copy: impl Future<Output = T>) -> T {
        let guest = self.presence.borrow().guest.clone();
        self.presence.send_modify(|now| now.guest = None);
        let copied = copy.await;
        self.presence.send_modify(|now| now.guest = guest);
        copied
    }

    /// In the fork's runner: goes on from the copied memory, as a guest that knows who it is. Nobody reaches it yet.
    pub(super) async fn go_on_as_another(&mut self) -> Result<Guest> {
        let row = self.row().await?;
        let shared = Arc::clone(&self.shared);
        let _turn = shared.starts.acquire().await.map_err(Error::internal)?;
        let resumed = shared.engine.resume(&machine(&row), &boot(&row)).await;
        let endpoint = resumed.map_err(not_forked)?;
        self.renewed(&row, endpoint).await
    }
}

/// What a client learns when a fork fails.
fn not_forked(error: EngineError) -> Error {
    match error {
        EngineError::Unsupported(_) => {
            not_forkable("This computer cannot be forked: its engine copies no memory").context(error)
        }
        EngineError::Damaged(_) => {
            let text = "What the fork was to begin with is damaged or missing";
            Error::unavailable(text).code("snapshot_unavailable").context(error)
        }
        EngineError::NoCapacity(_) | EngineError::Absent | EngineError::Failed { .. } => {
            refused(FAILED, &error)
        }
    }
}
