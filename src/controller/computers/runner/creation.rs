//! How does a computer come to be, and how does it go? Its machine is made, empty or as a copy, and brought up; what fails
//! anywhere is undone, because nobody was told of it.

use super::{Next, Runner, Work, machine, refused};
use hotdesk_base::ids::{ComputerId, SnapshotId};
use hotdesk_domain::error::Result;
use hotdesk_domain::lifecycle::Status;
use hotdesk_engine::EngineResult;
use hotdesk_store::computers::Computer;

/// Tries at removing a machine before it is left for the next start of the controller.
const REMOVAL_TRIES: u32 = 3;

/// What a new computer begins with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Beginning {
    /// An empty disk.
    Nothing,
    /// A copy of another computer's disk.
    DiskOf(ComputerId),
    /// A copy of another computer's disk and memory, as they are or were in a snapshot.
    MemoryOf(ComputerId, Option<SnapshotId>),
}

impl Runner {
    /// Makes the machine of a new row.
    pub(super) async fn create(&mut self, row: &Computer, from: Beginning) -> (Result<()>, Next) {
        self.show(Status::Creating, None, None);
        let disk = match from {
            Beginning::DiskOf(source) => self.copied_from(source, Work::CopyTo(self.id)).await,
            Beginning::MemoryOf(source, at) => {
                let work = at.map_or(Work::ForkTo(self.id), |snapshot| Work::Launch(snapshot, self.id));
                self.copied_from(source, work).await
            }
            Beginning::Nothing => {
                let made = self.shared.engine.create(&machine(row)).await;
                made.map_err(|error| refused("Computer could not be created", &error))
            }
        };
        let made = match (disk, from) {
            (Ok(()), Beginning::MemoryOf(..)) => self.go_on_as_another().await,
            (Ok(()), Beginning::Nothing) => self.bring_up(row, false).await,
            (Ok(()), Beginning::DiskOf(_)) => self.bring_up(row, true).await,
            (Err(error), _) => Err(error),
        };
        let arrived = match made {
            Ok(guest) => self.arrive(row, guest).await,
            Err(error) => Err(error),
        };
        match arrived {
            Ok(()) => (Ok(()), Next::Stay),
            Err(error) => {
                tracing::warn!(computer = %self.id, %error, "create failed; undoing it");
                let (removed, next) = self.remove().await;
                if let Err(again) = removed {
                    tracing::error!(computer = %self.id, error = %again, "the undo of a create failed");
                }
                (Err(error), next)
            }
        }
    }

    /// Removes machine and row. A machine that will not go keeps its row as `deleting`, for the next try.
    pub(super) async fn remove(&mut self) -> (Result<()>, Next) {
        self.show(Status::Deleting, None, None);
        if let Err(error) = self.shared.store.set_status(self.id, Status::Deleting).await {
            return (Err(error), Next::Stay);
        }
        let mut last: EngineResult<()> = Ok(());
        for attempt in 0..REMOVAL_TRIES {
            last = self.shared.engine.destroy(self.id).await;
            match &last {
                Ok(()) => break,
                Err(error) => tracing::warn!(computer = %self.id, attempt, %error, "removal failed"),
            }
        }
        if let Err(error) = last {
            return (Err(refused("Computer could not be removed", &error)), Next::Stay);
        }
        match self.shared.store.remove_computer(self.id).await {
            Ok(files) => {
                self.shared.storage.forget(&files).await;
                if let Some(keeper) = &self.shared.keeper {
                    keeper.look_again();
                }
                (Ok(()), Next::Gone)
            }
            Err(error) => (Err(error), Next::Stay),
        }
    }
}
