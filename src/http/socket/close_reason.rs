//! Reasons for closing a WebSocket, also for a peer that violates the protocol (RFC 6455 section 7.4).

use std::borrow::Cow;

use axum::extract::ws::CloseFrame;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::error::ProtocolError;

use super::MAX_MESSAGE;
use hotdesk_domain::desktop::channel::{NOT_UTF8, PROTOCOL_ERROR, TOO_LARGE};

/// The code and text of a close that this side sends (RFC 6455 section 7.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReason {
    /// The close code.
    pub code: u16,
    /// A text for people; only its first 123 bytes are sent.
    pub reason: Cow<'static, str>,
}

/// Longest reason in bytes that fits a close frame (RFC 6455 section 5.5).
const MAX_REASON: usize = 123;

impl CloseReason {
    /// A close with a code and a text.
    pub fn new(code: u16, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, reason: reason.into() }
    }

    pub(super) fn frame(&self) -> CloseFrame {
        let mut end = self.reason.len().min(MAX_REASON);
        while !self.reason.is_char_boundary(end) {
            end -= 1;
        }
        CloseFrame { code: self.code, reason: self.reason[..end].into() }
    }

    /// The close for a peer that violated the protocol; `None` when the connection only ended.
    #[allow(clippy::wildcard_enum_match_arm)] // the library may add errors; all others are ends of the connection
    pub(super) fn of_violation(error: axum::Error) -> Option<Self> {
        use tungstenite::Error as Wrong;
        let inner = error.into_inner();
        match inner.downcast_ref()? {
            Wrong::Capacity(_) => {
                Some(Self::new(TOO_LARGE, format!("a message has at most {MAX_MESSAGE} bytes")))
            }
            Wrong::Utf8(_) => Some(Self::new(NOT_UTF8, "text is UTF-8")),
            Wrong::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
            Wrong::Protocol(error) => Some(Self::new(PROTOCOL_ERROR, error.to_string())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_fits_its_frame() {
        let long = CloseReason::new(1000, "é".repeat(100));
        assert_eq!(long.frame().reason.len(), 122);
        assert_eq!(CloseReason::new(1000, "bye").frame().reason.as_str(), "bye");
    }
}
