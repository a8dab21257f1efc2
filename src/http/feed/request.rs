//! Requests of events clients, parsed strictly (docs/api/events.md).

use serde_json::Value;

use crate::socket::PeerMessage;
use hotdesk_domain::desktop::event::{EventKind, EventKinds};
use hotdesk_domain::error::{Error, Result};

/// Largest message in bytes: enough to name every type a hundred times.
const MAX_REQUEST_BYTES: usize = 16 * 1024;
/// Characters of a client's text that an error message quotes.
const MAX_QUOTED: usize = 64;

/// A parsed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientRequest {
    /// Add subscriptions to types.
    Subscribe(EventKinds),
    /// Remove subscriptions from types.
    Unsubscribe(EventKinds),
    /// Answer with a pong.
    Ping,
    /// Answer with this error message; nothing changes.
    Invalid(String),
}

impl ClientRequest {
    /// Parses a message. A list with one unknown name is rejected as a whole.
    pub(super) fn read(message: &PeerMessage) -> Self {
        let text = match message {
            PeerMessage::Text(text) => text.as_str(),
            PeerMessage::Binary(_) => return invalid("Messages are JSON in text frames"),
        };
        if text.len() > MAX_REQUEST_BYTES {
            return Self::Invalid(format!("The message is longer than {MAX_REQUEST_BYTES} bytes"));
        }
        let Ok(Value::Object(message)) = serde_json::from_str(text) else {
            return invalid("The message is not a JSON object");
        };
        let Some(Value::String(kind)) = message.get("type") else {
            return invalid("The message has no type: subscribe, unsubscribe or ping");
        };
        let change = match kind.as_str() {
            "ping" => return Self::Ping,
            "subscribe" => Self::Subscribe,
            "unsubscribe" => Self::Unsubscribe,
            other => return Self::Invalid(format!("Unknown message type: {}", quoted(other))),
        };
        match kinds(message.get("event_types")) {
            Ok(kinds) => change(kinds),
            Err(error) => Self::Invalid(error.message),
        }
    }
}

fn kinds(given: Option<&Value>) -> Result<EventKinds> {
    let strings = || Error::invalid("event_types must be an array of strings");
    let Some(Value::Array(names)) = given else { return Err(strings()) };
    names
        .iter()
        .map(|name| {
            let name = name.as_str().ok_or_else(strings)?;
            EventKind::parse(name)
                .ok_or_else(|| Error::invalid(format!("Unknown event type: {}", quoted(name))))
        })
        .collect()
}

fn invalid(reason: &str) -> ClientRequest {
    ClientRequest::Invalid(reason.to_owned())
}

fn quoted(text: &str) -> String {
    let mut quoted: String = text.chars().take(MAX_QUOTED).collect();
    if quoted.len() < text.len() {
        quoted.push('…');
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ClientRequest {
        ClientRequest::read(&PeerMessage::Text(text.into()))
    }

    #[test]
    fn documented_messages_are_parsed() {
        let two: EventKinds = [EventKind::Idle, EventKind::Clipboard].into_iter().collect();
        for (text, expected) in [
            (r#"{"type":"ping"}"#, ClientRequest::Ping),
            (r#"{"type":"ping","id":7}"#, ClientRequest::Ping),
            (
                r#"{"type":"subscribe","event_types":["clipboard","idle","idle"]}"#,
                ClientRequest::Subscribe(two),
            ),
            (r#"{"event_types":["idle","clipboard"],"type":"unsubscribe"}"#, ClientRequest::Unsubscribe(two)),
            (r#"{"type":"subscribe","event_types":[]}"#, ClientRequest::Subscribe(EventKinds::NONE)),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        for kind in EventKind::ALL {
            let text = format!(r#"{{"type":"subscribe","event_types":["{}"]}}"#, kind.name());
            assert_eq!(read(&text), ClientRequest::Subscribe(kind.into()));
        }
    }

    #[test]
    fn invalid_messages_get_an_error_message() {
        let nested = format!("{}{}", "[".repeat(8000), "]".repeat(8000));
        let long = format!(r#"{{"type":"ping","x":"{}"}}"#, "x".repeat(MAX_REQUEST_BYTES));
        let unknown = format!(r#"{{"type":"{}"}}"#, "é".repeat(1000));
        for (text, word) in [
            (r#"{"type":"subscribe","event_types":["idle","window_focused"]}"#, "window_focused"),
            (r#"{"type":"subscribe","event_types":["Idle"]}"#, "Idle"),
            (r#"{"type":"subscribe","event_types":"idle"}"#, "array of strings"),
            (r#"{"type":"subscribe","event_types":[7]}"#, "array of strings"),
            (r#"{"type":"subscribe"}"#, "array of strings"),
            (r#"{"type":"shout"}"#, "shout"),
            (r#"{"type":7}"#, "no type"),
            ("{}", "no type"),
            ("7", "JSON object"),
            ("", "JSON object"),
            ("{\"type\":\"ping\"", "JSON object"),
            (&nested, "JSON object"),
            (&long, "longer than"),
            (&unknown, "é…"),
        ] {
            let ClientRequest::Invalid(reason) = read(text) else { panic!("{text:.80}") };
            assert!(reason.contains(word) && reason.chars().count() < 120, "{reason}");
        }
        assert!(matches!(
            ClientRequest::read(&PeerMessage::Binary(b"{}".as_slice().into())),
            ClientRequest::Invalid(_)
        ));
    }
}
