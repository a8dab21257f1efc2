//! Fork of a computer: a clone with the memory of the same moment.
//!
//! The source's runner copies disk and memory in its turn. The fork resumes from them under its own identity.
//! A fork of a snapshot begins with the snapshot's contents. The source is not involved then, and many forks
//! can be launched concurrently.

use std::sync::Arc;

use crate::computers::fleet::Fleet;
use crate::computers::runner::{
    NewIdentity, Runner, Work, boot_spec, computer_not_found, machine_spec, refused,
};
use hotdesk_base::ids::{ComputerId, ComputerRef, SnapshotId};
use hotdesk_domain::computer::clone::{check_fork, check_launch, copies_no_memory};
use hotdesk_domain::computer::snapshot::check_ready;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_engine::EngineError;
use hotdesk_guest::Guest;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::copies::NewCopy;

/// Message of a failed fork.
const FAILED: &str = "Computer could not be forked";

impl Fleet {
    /// Creates a fork of a computer as it is, or of one of its snapshots, and waits until it is usable. A
    /// failed fork is removed. The work continues if the caller disconnects.
    ///
    /// # Errors
    /// `Invalid` (`NOT_FORKABLE`); the errors of [`hotdesk_store::Store::add_copy`]; why it could not be
    /// created.
    pub async fn fork(&self, source: &Computer, copy: NewCopy) -> Result<Computer> {
        let (store, at) = (self.shared.store.clone(), copy.extent.snapshot());
        let copies_memory = self.engine().offers().capabilities(source.isolation).memory_snapshot;
        if let Some(snapshot) = at {
            check_launch(store.snapshot(source.id, snapshot).await?.memory, copies_memory)?;
        } else {
            check_fork(source.status, copies_memory)?;
            self.shared.note_action(source.id);
        }
        self.create_machine(async move { store.add_copy(&copy).await }, Work::Fork(source.id, at)).await
    }
}

impl Runner {
    /// Copies disk and memory to a fork whose row is stored. Runs in the source's runner.
    pub(in crate::computers) async fn copy_memory(&self, row: &Computer, fork: ComputerId) -> Result<()> {
        let (engine, store) = (&self.shared.engine, &self.shared.store);
        check_fork(row.status, engine.offers().capabilities(row.isolation).memory_snapshot)?;
        let stored = store.computer(&ComputerRef::Id(fork)).await?.ok_or_else(computer_not_found)?;
        if stored.hardware != row.hardware {
            // Memory can only resume in a machine of its own size. The row is what was charged.
            return Err(Error::conflict("The computer was resized meanwhile; fork it again").retry_after(1));
        }
        self.run_pre_snapshot(row).await;
        store.intend_fork(fork, row).await?;
        let forked = self.with_guest_hidden(engine.fork(row.id, &machine_spec(&stored))).await;
        forked.map_err(fork_error)
    }

    /// Creates a fork, whose row is stored, from a snapshot. Runs in the source's runner so that the snapshot
    /// is not removed meanwhile. The source itself is not used.
    pub(in crate::computers) async fn launch(&self, snapshot: SnapshotId, fork: ComputerId) -> Result<()> {
        let store = &self.shared.store;
        check_ready(store.snapshot(self.id, snapshot).await?.state)?;
        let stored = store.computer(&ComputerRef::Id(fork)).await?.ok_or_else(computer_not_found)?;
        let launched = self.shared.engine.launch(self.id, snapshot.0, &machine_spec(&stored)).await;
        launched.map_err(fork_error)
    }

    /// Hides the guest while its memory is copied, because open connections would break. Requests wait until
    /// it is visible again.
    pub(in crate::computers) async fn with_guest_hidden<T>(&self, copy: impl Future<Output = T>) -> T {
        let guest = self.presence.borrow().guest.clone();
        self.presence.send_modify(|now| now.guest = None);
        let copied = copy.await;
        self.presence.send_modify(|now| now.guest = guest);
        copied
    }

    /// Resumes from the copied memory with a new identity. Runs in the fork's runner. The guest is not
    /// reachable yet.
    pub(in crate::computers) async fn resume_as_fork(&mut self, row: &Computer) -> Result<Guest> {
        let shared = Arc::clone(&self.shared);
        let _turn = shared.starts.acquire().await.map_err(Error::internal)?;
        let resumed = shared.engine.resume(&machine_spec(row), &boot_spec(row)).await;
        let endpoint = resumed.map_err(fork_error)?;
        NewIdentity::of(row, true).give(&*shared.engine, endpoint).await
    }
}

/// Converts an engine's failure to a client's error.
pub(in crate::computers) fn fork_error(error: EngineError) -> Error {
    match error {
        EngineError::Unsupported(_) => copies_no_memory().context(error),
        EngineError::Damaged(_) => {
            let text = "The snapshot or copied memory of this fork is damaged or missing";
            Error::unavailable(text).code(ErrorCode::SnapshotUnavailable).context(error)
        }
        EngineError::NoCapacity(..)
        | EngineError::Absent
        | EngineError::MemoryInUse { .. }
        | EngineError::Failed { .. } => refused(FAILED, &error),
    }
}
