//! How is a computer forked? As a clone whose disk comes with the memory of the same moment: the source's runner has both
//! copied in its turn, and the fork goes on from them under an identity of its own.

use std::sync::Arc;

use super::fleet::Fleet;
use super::runner::{Runner, Work, boot, gone, machine, refused};
use crate::base::ids::{ComputerId, ComputerRef};
use crate::domain::clone::{check_fork, not_forkable};
use crate::domain::error::{Error, Result};
use crate::engine::EngineError;
use crate::store::computers::Computer;
use crate::store::copies::NewCopy;

/// What a client reads when a fork fails.
const FAILED: &str = "Computer could not be forked";

impl Fleet {
    /// Makes a fork. Returns when it is usable; on failure nothing is left of it, and a caller that goes away in between
    /// changes nothing.
    ///
    /// # Errors
    /// `Invalid` (`NOT_FORKABLE`); as [`crate::store::Store::add_copy`]; or why it could not be made.
    pub async fn fork(&self, source: &Computer, copy: NewCopy) -> Result<Computer> {
        check_fork(source.status, self.engine().capabilities().memory_snapshot)?;
        self.note_action(source.id);
        let store = self.shared.store.clone();
        self.make(async move { store.add_copy(&copy).await }, Work::Fork(source.id)).await
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
        forked.map_err(|error| match error {
            EngineError::Unsupported(_) => {
                not_forkable("This computer cannot be forked: its engine copies no memory").context(error)
            }
            EngineError::NoCapacity(_)
            | EngineError::Absent
            | EngineError::Damaged(_)
            | EngineError::Failed { .. } => refused(FAILED, &error),
        })
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

    /// In the fork's runner: goes on from the copied memory; the guest is live afterwards, and knows who it is.
    pub(super) async fn go_on_as_another(&mut self) -> Result<()> {
        let row = self.row().await?;
        let shared = Arc::clone(&self.shared);
        let turn = shared.starts.acquire().await.map_err(Error::internal)?;
        let resumed = shared.engine.resume(&machine(&row), &boot(&row)).await;
        let endpoint = resumed.map_err(|error| refused(FAILED, &error))?;
        let guest = self.renewed(&row, endpoint).await?;
        drop(turn);
        self.meet(&row, guest).await;
        Ok(())
    }
}
