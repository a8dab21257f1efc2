//! Close codes for peers that violate the WebSocket protocol (RFC 6455 section 7.4.1).

use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::error::ProtocolError;

use super::socket::{CloseReason, MAX_MESSAGE};
use hotdesk_domain::desktop::channel::{NOT_UTF8, PROTOCOL_ERROR, TOO_LARGE};

/// The close for a peer that violated the protocol; `None` when the connection only ended.
#[allow(clippy::wildcard_enum_match_arm)] // the library may add errors; all others are ends of the connection
pub(super) fn close_reason(error: axum::Error) -> Option<CloseReason> {
    use tungstenite::Error as Wrong;
    let inner = error.into_inner();
    match inner.downcast_ref()? {
        Wrong::Capacity(_) => {
            Some(CloseReason::new(TOO_LARGE, format!("a message has at most {MAX_MESSAGE} bytes")))
        }
        Wrong::Utf8(_) => Some(CloseReason::new(NOT_UTF8, "text is UTF-8")),
        Wrong::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        Wrong::Protocol(error) => Some(CloseReason::new(PROTOCOL_ERROR, error.to_string())),
        _ => None,
    }
}
