//! State machine of a computer: one pure decision over its status and a command.
//!
//! ```text
//!            create                  stop
//!  (none) ──────────▶ creating ──▶ running ──▶ stopping ──▶ stopped
//!                                   │   ▲                     │
//!                           restart │   └───── starting ◀─────┘ start
//!                                   ▼
//!                               restarting ──▶ running          any ──▶ deleting ──▶ (none)
//!
//!            suspend                      resume, start
//!  running ──────────▶ suspending ──▶ suspended ──▶ starting ──▶ running
//!                                         └──▶ stopping ──▶ stopped   (stop: what was in memory is gone)
//! ```
//! A computer that auto-stop suspended, or stopped because its memory cannot be saved, is asleep: the next
//! action wakes it or starts it again.
//!
//! A step that fails permanently leaves `error`; start, stop, restart and delete lead out of it. After a
//! failed suspend the computer continues to run. After a failed resume it stays suspended while its saved
//! memory exists.

use crate::computer::status_reason::StatusReason;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// `Retry-After` for a computer that is being suspended, in seconds: saving the memory takes a few seconds.
const SUSPEND_RETRY_SECONDS: u32 = 5;

/// Status of a computer (docs/lifecycle.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It is being created. Clients do not see this status after the answer to the create request.
    Creating,
    /// It boots from its disk or resumes from its saved memory.
    Starting,
    /// It runs and can be used.
    Running,
    /// It shuts down.
    Stopping,
    /// Nothing runs; its disk remains.
    Stopped,
    /// It stops and starts in one operation.
    Restarting,
    /// It is being removed.
    Deleting,
    /// A step failed; nothing runs.
    Error,
    /// Its memory is being saved.
    Suspending,
    /// Nothing runs; its disk and its saved memory remain.
    Suspended,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 10] = [
        Self::Creating,
        Self::Starting,
        Self::Running,
        Self::Stopping,
        Self::Stopped,
        Self::Restarting,
        Self::Deleting,
        Self::Error,
        Self::Suspending,
        Self::Suspended,
    ];

    /// Returns the name in the API and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Restarting => "restarting",
            Self::Deleting => "deleting",
            Self::Error => "error",
            Self::Suspending => "suspending",
            Self::Suspended => "suspended",
        }
    }

    /// Parses a name of the API or of the store.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// A command for an existing computer. Clients send all but the last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `POST start`.
    Start,
    /// `POST stop`.
    Stop,
    /// `POST restart`.
    Restart,
    /// `POST ensure-running`.
    EnsureRunning,
    /// `POST suspend`.
    Suspend,
    /// `POST resume`.
    Resume,
    /// `DELETE`.
    Delete,
    /// A request that uses the desktop and wakes a computer that is asleep (docs/lifecycle.md).
    Act,
    /// A request that uses the desktop and does not wake a computer that is asleep.
    Look,
    /// The service suspends a computer that runs after the end of its trial.
    EndBySuspend,
    /// The service stops a computer that runs after the end of its trial, where the engine cannot save
    /// memory.
    EndByStop,
}

/// A change that the computer's runner carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Boot from the disk.
    Start,
    /// End the machine; the disk remains.
    Stop,
    /// End the machine and boot it again.
    Restart,
    /// Save the memory and end the machine.
    Suspend,
    /// Continue from the saved memory.
    Resume,
    /// End the machine and remove its disk and memory.
    Delete,
}

impl Operation {
    /// Returns the status of the computer during the operation.
    pub fn status(self) -> Status {
        match self {
            Self::Start | Self::Resume => Status::Starting,
            Self::Suspend => Status::Suspending,
            Self::Stop => Status::Stopping,
            Self::Restart => Status::Restarting,
            Self::Delete => Status::Deleting,
        }
    }
}

/// Decision on a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Carry out this operation.
    Do(Operation),
    /// The computer is in the requested state, or the operation is already in progress.
    AlreadySo,
}

/// Whether the next action wakes a computer with this status and reason: it is suspended, or auto-stop
/// stopped it.
pub fn is_asleep(status: Status, reason: Option<StatusReason>) -> bool {
    match status {
        Status::Suspending | Status::Suspended => true,
        Status::Stopping | Status::Stopped => reason == Some(StatusReason::AutoStop),
        Status::Creating
        | Status::Starting
        | Status::Running
        | Status::Restarting
        | Status::Deleting
        | Status::Error => false,
    }
}

/// Decides on a command for a computer with this status and reason.
///
/// # Errors
/// `Conflict` when the status does not permit the command. [`Command::Look`] gets the code
/// `suspend_in_progress` for a computer that is being suspended and `computer_asleep` for any other that is
/// asleep.
pub fn decide(status: Status, reason: Option<StatusReason>, command: Command) -> Result<Decision> {
    use Decision::{AlreadySo, Do};
    use Status::{
        Creating, Deleting, Error as Failed, Restarting, Running, Starting, Stopped, Stopping, Suspended,
        Suspending,
    };
    match (command, status) {
        // The runner starts a stopping computer after the stop, and resumes a suspending one after the
        // suspend.
        (Command::Start | Command::EnsureRunning, Stopping | Stopped | Failed) => Ok(Do(Operation::Start)),
        (
            Command::Start | Command::EnsureRunning | Command::Resume | Command::Act,
            Suspending | Suspended,
        ) => Ok(Do(Operation::Resume)),
        (
            Command::Start | Command::EnsureRunning | Command::Resume,
            Running | Creating | Starting | Restarting,
        ) => Ok(AlreadySo),
        (Command::Resume, Stopping | Stopped | Failed) => Err(not_suspended(status)),

        // A stop by a client ends the sleep.
        (Command::Stop, Stopping | Stopped) if is_asleep(status, reason) => Ok(Do(Operation::Stop)),
        (Command::Stop, Running | Failed | Suspending | Suspended) => Ok(Do(Operation::Stop)),
        (Command::Stop, Stopping) => Ok(AlreadySo),
        (Command::Stop, Stopped) => Err(Error::conflict("Computer is already stopped")),
        (Command::Stop, Creating | Starting | Restarting) => Err(not_running(status)),

        (Command::Restart, Running | Failed | Suspending | Suspended) => Ok(Do(Operation::Restart)),
        (Command::Restart, Restarting) => Ok(AlreadySo),
        (Command::Restart, Creating | Starting | Stopping | Stopped) => Err(not_running(status)),

        (Command::Suspend, Running) => Ok(Do(Operation::Suspend)),
        (Command::Suspend, Suspending | Suspended) => Ok(AlreadySo),
        (Command::Suspend, Creating | Starting | Stopping | Stopped | Restarting | Deleting | Failed) => {
            Err(not_running(status))
        }

        (Command::Delete, Creating) => {
            Err(Error::conflict("Computer is still being created; retry in a moment").retry_after(2))
        }
        // Also while it is being deleted: the second request waits for the same work, or retries it after a
        // failure.
        (
            Command::Delete,
            Starting | Running | Stopping | Stopped | Restarting | Deleting | Failed | Suspending | Suspended,
        ) => Ok(Do(Operation::Delete)),

        (Command::Act | Command::Look, Running) => Ok(AlreadySo),
        (Command::Act, Stopping | Stopped) if is_asleep(status, reason) => Ok(Do(Operation::Start)),
        (Command::Look, Stopping | Stopped) if is_asleep(status, reason) => {
            Err(not_running(status).code(ErrorCode::ComputerAsleep))
        }
        (Command::Act | Command::Look, Creating | Starting | Stopping | Stopped | Restarting | Failed) => {
            Err(not_running(status))
        }
        (Command::Look, Suspended) => Err(not_running(status).code(ErrorCode::ComputerAsleep)),
        (Command::Look, Suspending) => {
            Err(not_running(status).code(ErrorCode::SuspendInProgress).retry_after(SUSPEND_RETRY_SECONDS))
        }

        (Command::EndBySuspend, Running) => Ok(Do(Operation::Suspend)),
        (Command::EndByStop, Running) => Ok(Do(Operation::Stop)),
        (
            Command::EndBySuspend | Command::EndByStop,
            Stopping | Stopped | Deleting | Failed | Suspending | Suspended,
        ) => Ok(AlreadySo),
        // It is about to run and is ended then.
        (Command::EndBySuspend | Command::EndByStop, Creating | Starting | Restarting) => {
            Err(not_running(status))
        }

        (
            Command::Start
            | Command::Stop
            | Command::Restart
            | Command::EnsureRunning
            | Command::Resume
            | Command::Act
            | Command::Look,
            Deleting,
        ) => Err(Error::conflict("Computer is being deleted")),
    }
}

/// Returns the status of a computer's suspension: `Suspending` or `Suspended`.
///
/// # Errors
/// `Conflict` for every other status.
pub fn suspension(status: Status) -> Result<Status> {
    if matches!(status, Status::Suspending | Status::Suspended) {
        Ok(status)
    } else {
        Err(not_suspended(status))
    }
}

/// Returns the error for a request that only a running computer accepts.
pub fn not_running(status: Status) -> Error {
    Error::conflict(format!("Computer is not running (status: {})", status.name()))
}

fn not_suspended(status: Status) -> Error {
    Error::conflict(format!("Computer is not suspended (status: {})", status.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `.` is `AlreadySo`, a letter is an operation, `!` is a conflict; columns in the order of
    /// `Status::ALL`.
    #[test]
    fn the_decision_table() {
        // columns: creating starting running stopping stopped restarting deleting error suspending suspended
        let table = [
            (Command::Start, "...SS.!SUU"),
            (Command::EnsureRunning, "...SS.!SUU"),
            (Command::Stop, "!!T.!!!TTT"),
            (Command::Restart, "!!R!!.!RRR"),
            (Command::Suspend, "!!P!!!!!.."),
            (Command::Resume, "...!!.!!UU"),
            (Command::Delete, "!DDDDDDDDD"),
            (Command::Act, "!!.!!!!!UU"),
            (Command::Look, "!!.!!!!!!!"),
            (Command::EndBySuspend, "!!P..!...."),
            (Command::EndByStop, "!!T..!...."),
        ];
        for (command, row) in table {
            for (status, expected) in Status::ALL.into_iter().zip(row.chars()) {
                let got = match decide(status, None, command) {
                    Ok(Decision::AlreadySo) => '.',
                    Ok(Decision::Do(Operation::Start)) => 'S',
                    Ok(Decision::Do(Operation::Stop)) => 'T',
                    Ok(Decision::Do(Operation::Restart)) => 'R',
                    Ok(Decision::Do(Operation::Suspend)) => 'P',
                    Ok(Decision::Do(Operation::Resume)) => 'U',
                    Ok(Decision::Do(Operation::Delete)) => 'D',
                    Err(error) => {
                        assert_eq!(error.kind, crate::error::Kind::Conflict);
                        '!'
                    }
                };
                assert_eq!(got, expected, "{command:?} while {}", status.name());
            }
        }
    }

    #[test]
    fn a_computer_that_auto_stop_stopped_is_asleep() {
        use Decision::Do;
        let idle = Some(StatusReason::AutoStop);
        for status in Status::ALL {
            let stopped = matches!(status, Status::Stopping | Status::Stopped);
            let suspended = matches!(status, Status::Suspending | Status::Suspended);
            assert_eq!(is_asleep(status, idle), stopped || suspended, "{}", status.name());
            assert_eq!(is_asleep(status, Some(StatusReason::TrialEnded)), suspended, "{}", status.name());
            if !stopped {
                continue;
            }
            assert_eq!(decide(status, idle, Command::Act).unwrap(), Do(Operation::Start));
            assert_eq!(decide(status, idle, Command::Stop).unwrap(), Do(Operation::Stop));
            let read = decide(status, idle, Command::Look).unwrap_err();
            assert_eq!(read.code, Some(ErrorCode::ComputerAsleep));
        }
    }

    #[test]
    fn names_go_there_and_back() {
        for status in Status::ALL {
            assert_eq!(Status::parse(status.name()), Some(status));
        }
        for reason in StatusReason::ALL {
            assert_eq!(StatusReason::parse(reason.name()), Some(reason));
        }
        assert!(Status::parse("frozen").is_none() && StatusReason::parse("frozen").is_none());
    }

    #[test]
    fn the_error_for_a_stopped_computer_has_its_status() {
        let error = decide(Status::Stopped, None, Command::Act).unwrap_err();
        assert_eq!(error.message, "Computer is not running (status: stopped)");
    }

    #[test]
    fn a_look_at_a_suspended_computer_has_its_own_codes() {
        for (status, code) in [
            (Status::Suspended, ErrorCode::ComputerAsleep),
            (Status::Suspending, ErrorCode::SuspendInProgress),
        ] {
            assert_eq!(decide(status, None, Command::Look).unwrap_err().code, Some(code));
            assert_eq!(suspension(status).unwrap(), status);
        }
        // docs/lifecycle.md: a suspend has this message for every status but three.
        let error = decide(Status::Deleting, None, Command::Suspend).unwrap_err();
        assert_eq!(error.message, "Computer is not running (status: deleting)");
        let others =
            Status::ALL.into_iter().filter(|it| !matches!(it, Status::Suspending | Status::Suspended));
        for status in others {
            let error = suspension(status).unwrap_err();
            assert_eq!(error.message, format!("Computer is not suspended (status: {})", status.name()));
        }
    }
}
