//! Moves of computers between hosts: which computers move, and how.

use crate::computer::lifecycle::Status;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// `Retry-After` of a request for a computer that is being moved, in seconds: its disk may have gigabytes.
const MOVE_RETRY_SECONDS: u32 = 60;
/// `Retry-After` of a move of a computer that is between two states, in seconds.
const SETTLE_RETRY_SECONDS: u32 = 5;

/// What a move does with the machine before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveMethod {
    /// It does not run, and does not after the move.
    AsItIs,
    /// It is suspended before and resumed after the move, so that its memory is kept.
    WithMemory,
    /// It is stopped before and booted after the move.
    Reboot,
}

impl MoveMethod {
    /// Returns the method for a computer with this status. `keeps_memory`: its engine can suspend it.
    ///
    /// # Errors
    /// `Conflict` for a computer between two states.
    pub fn of(status: Status, keeps_memory: bool) -> Result<Self> {
        match status {
            Status::Running if keeps_memory => Ok(Self::WithMemory),
            Status::Running => Ok(Self::Reboot),
            Status::Stopped | Status::Suspended | Status::Error => Ok(Self::AsItIs),
            Status::Creating
            | Status::Starting
            | Status::Stopping
            | Status::Restarting
            | Status::Deleting
            | Status::Suspending => {
                let text = format!("Computer cannot be moved now (status: {})", status.name());
                Err(Error::conflict(text).retry_after(SETTLE_RETRY_SECONDS))
            }
        }
    }

    /// Returns the status of a computer with this status during the move. One that ran is `restarting`, by which the next
    /// controller knows that it must run again.
    pub fn status(self, before: Status) -> Status {
        match self {
            Self::AsItIs => before,
            Self::WithMemory | Self::Reboot => Status::Restarting,
        }
    }
}

/// Returns the error for a request that must wait for the end of a move.
pub fn migrating() -> Error {
    Error::conflict("Computer is being moved to another host; retry in a few minutes")
        .code(ErrorCode::Migrating)
        .retry_after(MOVE_RETRY_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `m` moves with its memory, `r` reboots, `.` moves as it is, `!` is a conflict; columns in the order of `Status::ALL`.
    #[test]
    fn a_settled_computer_moves_and_returns_to_its_status() {
        for (keeps_memory, row) in [(true, "!!m!.!!.!."), (false, "!!r!.!!.!.")] {
            for (status, expected) in Status::ALL.into_iter().zip(row.chars()) {
                let method = MoveMethod::of(status, keeps_memory);
                let got = match &method {
                    Ok(MoveMethod::WithMemory) => 'm',
                    Ok(MoveMethod::Reboot) => 'r',
                    Ok(MoveMethod::AsItIs) => '.',
                    Err(_) => '!',
                };
                assert_eq!(got, expected, "{}", status.name());
                if let Ok(method) = method {
                    let during = if status == Status::Running { Status::Restarting } else { status };
                    assert_eq!(method.status(status), during);
                }
            }
        }
        assert_eq!(migrating().code, Some(ErrorCode::Migrating));
    }
}
