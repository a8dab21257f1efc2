//! Errors of the API for an agent that refuses, fails or sends invalid answers.
//!
//! The agent's own status is in the field `upstream_status` (docs/api/errors.md).

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Map, Value};

use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Field, Kind};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::actor::Actor;

/// Largest error body that is read, in bytes. hotdesk's own agent sends one sentence.
pub(super) const MAX_REFUSAL: usize = 64 * 1024;
/// Longest error text of an agent that is passed on, in characters.
const MAX_SENTENCE: usize = 500;

/// The agent cannot be reached.
pub(super) fn unreachable(error: &dyn std::error::Error) -> Error {
    Error::unavailable("Could not reach the computer").retry_after(2).context(chain(error))
}

/// The agent did not answer a request. If the request was sent, the agent may have executed it.
pub(super) fn no_answer(error: &hyper_util::client::legacy::Error) -> Error {
    if error.is_connect() { unreachable(error) } else { broke_off(error) }
}

/// The agent did not answer in time.
pub(super) fn timed_out(timeout: Duration) -> Error {
    Error::timed_out("The computer did not answer in time").context(format!("waited {timeout:?}"))
}

/// The agent answers nothing: no request since that moment.
pub(super) fn unresponsive(since: UnixMillis) -> Error {
    Error::timed_out("The computer's agent does not answer; restart the computer if it stays so")
        .code(ErrorCode::AgentUnresponsive)
        .text("agent_unresponsive_since", since.iso8601())
        .text("remedy", "restart")
}

/// Whether a connection could not be opened in time.
pub(super) fn is_timeout(error: &hyper_util::client::legacy::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if inner.downcast_ref::<std::io::Error>().is_some_and(|it| it.kind() == std::io::ErrorKind::TimedOut)
        {
            return true;
        }
        source = inner.source();
    }
    false
}

/// The agent closed the connection before the end of its answer.
pub(super) fn broke_off(error: &dyn std::error::Error) -> Error {
    Error::unavailable("The computer broke off its answer").retry_after(2).context(chain(error))
}

/// The agent's answer is invalid. The detail is for the log only.
pub(super) fn invalid_answer(what: &dyn std::fmt::Display) -> Error {
    let mut error = Error::internal(what);
    error.message = "The computer's agent sent an invalid answer".to_owned();
    error
}

/// The agent answered with an error status.
pub(super) fn from_status(status: StatusCode, body: &[u8], retry_after: Option<u32>) -> Error {
    let answer = serde_json::from_slice::<hotdesk_wire::error::ErrorBody>(body).ok();
    let sentence: String = match &answer {
        Some(body) => body.error.chars().filter(|c| !c.is_control()).take(MAX_SENTENCE).collect(),
        None => "The computer's agent failed".to_owned(),
    };
    let code = answer.as_ref().and_then(|body| body.code.as_deref()).and_then(known_code);
    let mut error = match status {
        StatusCode::BAD_REQUEST => Error::invalid(sentence),
        StatusCode::NOT_FOUND => Error::not_found(sentence),
        StatusCode::CONFLICT => Error::conflict(sentence),
        StatusCode::UNPROCESSABLE_ENTITY => Error::mismatched(sentence),
        StatusCode::PAYLOAD_TOO_LARGE => Error::too_large(sentence),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Error::unsupported_media(sentence),
        StatusCode::FORBIDDEN
            if matches!(code, Some(ErrorCode::PermissionDenied | ErrorCode::PathThroughLink)) =>
        {
            Error::forbidden(sentence)
        }
        StatusCode::GONE => Error::not_found(sentence),
        StatusCode::PRECONDITION_FAILED | StatusCode::RANGE_NOT_SATISFIABLE => Error::invalid(sentence),
        StatusCode::REQUEST_TIMEOUT => Error::slow_request(sentence),
        StatusCode::GATEWAY_TIMEOUT => Error::timed_out(sentence),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => Error::unavailable(sentence),
        // The agent does not accept our token: it was replaced, or another program answers.
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Error::unavailable("The computer's agent refuses the controller's token")
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
    for field in KNOWN_FIELDS {
        let value = answer.as_ref().and_then(|body| body.extra.get(field)).and_then(Value::as_i64);
        if let Some(value) = value {
            error = error.number(field, value);
        }
    }
    if let Some(body) = &answer
        && code == Some(ErrorCode::ControlHeld)
    {
        error = with_holder(error, &body.extra);
    }
    error.number("upstream_status", i64::from(status.as_u16()))
}

/// Adds who holds the screen, and until when. Other text than an actor and a time is left out.
fn with_holder(mut error: Error, extra: &Map<String, Value>) -> Error {
    let holder = extra.get("holder").and_then(|holder| {
        let kind = holder.get("kind")?.as_str()?;
        let text = match holder.get("id").and_then(Value::as_str) {
            Some(id) => format!("{kind}:{id}"),
            None => kind.to_owned(),
        };
        text.parse::<Actor>().ok()
    });
    if let Some(holder) = holder {
        let mut fields = vec![("kind", Field::Text(holder.kind().to_owned()))];
        fields.extend(holder.id().map(|id| ("id", Field::Text(id))));
        error = error.field("holder", Field::Object(fields));
    }
    match extra.get("expires_at").and_then(Value::as_str).and_then(UnixMillis::parse_iso8601) {
        Some(until) => error.text("expires_at", until.iso8601()),
        None => error,
    }
}

/// Returns whether the agent refused the controller's token (401).
pub fn is_token_refused(error: &Error) -> bool {
    error.fields.iter().any(|field| matches!(field, ("upstream_status", Field::Number(401))))
}

/// Returns whether the agent answered, with an error status. Else it is unknown whether the request reached
/// it.
pub fn is_error_status(error: &Error) -> bool {
    error.fields.iter().any(|(name, _)| *name == "upstream_status")
}

/// Integers among the extra fields of errors of hotdesk's own agent (docs/api/errors.md#extra-fields). Those
/// of `control_held` are other values: see [`with_holder`].
const KNOWN_FIELDS: [&str; 4] = ["exit_code", "files", "offset", "written"];

/// Error codes of hotdesk's own agent.
const KNOWN_CODES: &[ErrorCode] = &[
    ErrorCode::InvalidRequest,
    ErrorCode::AlreadyExists,
    ErrorCode::AlreadyRecording,
    ErrorCode::AlreadyStreaming,
    ErrorCode::AnswerNotKept,
    ErrorCode::BadArchive,
    ErrorCode::BudgetTooSmall,
    ErrorCode::ControlHeld,
    ErrorCode::DesktopNotAFolder,
    ErrorCode::DiskFull,
    ErrorCode::ElementCovered,
    ErrorCode::ElementGone,
    ErrorCode::ElementNoAction,
    ErrorCode::ElementNotSettable,
    ErrorCode::ElementNotVisible,
    ErrorCode::ElementRefused,
    ErrorCode::EncoderFailed,
    ErrorCode::EnvFileExists,
    ErrorCode::FileChanged,
    ErrorCode::IdempotencyInProgress,
    ErrorCode::IdempotencyKeyReused,
    ErrorCode::IsAFolder,
    ErrorCode::NoBrowser,
    ErrorCode::NoEncoder,
    ErrorCode::NotAFile,
    ErrorCode::NotAFolder,
    ErrorCode::NotEmpty,
    ErrorCode::OffsetMismatch,
    ErrorCode::OtherFileSystem,
    ErrorCode::OutcomeUnknown,
    ErrorCode::PathThroughLink,
    ErrorCode::PermissionDenied,
    ErrorCode::PrivateAddress,
    ErrorCode::ProtectedPath,
    ErrorCode::RangeNotSatisfiable,
    ErrorCode::RecordingsFull,
    ErrorCode::SessionBusy,
    ErrorCode::SessionEnded,
    ErrorCode::SshNotInstalled,
    ErrorCode::StaleFrame,
    ErrorCode::StdinClosed,
    ErrorCode::StdinFull,
    ErrorCode::StreamRefused,
    ErrorCode::StreamStopped,
    ErrorCode::TooDeep,
    ErrorCode::TooManyCommands,
    ErrorCode::TooManyFollowers,
    ErrorCode::TooManyProcesses,
    ErrorCode::TooManySessions,
    ErrorCode::TooManyTransfers,
    ErrorCode::TooManyUploads,
    ErrorCode::TusVersion,
    ErrorCode::UnknownFrame,
    ErrorCode::UnsafeArchive,
    ErrorCode::UploadBusy,
    ErrorCode::UploadExpired,
    ErrorCode::UploadTakenOver,
];

/// Returns the code when hotdesk's own agent uses it. A hostile guest cannot make up others.
fn known_code(code: &str) -> Option<ErrorCode> {
    ErrorCode::parse(code).filter(|code| KNOWN_CODES.contains(code))
}

pub(super) fn chain(error: &dyn std::error::Error) -> String {
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
    fn an_agent_s_error_keeps_its_kind_and_is_shortened() {
        let cases = [
            (400, Kind::Invalid),
            (404, Kind::NotFound),
            (409, Kind::Conflict),
            (408, Kind::SlowRequest),
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
            let error = from_status(status, body.as_bytes(), Some(10_000_000));
            assert_eq!(error.kind, kind, "{status}");
            assert!(error.message.len() <= MAX_SENTENCE && error.code.is_none());
            assert!(error.retry_after.is_none_or(|seconds| seconds <= 60));
            assert!(from_status(status, b"<html>", None).message.len() < 100);
        }
    }

    #[test]
    fn only_fields_of_the_agent_pass() {
        let body =
            br#"{"error": "no", "offset": 7, "written": "x", "files": 1.5, "made_up": 1, "status": 2}"#;
        let error = from_status(StatusCode::CONFLICT, body, None);
        let expected = [("offset", Field::Number(7)), ("upstream_status", Field::Number(409))];
        assert_eq!(error.fields, expected);
    }

    #[test]
    fn a_held_screen_names_a_real_holder_and_time() {
        let fields = |body: &str| {
            let mut fields = from_status(StatusCode::CONFLICT, body.as_bytes(), None).fields;
            fields.pop();
            fields
        };
        let text = |text: &str| Field::Text(text.to_owned());
        let key = "0f8b1c52-6d0e-4a54-9a39-0c6c4d2f6b11";
        let body = format!(
            r#"{{"error": "no", "code": "control_held", "expires_at": "2026-01-31T09:30:00.120Z",
                "holder": {{"kind": "key", "id": "{key}", "more": "x"}}}}"#
        );
        let holder = Field::Object(vec![("kind", text("key")), ("id", text(key))]);
        assert_eq!(fields(&body), [("holder", holder), ("expires_at", text("2026-01-31T09:30:00.120Z"))]);
        let password = r#"{"error": "no", "code": "control_held", "holder": {"kind": "password"}}"#;
        assert_eq!(fields(password), [("holder", Field::Object(vec![("kind", text("password"))]))]);
        for bad in [
            body.replace("control_held", "already_exists"),
            r#"{"error": "no", "code": "control_held", "holder": "key", "expires_at": 7}"#.to_owned(),
            r#"{"error": "no", "code": "control_held", "holder": {"kind": "root", "id": "1"}}"#.to_owned(),
            r#"{"error": "no", "code": "control_held", "expires_at": "soon"}"#.to_owned(),
        ] {
            assert!(fields(&bad).is_empty(), "{bad}");
        }
    }

    #[test]
    fn only_codes_of_the_agent_pass() {
        let code = |code: &str| {
            from_status(StatusCode::CONFLICT, format!(r#"{{"error":"no","code":"{code}"}}"#).as_bytes(), None)
                .code
        };
        for known in KNOWN_CODES {
            assert_eq!(code(known.as_str()), Some(*known));
        }
        assert_eq!(code(ErrorCode::UploadTakenOver.as_str()), Some(ErrorCode::UploadTakenOver));
        for foreign in [ErrorCode::NameTaken.as_str(), ErrorCode::NoCapacity.as_str(), "made_up"] {
            assert_eq!(code(foreign), None, "{foreign}");
        }
    }
}
