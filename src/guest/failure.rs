//! What does a client learn when the agent refuses, fails or lies? The house's errors for each, with the agent's
//! status beside ours (wire.md 2: `upstream_status`).

use std::time::Duration;

use axum::http::StatusCode;

use hotdesk_domain::error::{Error, Field, Kind};

/// Largest refusal that is read, in bytes; an honest one is one sentence.
pub(super) const MAX_REFUSAL: usize = 64 * 1024;
/// Longest part of an agent's sentence that is passed on, in characters.
const MAX_SENTENCE: usize = 500;

/// The agent cannot be reached.
pub(super) fn unreachable(error: &dyn std::error::Error) -> Error {
    Error::unavailable("Could not reach the computer").retry_after(2).context(chain(error))
}

/// No answer came to a request. One that was sent may have been carried out.
pub(super) fn unanswered(error: &hyper_util::client::legacy::Error) -> Error {
    if error.is_connect() { unreachable(error) } else { broke_off(error) }
}

/// The agent did not answer in time.
pub(super) fn late(patience: Duration) -> Error {
    Error::timed_out("The computer did not answer in time").context(format!("waited {patience:?}"))
}

/// The agent broke off before its answer or in the middle of it.
pub(super) fn broke_off(error: &dyn std::error::Error) -> Error {
    Error::unavailable("The computer broke off its answer").retry_after(2).context(chain(error))
}

/// The agent said something that no agent says.
pub(super) fn nonsense(what: &dyn std::fmt::Display) -> Error {
    let mut error = Error::internal(what);
    error.message = "The computer's agent sent an invalid answer".to_owned();
    error
}

/// The agent answered with a status that is no success.
pub(super) fn refused(status: StatusCode, body: &[u8], retry_after: Option<u32>) -> Error {
    let said = serde_json::from_slice::<hotdesk_wire::error::ErrorBody>(body).ok();
    let sentence: String = match &said {
        Some(body) => body.error.chars().filter(|c| !c.is_control()).take(MAX_SENTENCE).collect(),
        None => "The computer's agent failed".to_owned(),
    };
    let code = said.and_then(|body| body.code).and_then(|code| known_code(&code));
    let mut error = match status {
        StatusCode::BAD_REQUEST => Error::invalid(sentence),
        StatusCode::NOT_FOUND => Error::not_found(sentence),
        StatusCode::CONFLICT => Error::conflict(sentence),
        StatusCode::UNPROCESSABLE_ENTITY => Error::mismatched(sentence),
        StatusCode::PAYLOAD_TOO_LARGE => Error::too_large(sentence),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Error::unsupported_media(sentence),
        StatusCode::FORBIDDEN if code == Some("permission_denied") => Error::forbidden(sentence),
        StatusCode::GONE => Error::not_found(sentence),
        StatusCode::PRECONDITION_FAILED | StatusCode::RANGE_NOT_SATISFIABLE => Error::invalid(sentence),
        StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => Error::timed_out(sentence),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => Error::unavailable(sentence),
        // Our token is not the agent's: somebody else answers there, or it was replaced.
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Error::unavailable("The computer's agent refuses this controller")
        }
        _ => {
            let mut failed = Error::internal(format!("agent status {status}"));
            failed.message = sentence;
            failed
        }
    };
    error.code = code;
    if matches!(error.kind, Kind::Unavailable | Kind::Conflict) {
        error.retry_after = retry_after.map(|seconds| seconds.min(60));
    }
    error.number("upstream_status", i64::from(status.as_u16()))
}

/// Whether an agent answered that the token is not its own.
pub fn refuses(error: &Error) -> bool {
    error.fields.iter().any(|field| matches!(field, ("upstream_status", Field::Number(401))))
}

/// The codes of hotdesk's own agent.
const KNOWN_CODES: &[&str] = &[
    "INVALID_REQUEST",
    "already_exists",
    "already_recording",
    "already_streaming",
    "answer_not_kept",
    "bad_archive",
    "budget_too_small",
    "desktop_not_a_folder",
    "disk_full",
    "element_covered",
    "element_gone",
    "element_no_action",
    "element_not_settable",
    "element_not_visible",
    "element_refused",
    "encoder_failed",
    "idempotency_in_progress",
    "idempotency_key_reused",
    "is_a_folder",
    "no_browser",
    "no_encoder",
    "not_a_file",
    "not_a_folder",
    "not_empty",
    "offset_mismatch",
    "other_file_system",
    "outcome_unknown",
    "path_through_link",
    "permission_denied",
    "private_address",
    "protected_path",
    "range_not_satisfiable",
    "recordings_full",
    "session_busy",
    "session_ended",
    "stale_frame",
    "stdin_closed",
    "stdin_full",
    "stream_refused",
    "stream_stopped",
    "too_deep",
    "too_many_commands",
    "too_many_followers",
    "too_many_processes",
    "too_many_sessions",
    "too_many_transfers",
    "too_many_uploads",
    "tus_version",
    "unknown_frame",
    "unsafe_archive",
    "upload_busy",
    "upload_expired",
];

/// Only codes that hotdesk's own agent uses pass on; a guest cannot invent any.
fn known_code(code: &str) -> Option<&'static str> {
    KNOWN_CODES.iter().copied().find(|known| *known == code)
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_s_refusal_keeps_its_meaning_and_not_its_length() {
        let cases = [
            (400, Kind::Invalid),
            (404, Kind::NotFound),
            (409, Kind::Conflict),
            (413, Kind::TooLarge),
            (422, Kind::Mismatched),
            (401, Kind::Unavailable),
            (503, Kind::Unavailable),
            (504, Kind::TimedOut),
            (500, Kind::Internal),
            (302, Kind::Internal),
            (418, Kind::Internal),
        ];
        for (status, kind) in cases {
            let status = StatusCode::from_u16(status).unwrap();
            let body = format!("{{\"error\":\"{}\",\"code\":\"made_up\"}}", "x".repeat(10_000));
            let error = refused(status, body.as_bytes(), Some(10_000_000));
            assert_eq!(error.kind, kind, "{status}");
            assert!(error.message.len() <= MAX_SENTENCE && error.code.is_none());
            assert!(error.retry_after.is_none_or(|seconds| seconds <= 60));
            assert!(refused(status, b"<html>", None).message.len() < 100);
        }
    }
}
