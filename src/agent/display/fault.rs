//! Failures between a screen's worker and its X server, and their API errors.

use std::fmt;
use std::io;

use x11rb::errors::{ConnectError, ConnectionError, ReplyError, ReplyOrIdError};

use hotdesk_domain::error::Error;
use hotdesk_domain::error_code::ErrorCode;

/// Retry delay in seconds that the API suggests: a screen restarts in less.
pub(super) const RETRY_SECONDS: u32 = 1;

/// Failure of a job on a screen, or of the start of its worker.
#[derive(Debug)]
pub(super) enum Fault {
    /// The request cannot be served; the screen is fine.
    Refused(Error),
    /// The X server did not answer in time: a client grabs it, or it is overloaded.
    Silent,
    /// The connection or the worker's thread is unusable.
    Broken(String),
}

/// Result of a job on a screen.
pub(super) type Outcome<T> = Result<T, Fault>;

impl Fault {
    /// The API error when the job had begun: its effect is unknown.
    pub(super) fn after_start(self, display: &str) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Silent => Error::timed_out(format!("Screen {display} stopped answering during the action"))
                .retry_after(RETRY_SECONDS),
            Self::Broken(why) => restarting(display).code(ErrorCode::OutcomeUnknown).context(why),
        }
    }

    /// The API error when nothing had been done yet.
    pub(super) fn before_start(self, display: &str) -> Error {
        match self {
            Self::Silent => Error::unavailable(format!("Screen {display} does not answer: try again"))
                .retry_after(RETRY_SECONDS),
            Self::Refused(error) => error,
            Self::Broken(why) => restarting(display).context(why),
        }
    }
}

/// The API error while a screen has no running X server.
pub(super) fn restarting(display: &str) -> Error {
    Error::unavailable(format!("Screen {display} is starting")).retry_after(RETRY_SECONDS)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Silent => f.write_str("the X server does not answer"),
            Self::Broken(why) => f.write_str(why),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::TimedOut { Self::Silent } else { Self::Broken(error.to_string()) }
    }
}

impl From<ConnectionError> for Fault {
    fn from(error: ConnectionError) -> Self {
        if let ConnectionError::IoError(error) = error {
            return error.into();
        }
        Self::Broken(error.to_string())
    }
}

impl From<ReplyError> for Fault {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::ConnectionError(error) => error.into(),
            ReplyError::X11Error(error) => Self::Refused(Error::internal(format!("X server: {error:?}"))),
        }
    }
}

impl From<ReplyOrIdError> for Fault {
    fn from(error: ReplyOrIdError) -> Self {
        match error {
            ReplyOrIdError::IdsExhausted => Self::Broken(String::from("X resource ids ran out")),
            ReplyOrIdError::ConnectionError(error) => error.into(),
            ReplyOrIdError::X11Error(error) => ReplyError::X11Error(error).into(),
        }
    }
}

impl From<ConnectError> for Fault {
    fn from(error: ConnectError) -> Self {
        if let ConnectError::IoError(error) = error {
            return error.into();
        }
        Self::Broken(error.to_string())
    }
}
