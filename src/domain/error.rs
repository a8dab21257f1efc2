//! What went wrong, in the service's own terms? One error for the whole house.
//!
//! The outside text is for the client; the inside context is for the log and never leaves. The API edge turns a kind
//! into a status in one exhaustive match.

use std::fmt;

/// The family of a failure; each maps to one HTTP status at the API edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is malformed or a value is out of range.
    Invalid,
    /// No credential, or one that is not known.
    Unauthenticated,
    /// A trial has ended, or a payment has lapsed.
    PaymentRequired,
    /// Known, but not allowed; also an exhausted plan limit.
    Forbidden,
    /// No such thing.
    NotFound,
    /// The thing's state blocks the operation.
    Conflict,
    /// Understood, and another request than the one that it claims to be.
    Mismatched,
    /// More than may be sent at once.
    TooLarge,
    /// The body's media type is not accepted.
    UnsupportedMedia,
    /// Too many requests.
    RateLimited,
    /// A defect or an unexpected failure here.
    Internal,
    /// Not ready, or something it needs is away; worth a retry.
    Unavailable,
    /// The computer did not answer in time.
    TimedOut,
}

/// An extra field of an error body (interface.md: "An error may add endpoint-specific fields").
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// A string value.
    Text(String),
    /// A whole number.
    Number(i64),
}

/// A failure on its way to a client.
#[derive(Clone, Debug)]
pub struct Error {
    /// Its family.
    pub kind: Kind,
    /// Machine-readable reason, where the specification defines one.
    pub code: Option<&'static str>,
    /// What the client reads.
    pub message: String,
    /// What only the log reads.
    pub context: Option<String>,
    /// Endpoint-specific fields of the body.
    pub fields: Vec<(&'static str, Field)>,
    /// Seconds for `Retry-After`, when a retry may help.
    pub retry_after: Option<u32>,
}

/// Most characters of a refusal: it may quote what was sent, which may be long.
const MAX_REFUSAL: usize = 500;

/// What every fallible operation of the house returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: None,
            message: message.into(),
            context: None,
            fields: Vec::new(),
            retry_after: None,
        }
    }

    /// The request is malformed or a value is out of range. A long message is cut.
    pub fn invalid(message: impl Into<String>) -> Self {
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(MAX_REFUSAL) {
            message.truncate(end);
            message.push('…');
        }
        Self::new(Kind::Invalid, message)
    }

    /// No credential, or one that is not known.
    pub fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(Kind::Unauthenticated, message)
    }

    /// A trial has ended, or a payment has lapsed.
    pub fn payment_required(message: impl Into<String>) -> Self {
        Self::new(Kind::PaymentRequired, message)
    }

    /// Known, but not allowed.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(Kind::Forbidden, message)
    }

    /// No such thing.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// The thing's state blocks the operation.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message)
    }

    /// Understood, and another request than the one that it claims to be.
    pub fn mismatched(message: impl Into<String>) -> Self {
        Self::new(Kind::Mismatched, message)
    }

    /// More than may be sent at once.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(Kind::TooLarge, message)
    }

    /// The body's media type is not accepted.
    pub fn unsupported_media(message: impl Into<String>) -> Self {
        Self::new(Kind::UnsupportedMedia, message)
    }

    /// Too many requests; try again in `seconds`.
    pub fn rate_limited(seconds: u32) -> Self {
        Self::new(Kind::RateLimited, "Too many requests").retry_after(seconds)
    }

    /// An unexpected failure. The client learns only that it happened; `context` goes to the log.
    pub fn internal(context: impl fmt::Display) -> Self {
        Self::new(Kind::Internal, "Internal server error").context(context)
    }

    /// A failure here of which the client may know what it is.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// Not ready, or something it needs is away.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, message)
    }

    /// The computer did not answer in time.
    pub fn timed_out(message: impl Into<String>) -> Self {
        Self::new(Kind::TimedOut, message)
    }

    /// Adds the machine-readable reason.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Adds what only the log may read.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.context = Some(context.to_string());
        self
    }

    /// Adds a text field to the body.
    #[must_use]
    pub fn text(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, Field::Text(value.into())));
        self
    }

    /// Adds a numeric field to the body.
    #[must_use]
    pub fn number(mut self, name: &'static str, value: i64) -> Self {
        self.fields.push((name, Field::Number(value)));
        self
    }

    /// Tells the client when a retry makes sense.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(context) = &self.context {
            write!(f, " ({context})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_quotes_no_more_than_fits() {
        assert_eq!(Error::invalid("short").message, "short");
        let whole = "é".repeat(MAX_REFUSAL);
        assert_eq!(Error::invalid(&whole).message, whole);
        assert_eq!(Error::invalid(format!("{whole}x")).message, format!("{whole}…"));
    }
}
