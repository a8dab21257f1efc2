//! Errors of a back end of language models.

use std::fmt;
use std::time::Duration;

/// Sentence for a conversation that the model cannot read at once.
pub(crate) const CONTEXT_OVERFLOW: &str =
    "The conversation is too long for the model: begin a new one, or choose a model that reads more.";

/// Kind of a back end's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// The back end refused the key.
    Unauthorized,
    /// The back end limits requests, and the retries were used up.
    RateLimited {
        /// Time after which the back end wants the next request.
        retry_after: Option<Duration>,
    },
    /// The back end is overloaded or failed (5xx, 529), and the retries were used up.
    Unavailable,
    /// The back end refused the request itself, for example because the conversation is too long.
    Refused,
    /// The back end's answer broke off or was no valid message.
    Protocol,
    /// The back end did not answer in time, or cannot be reached.
    Unreachable,
}

/// Failure of a back end. `Display` prints a sentence for the client without keys, addresses or bodies.
#[derive(Clone, Debug)]
pub struct ModelError {
    /// Kind.
    pub kind: ModelErrorKind,
    /// Sentence for the client. It has at most 500 characters.
    pub message: String,
    /// Detail for the log, never for a client.
    pub detail: Option<String>,
}

impl ModelError {
    /// Whether the back end refused the request because the conversation is too long for the model.
    pub fn is_context_overflow(&self) -> bool {
        self.kind == ModelErrorKind::Refused && self.message == CONTEXT_OVERFLOW
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match (&self.detail, f.alternate()) {
            (Some(detail), true) => write!(f, ": {detail}"),
            (Some(_), false) | (None, _) => Ok(()),
        }
    }
}

impl std::error::Error for ModelError {}
