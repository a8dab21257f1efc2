//! Failures of commands: error text and exit code.

use std::process::ExitCode;

use hotdesk_base::step_error::StepError;
use hotdesk_domain::error::Error;
use hotdesk_engine::EngineError;

/// Exit code of a command that Ctrl-C ended: 128 and the number of SIGINT.
const INTERRUPTED: u8 = 130;

/// The reason why a command fails.
#[derive(Debug)]
pub enum Failure {
    /// Invalid arguments; exit code 2, like clap's own.
    Usage(String),
    /// Any other failure; exit code 1.
    Failed(String),
    /// The user pressed Ctrl-C; exit code 130, like that of a shell.
    Interrupted(String),
}

/// Result of a command. By default a success carries the exit code.
pub type Outcome<T = ExitCode> = Result<T, Failure>;

impl Failure {
    /// Prints the failure and returns 255, as ssh does: all other codes belong to the command on the computer.
    pub fn report_as_ssh(&self) -> ExitCode {
        let _code = self.report();
        ExitCode::from(255)
    }

    /// The text for people.
    pub fn text(&self) -> &str {
        match self {
            Self::Usage(text) | Self::Failed(text) | Self::Interrupted(text) => text,
        }
    }

    /// Prints the failure to standard error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            Self::Usage(text) => {
                eprintln!("hotdesk: {text}\n\nFor more information, try '--help'.");
                ExitCode::from(2)
            }
            Self::Failed(text) => {
                eprintln!("hotdesk: {text}");
                ExitCode::FAILURE
            }
            Self::Interrupted(text) => {
                eprintln!("hotdesk: {text}");
                ExitCode::from(INTERRUPTED)
            }
        }
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl From<StepError> for Failure {
    fn from(error: StepError) -> Self {
        Self::Failed(error.into())
    }
}

/// With the context: the reader operates the host and owns the store.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self::Failed(text.to_owned())
    }
}
