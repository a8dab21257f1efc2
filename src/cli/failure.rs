//! How does a command fail? With a sentence on standard error; exit code 1, or 2 when it was used wrongly.

use std::process::ExitCode;

/// Why a command ended early.
#[derive(Debug)]
pub enum Failure {
    /// The arguments make no sense together.
    Usage(String),
    /// Something went wrong.
    Failed(String),
}

/// What every command of the client returns; the exit code of a success is the command's own.
pub type Outcome<T = ExitCode> = Result<T, Failure>;

impl Failure {
    /// Says it, and gives the exit code: clap's own 2 for wrong usage, 1 for the rest.
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
        }
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self::Failed(text.to_owned())
    }
}
