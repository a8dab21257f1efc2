//! How does a new computer come to be? Its machine is made, empty or as a copy, and brought up; what fails anywhere is undone,
//! because nobody was told of it.

use super::{Next, Runner, Work, machine, refused};
use crate::base::ids::ComputerId;
use crate::domain::error::Result;
use crate::domain::lifecycle::Status;
use crate::store::computers::Computer;

/// What a new computer begins with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Beginning {
    /// An empty disk.
    Nothing,
    /// A copy of another computer's disk.
    DiskOf(ComputerId),
    /// A copy of another computer's disk and memory.
    MemoryOf(ComputerId),
}

impl Runner {
    /// Makes the machine of a new row.
    pub(super) async fn create(&mut self, row: &Computer, from: Beginning) -> (Result<()>, Next) {
        self.show(Status::Creating, None, None);
        let disk = match from {
            Beginning::DiskOf(source) => self.copied_from(source, Work::CopyTo(self.id)).await,
            Beginning::MemoryOf(source) => self.copied_from(source, Work::ForkTo(self.id)).await,
            Beginning::Nothing => {
                let made = self.shared.engine.create(&machine(row)).await;
                made.map_err(|error| refused("Computer could not be created", &error))
            }
        };
        let made = match (disk, from) {
            (Ok(()), Beginning::MemoryOf(_)) => self.go_on_as_another().await,
            (Ok(()), Beginning::Nothing) => self.bring_up(row, false).await,
            (Ok(()), Beginning::DiskOf(_)) => self.bring_up(row, true).await,
            (Err(error), _) => Err(error),
        };
        let ran = match made {
            Ok(()) => self.shared.store.set_status(self.id, Status::Running).await,
            Err(error) => Err(error),
        };
        match ran {
            Ok(()) => {
                self.presence.send_modify(|now| now.status = Some(Status::Running));
                (Ok(()), Next::Stay)
            }
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
}
