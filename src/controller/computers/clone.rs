//! How is a computer cloned? The clone's runner makes it as any new computer; its disk is copied by the source's
//! runner, in its turn, so that nothing else happens to the source meanwhile.

use std::sync::Arc;

use super::fleet::{Fleet, stopping};
use super::runner::{Runner, Work, gone, machine, refused};
use hotdesk_base::ids::{ComputerId, ComputerRef};
use hotdesk_domain::clone::{check_source, not_clonable};
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::EngineError;
use hotdesk_store::computers::Computer;
use hotdesk_store::copies::NewCopy;

impl Fleet {
    /// Makes a clone. Returns when it is usable; on failure nothing is left of it, and a caller that goes away in
    /// between changes nothing.
    ///
    /// # Errors
    /// `Invalid` (`NOT_CLONABLE`); as [`hotdesk_store::Store::add_copy`]; or why it could not be made.
    pub async fn clone_computer(&self, source: &Computer, copy: NewCopy) -> Result<Computer> {
        check_source(source.status, self.engine().capabilities().copy_while_running)?;
        let store = self.shared.store.clone();
        self.make(async move { store.add_copy(&copy).await }, Work::Clone(source.id)).await
    }
}

impl Runner {
    /// In the copy's runner: has the source's runner copy what it has, and waits for it.
    pub(super) async fn copied_from(&self, source: ComputerId, work: Work) -> Result<()> {
        let (_, copied) = Fleet::over(Arc::clone(&self.shared)).send(source, work)?;
        copied.await.map_err(|_| stopping())?
    }

    /// In the source's runner: copies the disk to a clone whose row is stored.
    pub(super) async fn copy_disk(&self, row: &Computer, clone: ComputerId) -> Result<()> {
        let engine = &self.shared.engine;
        check_source(row.status, engine.capabilities().copy_while_running)?;
        let clone = self.shared.store.computer(&ComputerRef::Id(clone)).await?.ok_or_else(gone)?;
        if clone.hardware.disk_gb < row.hardware.disk_gb {
            // A resize came between the clone's row and this turn; the row is what was paid for.
            return Err(Error::conflict("The computer was resized meanwhile; clone it again").retry_after(1));
        }
        let copied = engine.copy_disk(row.id, &machine(&clone)).await;
        copied.map_err(|error| match error {
            EngineError::Unsupported(_) => {
                not_clonable("This computer cannot be cloned: its engine copies no disks").context(error)
            }
            EngineError::NoCapacity(_)
            | EngineError::Absent
            | EngineError::Damaged(_)
            | EngineError::Failed { .. } => refused("Computer could not be cloned", &error),
        })
    }
}
