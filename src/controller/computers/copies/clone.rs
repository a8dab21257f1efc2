//! Clone of a computer.
//!
//! The clone's runner creates its machine. The source's runner copies the disk in its turn, so that nothing
//! else happens to the source meanwhile.

use crate::computers::fleet::Fleet;
use crate::computers::runner::registry::stopping;
use crate::computers::runner::{Runner, Work, computer_not_found, machine_spec, refused};
use hotdesk_base::ids::{ComputerId, ComputerRef};
use hotdesk_domain::computer::clone::{check_source, not_clonable};
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::EngineError;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::copies::NewCopy;

impl Fleet {
    /// Creates a clone and waits until it is usable. A failed clone is removed. The work continues if the
    /// caller disconnects.
    ///
    /// # Errors
    /// `Invalid` (`NOT_CLONABLE`); the errors of [`hotdesk_store::Store::add_copy`]; `Internal` or
    /// `Unavailable` when it could not be created.
    pub async fn clone_computer(&self, source: &Computer, copy: NewCopy) -> Result<Computer> {
        check_source(
            source.status,
            self.engine().offers().capabilities(source.isolation).copy_while_running,
        )?;
        let store = self.shared.store.clone();
        self.create_machine(async move { store.add_copy(&copy).await }, Work::Clone(source.id)).await
    }
}

impl Runner {
    /// Asks the source's runner to copy, and waits. Runs in the copy's runner.
    pub(in crate::computers) async fn copied_from(&self, source: ComputerId, work: Work) -> Result<()> {
        let (_, copied) = self.shared.send(source, work)?;
        copied.await.map_err(|_| stopping())?
    }

    /// Copies the disk to a clone whose row is stored. Runs in the source's runner.
    pub(in crate::computers) async fn copy_disk(&self, row: &Computer, clone: ComputerId) -> Result<()> {
        let engine = &self.shared.engine;
        check_source(row.status, engine.offers().capabilities(row.isolation).copy_while_running)?;
        let clone =
            self.shared.store.computer(&ComputerRef::Id(clone)).await?.ok_or_else(computer_not_found)?;
        if clone.hardware.disk_gb < row.hardware.disk_gb {
            // The source was resized after the clone's row was stored. The row is what was charged.
            return Err(Error::conflict("The computer was resized meanwhile; clone it again").retry_after(1));
        }
        self.run_pre_snapshot(row).await;
        let copied = engine.copy_disk(row.id, &machine_spec(&clone)).await;
        copied.map_err(|error| match error {
            EngineError::Unsupported(_) => {
                not_clonable("This computer cannot be cloned: its engine copies no disks").context(error)
            }
            EngineError::NoCapacity(..)
            | EngineError::Absent
            | EngineError::MemoryInUse { .. }
            | EngineError::Damaged(_)
            | EngineError::Failed { .. } => refused("Computer could not be cloned", &error),
        })
    }
}
