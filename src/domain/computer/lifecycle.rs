//! What may happen to a computer, and when? One pure decision over its status and a command.
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
//! A step that fails for good leaves `error`; start, stop, restart and delete lead out of it. A suspend that fails leaves a
//! computer that runs on, a resume that fails one that is suspended still, as long as its memory is there.

use super::error::{Error, Result};

/// When a client may look again at a computer that is being suspended: memory is saved in seconds.
const SUSPEND_RETRY_SECONDS: u32 = 5;

/// The status of a computer (wire.md 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Being made; never seen after the create was answered.
    Creating,
    /// On its way to running, from its disk or from its memory.
    Starting,
    /// Usable.
    Running,
    /// On its way to stopped.
    Stopping,
    /// Its disk is kept, nothing runs.
    Stopped,
    /// Stopping and starting as one operation.
    Restarting,
    /// On its way out.
    Deleting,
    /// A step failed; nothing of it runs.
    Error,
    /// Its memory is being saved.
    Suspending,
    /// Its disk and its memory are kept, nothing runs.
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

    /// The wire and store name.
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

    /// Parses a stored or queried name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// What may be asked of a computer that exists, by a client but for the last two.
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
    /// What the desktop is needed for and wakes a sleeping computer (wire.md 5.2, "Auto-resume").
    Act,
    /// What the desktop is needed for and lets a sleeping computer sleep.
    Look,
    /// The service itself ends what runs on although its trial is over, and keeps its memory.
    EndBySuspend,
    /// The same where memory cannot be kept.
    EndByStop,
}

/// A change that the runner carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Bring it up from its disk.
    Start,
    /// End what runs, keep the disk.
    Stop,
    /// End what runs and bring it up again.
    Restart,
    /// Save memory and disk, end what runs.
    Suspend,
    /// Go on from the saved memory.
    Resume,
    /// End what runs and remove everything.
    Delete,
}

impl Operation {
    /// The status while it is carried out.
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

/// The answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Carry this out.
    Do(Operation),
    /// What was asked for is so, or is already under way.
    AlreadySo,
}

/// Decides on a command.
///
/// # Errors
/// `Conflict` when the status blocks it: interface.md's "Computer is not running (status: ...)", or the sentence that
/// fits the command; `computer_asleep` and `suspend_in_progress` (wire.md 2) for what lets a computer sleep.
pub fn decide(status: Status, command: Command) -> Result<Decision> {
    use Decision::{AlreadySo, Do};
    use Status::{
        Creating, Deleting, Error as Failed, Restarting, Running, Starting, Stopped, Stopping, Suspended,
        Suspending,
    };
    match (command, status) {
        // One that is stopping starts in its turn: when the stop has ended. So wakes one that is suspending.
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
        // Also one that is being deleted: the second waits for the end of the same work, or tries a failed one again.
        (
            Command::Delete,
            Starting | Running | Stopping | Stopped | Restarting | Deleting | Failed | Suspending | Suspended,
        ) => Ok(Do(Operation::Delete)),

        (Command::Act | Command::Look, Running) => Ok(AlreadySo),
        (Command::Act | Command::Look, Creating | Starting | Stopping | Stopped | Restarting | Failed) => {
            Err(not_running(status))
        }
        (Command::Look, Suspended) => Err(not_running(status).code("computer_asleep")),
        (Command::Look, Suspending) => {
            Err(not_running(status).code("suspend_in_progress").retry_after(SUSPEND_RETRY_SECONDS))
        }

        (Command::EndBySuspend, Running) => Ok(Do(Operation::Suspend)),
        (Command::EndByStop, Running) => Ok(Do(Operation::Stop)),
        (
            Command::EndBySuspend | Command::EndByStop,
            Stopping | Stopped | Deleting | Failed | Suspending | Suspended,
        ) => Ok(AlreadySo),
        // It will run: then it is ended.
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

/// The status of a computer's suspension, as `GET suspension` tells it (interface.md "Suspension state").
///
/// # Errors
/// `Conflict` for a computer that has none.
pub fn suspension(status: Status) -> Result<Status> {
    if matches!(status, Status::Suspending | Status::Suspended) {
        Ok(status)
    } else {
        Err(not_suspended(status))
    }
}

/// The refusal of what only a running computer takes (interface.md "Suspend", errors).
pub fn not_running(status: Status) -> Error {
    Error::conflict(format!("Computer is not running (status: {})", status.name()))
}

fn not_suspended(status: Status) -> Error {
    Error::conflict(format!("Computer is not suspended (status: {})", status.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `.` already so, a letter an operation, `!` a conflict; columns in the order of `Status::ALL`.
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
                let got = match decide(status, command) {
                    Ok(Decision::AlreadySo) => '.',
                    Ok(Decision::Do(Operation::Start)) => 'S',
                    Ok(Decision::Do(Operation::Stop)) => 'T',
                    Ok(Decision::Do(Operation::Restart)) => 'R',
                    Ok(Decision::Do(Operation::Suspend)) => 'P',
                    Ok(Decision::Do(Operation::Resume)) => 'U',
                    Ok(Decision::Do(Operation::Delete)) => 'D',
                    Err(error) => {
                        assert_eq!(error.kind, super::super::error::Kind::Conflict);
                        '!'
                    }
                };
                assert_eq!(got, expected, "{command:?} while {}", status.name());
            }
        }
    }

    #[test]
    fn names_go_there_and_back() {
        for status in Status::ALL {
            assert_eq!(Status::parse(status.name()), Some(status));
        }
        assert_eq!(Status::parse("frozen"), None);
    }

    #[test]
    fn an_action_on_a_stopped_computer_says_its_status() {
        let error = decide(Status::Stopped, Command::Act).unwrap_err();
        assert_eq!(error.message, "Computer is not running (status: stopped)");
    }

    #[test]
    fn what_lets_a_computer_sleep_says_that_it_sleeps() {
        for (status, code) in
            [(Status::Suspended, "computer_asleep"), (Status::Suspending, "suspend_in_progress")]
        {
            assert_eq!(decide(status, Command::Look).unwrap_err().code, Some(code));
            assert_eq!(suspension(status).unwrap(), status);
        }
        // interface.md, errors of suspend: this sentence for every status but three.
        let error = decide(Status::Deleting, Command::Suspend).unwrap_err();
        assert_eq!(error.message, "Computer is not running (status: deleting)");
        let others =
            Status::ALL.into_iter().filter(|it| !matches!(it, Status::Suspending | Status::Suspended));
        for status in others {
            let error = suspension(status).unwrap_err();
            assert_eq!(error.message, format!("Computer is not suspended (status: {})", status.name()));
        }
    }
}
