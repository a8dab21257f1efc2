//! Rule for computers that are saved as templates (docs/api/templates.md#save-a-computer).

use crate::computer::isolation::Isolation;
use crate::computer::lifecycle::Status;
use crate::error::{Error, Result};

/// A computer that is to be saved as a template.
#[derive(Clone, Copy, Debug)]
pub struct SavedComputer {
    /// Its status.
    pub status: Status,
    /// Its isolation.
    pub isolation: Isolation,
    /// Read-only layers below its disk.
    pub layers: usize,
    /// Whether its engine copies the disk of a running computer.
    pub copy_while_running: bool,
}

impl SavedComputer {
    /// Checks that the disk can become a layer, above at most `most_layers` in all. During a transition the save waits for
    /// its end.
    ///
    /// # Errors
    /// `Conflict` for a virtual machine, whose files the host never reads; for a status without a complete disk; at
    /// `most_layers`.
    pub fn check(&self, most_layers: usize) -> Result<()> {
        if self.isolation == Isolation::Vm {
            return Err(Error::conflict(
                "A virtual machine cannot be saved as a template, because the host does not read its disk: use a computer \
                 with isolation sandbox or shared",
            ));
        }
        if self.status == Status::Running && !self.copy_while_running {
            return Err(Error::conflict(
                "This computer cannot be saved as a template while it runs: stop it first",
            ));
        }
        let what_next = match self.status {
            // Writes that were not flushed are in its saved memory.
            Status::Suspending | Status::Suspended => "resume it first",
            Status::Error => "restart it first",
            Status::Deleting => "it is being deleted",
            Status::Creating
            | Status::Starting
            | Status::Running
            | Status::Stopping
            | Status::Stopped
            | Status::Restarting => {
                return self.check_layers(most_layers);
            }
        };
        let status = self.status.name();
        Err(Error::conflict(format!(
            "Computer cannot be saved as a template (status: {status}): {what_next}"
        )))
    }

    fn check_layers(&self, most: usize) -> Result<()> {
        if self.layers < most {
            return Ok(());
        }
        Err(Error::conflict(format!(
            "This computer has {} layers, and a template at most {most}: build a template with fewer steps, and save a \
             computer of that",
            self.layers
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_disks_that_the_host_may_read_are_saved() {
        let base = SavedComputer {
            status: Status::Running,
            isolation: Isolation::Shared,
            layers: 15,
            copy_while_running: true,
        };
        let stopped = SavedComputer { status: Status::Stopped, copy_while_running: false, ..base };
        for fine in [base, stopped, SavedComputer { isolation: Isolation::Sandbox, ..base }] {
            assert!(fine.check(16).is_ok(), "{fine:?}");
        }
        for (refused, why) in [
            (SavedComputer { isolation: Isolation::Vm, ..stopped }, "isolation sandbox or shared"),
            (SavedComputer { copy_while_running: false, ..base }, "stop it first"),
            (SavedComputer { status: Status::Suspended, ..base }, "(status: suspended): resume it first"),
            (SavedComputer { status: Status::Error, ..base }, "(status: error): restart it first"),
            (SavedComputer { layers: 16, ..base }, "has 16 layers, and a template at most 16"),
        ] {
            let error = refused.check(16).unwrap_err().message;
            assert!(error.contains(why), "{error}");
        }
    }
}
