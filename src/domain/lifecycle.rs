//! What may happen to a computer, and when? One pure decision over its status and a command.
//!
//! ```text
//!            create                  stop
//!  (none) ──────────▶ creating ──▶ running ──▶ stopping ──▶ stopped
//!                                   │   ▲                     │
//!                           restart │   └───── starting ◀─────┘ start
//!                                   ▼
//!                               restarting ──▶ running          any ──▶ deleting ──▶ (none)
//! ```
//! A step that fails for good leaves `error`; start, stop, restart and delete lead out of it.

use super::error::{Error, Result};

/// The status of a computer (wire.md 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Being made; never seen after the create was answered.
    Creating,
    /// On its way to running.
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
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 8] = [
        Self::Creating,
        Self::Starting,
        Self::Running,
        Self::Stopping,
        Self::Stopped,
        Self::Restarting,
        Self::Deleting,
        Self::Error,
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
        }
    }

    /// Parses a stored or queried name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// What a client may ask of a computer that exists.
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
    /// `DELETE`.
    Delete,
    /// Any action on the desktop, and the proxy.
    Act,
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
    /// End what runs and remove everything.
    Delete,
}

impl Operation {
    /// The status while it is carried out.
    pub fn status(self) -> Status {
        match self {
            Self::Start => Status::Starting,
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
/// fits the command.
pub fn decide(status: Status, command: Command) -> Result<Decision> {
    use Decision::{AlreadySo, Do};
    use Status::{Creating, Deleting, Error as Failed, Restarting, Running, Starting, Stopped, Stopping};
    match (command, status) {
        // One that is stopping starts in its turn: when the stop has ended.
        (Command::Start | Command::EnsureRunning, Stopping | Stopped | Failed) => Ok(Do(Operation::Start)),
        (Command::Start | Command::EnsureRunning, Running | Creating | Starting | Restarting) => {
            Ok(AlreadySo)
        }

        (Command::Stop, Running | Failed) => Ok(Do(Operation::Stop)),
        (Command::Stop, Stopping) => Ok(AlreadySo),
        (Command::Stop, Stopped) => Err(Error::conflict("Computer is already stopped")),
        (Command::Stop, Creating | Starting | Restarting) => Err(not_running(status)),

        (Command::Restart, Running | Failed) => Ok(Do(Operation::Restart)),
        (Command::Restart, Restarting) => Ok(AlreadySo),
        (Command::Restart, Creating | Starting | Stopping | Stopped) => Err(not_running(status)),

        (Command::Delete, Creating) => {
            Err(Error::conflict("Computer is still being created; retry in a moment").retry_after(2))
        }
        // Also one that is being deleted: the second waits for the end of the same work, or tries a failed one again.
        (Command::Delete, Starting | Running | Stopping | Stopped | Restarting | Deleting | Failed) => {
            Ok(Do(Operation::Delete))
        }

        (Command::Act, Running) => Ok(AlreadySo),
        (Command::Act, Creating | Starting | Stopping | Stopped | Restarting | Failed) => {
            Err(not_running(status))
        }

        (
            Command::Start | Command::Stop | Command::Restart | Command::EnsureRunning | Command::Act,
            Deleting,
        ) => Err(Error::conflict("Computer is being deleted")),
    }
}

fn not_running(status: Status) -> Error {
    Error::conflict(format!("Computer is not running (status: {})", status.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `.` already so, a letter an operation, `!` a conflict; columns in the order of `Status::ALL`.
    #[test]
    fn the_decision_table() {
        // columns: creating starting running stopping stopped restarting deleting error
        let table = [
            (Command::Start, "...SS.!S"),
            (Command::EnsureRunning, "...SS.!S"),
            (Command::Stop, "!!T.!!!T"),
            (Command::Restart, "!!R!!.!R"),
            (Command::Delete, "!DDDDDDD"),
            (Command::Act, "!!.!!!!!"),
        ];
        for (command, row) in table {
            for (status, expected) in Status::ALL.into_iter().zip(row.chars()) {
                let got = match decide(status, command) {
                    Ok(Decision::AlreadySo) => '.',
                    Ok(Decision::Do(Operation::Start)) => 'S',
                    Ok(Decision::Do(Operation::Stop)) => 'T',
                    Ok(Decision::Do(Operation::Restart)) => 'R',
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
}
