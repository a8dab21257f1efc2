//! What does a client ask of its events socket? Read strictly, refused in words (interface.md "Client to server messages").

use serde_json::Value;

use crate::socket::Heard;
use hotdesk_domain::event::{Kind, Kinds};

/// Largest message that is read, in bytes: every type a hundred times over.
const MAX_REQUEST_BYTES: usize = 16 * 1024;
/// Longest part of a client's own words in an answer, in characters.
const MAX_QUOTED: usize = 64;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Add types.
    Subscribe(Kinds),
    /// Remove types.
    Unsubscribe(Kinds),
    /// Answer.
    Ping,
    /// Say what is wrong with it; nothing changes.
    Wrong(String),
}

impl Request {
    /// Reads a message. A list with one unknown name is refused as a whole.
    pub(super) fn read(heard: &Heard) -> Self {
        let text = match heard {
            Heard::Text(text) => text.as_str(),
            Heard::Binary(_) => return wrong("Messages are JSON in text frames"),
        };
        if text.len() > MAX_REQUEST_BYTES {
            return Self::Wrong(format!("The message is longer than {MAX_REQUEST_BYTES} bytes"));
        }
        let Ok(Value::Object(message)) = serde_json::from_str(text) else {
            return wrong("The message is not a JSON object");
        };
        let Some(Value::String(kind)) = message.get("type") else {
            return wrong("The message has no type: subscribe, unsubscribe or ping");
        };
        let change = match kind.as_str() {
            "ping" => return Self::Ping,
            "subscribe" => Self::Subscribe,
            "unsubscribe" => Self::Unsubscribe,
            other => return Self::Wrong(format!("Unknown message type: {}", quoted(other))),
        };
        match kinds(message.get("event_types")) {
            Ok(kinds) => change(kinds),
            Err(why) => Self::Wrong(why),
        }
    }
}

fn kinds(given: Option<&Value>) -> Result<Kinds, String> {
    let strings = || "event_types must be an array of strings".to_owned();
    let Some(Value::Array(names)) = given else { return Err(strings()) };
    names
        .iter()
        .map(|name| {
            let name = name.as_str().ok_or_else(strings)?;
            Kind::parse(name).ok_or_else(|| format!("Unknown event type: {}", quoted(name)))
        })
        .collect()
}

fn wrong(why: &str) -> Request {
    Request::Wrong(why.to_owned())
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

    fn read(text: &str) -> Request {
        Request::read(&Heard::Text(text.into()))
    }

    #[test]
    fn messages_are_read_as_the_specification_has_them() {
        let two: Kinds = [Kind::Idle, Kind::Clipboard].into_iter().collect();
        for (text, expected) in [
            (r#"{"type":"ping"}"#, Request::Ping),
            (r#"{"type":"ping","id":7}"#, Request::Ping),
            (r#"{"type":"subscribe","event_types":["clipboard","idle","idle"]}"#, Request::Subscribe(two)),
            (r#"{"event_types":["idle","clipboard"],"type":"unsubscribe"}"#, Request::Unsubscribe(two)),
            (r#"{"type":"subscribe","event_types":[]}"#, Request::Subscribe(Kinds::NONE)),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        for kind in Kind::ALL {
            let text = format!(r#"{{"type":"subscribe","event_types":["{}"]}}"#, kind.name());
            assert_eq!(read(&text), Request::Subscribe(kind.into()));
        }
    }

    #[test]
    fn what_cannot_be_followed_is_refused_in_words() {
        let nested = format!("{}{}", "[".repeat(8000), "]".repeat(8000));
        let long = format!(r#"{{"type":"ping","x":"{}"}}"#, "x".repeat(MAX_REQUEST_BYTES));
        let stranger = format!(r#"{{"type":"{}"}}"#, "é".repeat(1000));
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
            (&stranger, "é…"),
        ] {
            let Request::Wrong(why) = read(text) else { panic!("{text:.80}") };
            assert!(why.contains(word) && why.chars().count() < 120, "{why}");
        }
        assert!(matches!(Request::read(&Heard::Binary(b"{}".as_slice().into())), Request::Wrong(_)));
    }
}
