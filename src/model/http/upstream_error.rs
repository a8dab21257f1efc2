//! Errors as servers of models describe them, and their kinds.
//!
//! Anthropic: `{"type": "error", "error": {"type", "message"}}`. OpenAI: `{"error": {"message", "type",
//! "code"}}`. vLLM also sends `{"object": "error", "message", "type", "code": 400}`, and Ollama `{"error":
//! "text"}`.

use std::time::Duration;

use serde_json::Value;

use crate::error::{CONTEXT_OVERFLOW, ModelError, ModelErrorKind};

/// Longest text of a server that is logged, in characters: a sentence or two.
const MAX_DETAIL: usize = 400;

/// Description of an error by the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UpstreamError {
    /// Its type, such as `overloaded_error`.
    kind: String,
    /// Its code, such as `context_length_exceeded`.
    code: String,
    /// Its sentence.
    message: String,
    /// A code that is a number: the status that it would have had.
    status: Option<u16>,
}

/// Failure of one attempt.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The error, if no other attempt follows.
    pub error: ModelError,
    /// Whether another attempt may succeed.
    pub is_transient: bool,
    /// Time after which the server wants the next one.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure that another attempt would meet again.
    pub fn lasting(kind: ModelErrorKind, message: &str, detail: impl Into<String>) -> Self {
        let error = ModelError { kind, message: message.to_owned(), detail: Some(detail.into()) };
        Self { error, is_transient: false, retry_after: None }
    }

    /// A failure that another attempt may not meet.
    pub fn transient(kind: ModelErrorKind, message: &str, detail: impl Into<String>) -> Self {
        Self { is_transient: true, ..Self::lasting(kind, message, detail) }
    }

    /// A reply that ended before it was complete.
    pub fn broken_off(detail: impl Into<String>) -> Self {
        Self::transient(ModelErrorKind::Protocol, "The model's reply broke off.", detail)
    }

    /// A reply that is none.
    pub fn malformed(detail: impl Into<String>) -> Self {
        let message = "The model's server sent no valid reply.";
        Self::lasting(ModelErrorKind::Protocol, message, detail)
    }
}

impl UpstreamError {
    /// Returns the error that a document describes, or `None` when it describes none.
    pub fn of(document: &Value) -> Option<Self> {
        let described = match document.get("error") {
            Some(Value::String(message)) => {
                return Some(Self { message: message.clone(), ..Self::default() });
            }
            Some(error @ Value::Object(_)) => error,
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => {
                let is_error = document.get("object").is_some_and(|object| object == "error");
                if !is_error {
                    return None;
                }
                document
            }
        };
        let text = |field: &str| described.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = described.get("code").and_then(Value::as_u64);
        Some(Self {
            kind: text("type"),
            code: text("code"),
            message: text("message"),
            status: number.and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400),
        })
    }

    /// Returns the error of an answer's body, which may be no JSON.
    pub fn of_body(body: &[u8]) -> Self {
        let text = || Self { message: String::from_utf8_lossy(body).trim().to_owned(), ..Self::default() };
        serde_json::from_slice(body).ok().and_then(|document| Self::of(&document)).unwrap_or_else(text)
    }

    /// Returns the failure of an attempt. `status` is that of the answer, `None` within a reply that had
    /// begun.
    pub fn failure(&self, status: Option<u16>, retry_after: Option<Duration>) -> Failure {
        let status = status.unwrap_or_else(|| self.implied_status());
        let (kind, is_transient, message) = if self.is_context_overflow(status) {
            (ModelErrorKind::Refused, false, CONTEXT_OVERFLOW)
        } else {
            self.kind_of(status, retry_after)
        };
        let detail = match kind {
            // Servers quote parts of the key here.
            ModelErrorKind::Unauthorized => format!("status {status}: {}", self.names()),
            ModelErrorKind::RateLimited { .. }
            | ModelErrorKind::Unavailable
            | ModelErrorKind::Refused
            | ModelErrorKind::Protocol
            | ModelErrorKind::Unreachable => {
                let message: String = self.message.chars().take(MAX_DETAIL).collect();
                format!("status {status}: {}: {message}", self.names())
            }
        };
        let error = ModelError { kind, message: message.to_owned(), detail: Some(detail) };
        Failure { error, is_transient, retry_after }
    }

    fn kind_of(&self, status: u16, retry_after: Option<Duration>) -> (ModelErrorKind, bool, &'static str) {
        match status {
            401 | 403 => (
                ModelErrorKind::Unauthorized,
                false,
                "The model's server refused the key: check the key of the request, or ask the operator to \
                 check the configured one.",
            ),
            429 => (
                ModelErrorKind::RateLimited { retry_after },
                // No time refills a budget that is used up.
                self.code != "insufficient_quota" && self.kind != "insufficient_quota",
                "The model's server limits requests: try again later.",
            ),
            408 | 409 | 425 | 500.. => (
                ModelErrorKind::Unavailable,
                status != 501,
                "The model's server is overloaded or failed: try again later.",
            ),
            _ => (ModelErrorKind::Refused, false, "The model's server refused the request."),
        }
    }

    /// Returns the status that an error within a reply would have had.
    fn implied_status(&self) -> u16 {
        let by_kind = match self.kind.as_str() {
            "invalid_request_error" | "exceed_context_size_error" | "BadRequestError" => Some(400),
            "authentication_error" => Some(401),
            "billing_error" => Some(402),
            "permission_error" => Some(403),
            "not_found_error" => Some(404),
            "request_too_large" => Some(413),
            "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => Some(429),
            "overloaded_error" => Some(529),
            _ => None,
        };
        self.status.or(by_kind).unwrap_or(500)
    }

    fn is_context_overflow(&self, status: u16) -> bool {
        let says = |text: &str| self.message.contains(text);
        status == 413
            || self.code == "context_length_exceeded"
            || self.kind == "exceed_context_size_error"
            || status == 400
                && (says("prompt is too long")
                    || says("exceed context limit")
                    || says("maximum context length")
                    || says("exceeds the available context size"))
    }

    fn names(&self) -> String {
        let names: Vec<&str> = [&self.kind, &self.code]
            .into_iter()
            .filter(|name| !name.is_empty())
            .map(String::as_str)
            .collect();
        let names = if names.is_empty() { "no type".to_owned() } else { names.join(", ") };
        names.chars().take(MAX_DETAIL).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_vendors_errors_have_their_kinds() {
        let limited = ModelErrorKind::RateLimited { retry_after: None };
        let (unauthorized, refused) = (ModelErrorKind::Unauthorized, ModelErrorKind::Refused);
        let unavailable = ModelErrorKind::Unavailable;
        let anthropic =
            |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}});
        let openai = |code: Value, kind: &str| json!({"error": {"message": "m", "type": kind, "code": code}});
        for (status, body, kind, is_transient) in [
            (Some(401), anthropic("authentication_error", "invalid x-api-key"), unauthorized, false),
            (Some(403), anthropic("permission_error", "no"), unauthorized, false),
            (Some(429), anthropic("rate_limit_error", "slow down"), limited, true),
            (Some(529), anthropic("overloaded_error", "Overloaded"), unavailable, true),
            (Some(500), anthropic("api_error", "Internal server error"), unavailable, true),
            (Some(400), anthropic("invalid_request_error", "max_tokens: required"), refused, false),
            (Some(404), anthropic("not_found_error", "model: x"), refused, false),
            (None, anthropic("overloaded_error", "Overloaded"), unavailable, true),
            (None, anthropic("rate_limit_error", "slow down"), limited, true),
            (None, anthropic("invalid_request_error", "no"), refused, false),
            (None, anthropic("new_error", "no"), unavailable, true),
            (Some(401), openai(json!("invalid_api_key"), "invalid_request_error"), unauthorized, false),
            (Some(429), openai(json!("rate_limit_exceeded"), "requests"), limited, true),
            (Some(429), openai(json!("insufficient_quota"), "insufficient_quota"), limited, false),
            (None, openai(json!(503), "unavailable_error"), unavailable, true),
            (None, openai(Value::Null, "server_error"), unavailable, true),
            (None, json!({"object": "error", "message": "m", "code": 400}), refused, false),
            (Some(404), json!({"error": "model \"x\" not found"}), refused, false),
            (Some(501), json!({"error": "no"}), unavailable, false),
        ] {
            let failure = UpstreamError::of(&body).expect("an error").failure(status, None);
            assert_eq!((failure.error.kind, failure.is_transient), (kind, is_transient), "{status:?} {body}");
            assert!(!failure.error.is_context_overflow(), "{body}");
        }
        assert_eq!(UpstreamError::of(&json!({"choices": [], "error": null})), None);
        assert_eq!(UpstreamError::of_body(b" <html>busy</html>").message, "<html>busy</html>");
    }

    #[test]
    fn a_long_conversation_is_told_apart() {
        for (status, body) in [
            (
                400,
                json!({"error": {"type": "invalid_request_error",
                "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
            ),
            (
                400,
                json!({"error": {"type": "invalid_request_error",
                "message": "input length and `max_tokens` exceed context limit: 1 + 2 > 3"}}),
            ),
            (413, json!({"error": {"type": "request_too_large", "message": "Request exceeds the maximum"}})),
            (400, json!({"error": {"message": "m", "code": "context_length_exceeded"}})),
            (400, json!({"object": "error", "message": "This model's maximum context length is 8 tokens."})),
            (
                400,
                json!({"error": {"code": 400, "type": "exceed_context_size_error", "message":
                "the request exceeds the available context size"}}),
            ),
        ] {
            let failure = UpstreamError::of(&body).expect("an error").failure(Some(status), None);
            assert!(failure.error.is_context_overflow() && !failure.is_transient, "{body}");
        }
    }

    #[test]
    fn a_refused_key_is_not_quoted() {
        let body = json!({"error":
            {"message": "Incorrect API key provided: sk-abc*def", "code": "invalid_api_key"}});
        let failure = UpstreamError::of(&body).expect("an error").failure(Some(401), None);
        assert!(!format!("{:#}", failure.error).contains("sk-"));
        assert!(!failure.error.to_string().contains("invalid_api_key"));
    }
}
