//! Error type of the whole service.
//!
//! The message is for the client; the context is for the log and is never sent. `src/http` maps each kind to
//! a status.

use std::fmt;

use crate::error_code::ErrorCode;

/// Kind of a failure; each maps to one HTTP status (docs/api/errors.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is malformed or a value is out of range.
    Invalid,
    /// The credential is missing or unknown.
    Unauthenticated,
    /// A trial has ended, or a payment has lapsed.
    PaymentRequired,
    /// The caller is known but not permitted; also an exhausted plan limit.
    Forbidden,
    /// The object does not exist.
    NotFound,
    /// The state of the object does not permit the operation.
    Conflict,
    /// The request differs from the earlier one with the same `Idempotency-Key`.
    Mismatched,
    /// The document in the request body breaks its rules.
    Unprocessable,
    /// The request body is too large.
    TooLarge,
    /// The request body did not arrive in time.
    SlowRequest,
    /// The body's media type is not accepted.
    UnsupportedMedia,
    /// Too many requests.
    RateLimited,
    /// A defect or an unexpected failure of the service.
    Internal,
    /// The service or something that it needs is not available; a retry may succeed.
    Unavailable,
    /// A program in the computer refused the connection or broke it off.
    BadGateway,
    /// The computer did not answer in time.
    TimedOut,
}

/// An endpoint-specific field of an error body (docs/api/errors.md).
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// A string value.
    Text(String),
    /// A whole number.
    Number(i64),
    /// A truth value.
    Flag(bool),
    /// An object with fields.
    Object(Vec<(&'static str, Field)>),
    /// A list of objects with fields.
    Rows(Vec<Vec<(&'static str, Field)>>),
}

/// A failure, with its public message and its private context. `{}` prints the message alone, so a text for a
/// client cannot contain the context; `{:#}` adds the context, for the log.
#[derive(Clone, Debug)]
pub struct Error {
    /// Kind of the failure.
    pub kind: Kind,
    /// Machine-readable code, where the API defines one (docs/api/errors.md).
    pub code: Option<ErrorCode>,
    /// Message for the client.
    pub message: String,
    /// Details for the log only.
    pub context: Option<String>,
    /// Endpoint-specific fields of the body.
    pub fields: Vec<(&'static str, Field)>,
    /// `Retry-After`, in seconds, when a retry may succeed.
    pub retry_after: Option<u32>,
    /// Whether it is the stored answer to an earlier request with the same `Idempotency-Key`.
    pub replayed: bool,
}

/// Longest message of an invalid request, in characters: it may quote a long request.
const MAX_REFUSAL: usize = 500;

/// Result of a fallible operation of the service.
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
            replayed: false,
        }
    }

    /// The request is malformed or a value is out of range. A long message is truncated.
    pub fn invalid(message: impl Into<String>) -> Self {
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(MAX_REFUSAL) {
            message.truncate(end);
            message.push('…');
        }
        Self::new(Kind::Invalid, message)
    }

    /// The credential is missing or unknown.
    pub fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(Kind::Unauthenticated, message)
    }

    /// A trial has ended, or a payment has lapsed.
    pub fn payment_required(message: impl Into<String>) -> Self {
        Self::new(Kind::PaymentRequired, message)
    }

    /// The request body did not arrive in time.
    pub fn slow_request(message: impl Into<String>) -> Self {
        Self::new(Kind::SlowRequest, message)
    }

    /// The caller is known but not permitted.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(Kind::Forbidden, message)
    }

    /// The object does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// The state of the object does not permit the operation.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message)
    }

    /// The request differs from the earlier one with the same `Idempotency-Key`.
    pub fn mismatched(message: impl Into<String>) -> Self {
        Self::new(Kind::Mismatched, message)
    }

    /// The document in the request body breaks its rules.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(Kind::Unprocessable, message)
    }

    /// The request body is too large.
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

    /// An unexpected failure. The client gets a general message; `context` goes to the log.
    pub fn internal(context: impl fmt::Display) -> Self {
        Self::new(Kind::Internal, "Internal server error").context(context)
    }

    /// A failure of the service whose message the client may read.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// The service or something that it needs is not available.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, message)
    }

    /// A program in the computer refused the connection or broke it off.
    pub fn bad_gateway(message: impl Into<String>) -> Self {
        Self::new(Kind::BadGateway, message)
    }

    /// The computer did not answer in time.
    pub fn timed_out(message: impl Into<String>) -> Self {
        Self::new(Kind::TimedOut, message)
    }

    /// Sets the machine-readable code.
    #[must_use]
    pub fn code(mut self, code: ErrorCode) -> Self {
        self.code = Some(code);
        self
    }

    /// Sets the details for the log: the alternate form, so that an error keeps its own context.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.context = Some(format!("{context:#}"));
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

    /// Adds any field to the body.
    #[must_use]
    pub fn field(mut self, name: &'static str, value: Field) -> Self {
        self.fields.push((name, value));
        self
    }

    /// Sets `Retry-After`, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.context {
            Some(context) if f.alternate() => write!(f, " ({context})"),
            Some(_) | None => Ok(()),
        }
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

    #[test]
    fn the_context_is_in_the_alternate_form_only() {
        let error = Error::internal("open /x: no");
        assert_eq!(error.to_string(), "Internal server error");
        assert_eq!(format!("{error:#}"), "Internal server error (open /x: no)");
        let outer = Error::unavailable("try again").context(&error);
        assert_eq!(
            (outer.to_string(), format!("{outer:#}")),
            ("try again".into(), format!("try again ({error:#})"))
        );
        assert_eq!(format!("{:#}", Error::failed("alone")), "alone");
    }
}
