//! How is a WebSocket closed whose peer breaks the rules of the protocol itself? With RFC 6455's own codes (section 7.4.1).

use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::error::ProtocolError;

use super::socket::{Closing, MAX_MESSAGE};
use hotdesk_domain::channel::{NOT_UTF8, PROTOCOL_ERROR, TOO_LARGE};

/// The close of a peer that broke the rules; `None` of one that is only gone.
#[allow(clippy::wildcard_enum_match_arm)] // the library's list of errors grows; the rest are ends of the connection
pub(super) fn violation(error: axum::Error) -> Option<Closing> {
    use tungstenite::Error as Wrong;
    let inner = error.into_inner();
    match inner.downcast_ref()? {
        Wrong::Capacity(_) => {
            Some(Closing::new(TOO_LARGE, format!("a message has at most {MAX_MESSAGE} bytes")))
        }
        Wrong::Utf8(_) => Some(Closing::new(NOT_UTF8, "text is UTF-8")),
        Wrong::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        Wrong::Protocol(error) => Some(Closing::new(PROTOCOL_ERROR, error.to_string())),
        _ => None,
    }
}
