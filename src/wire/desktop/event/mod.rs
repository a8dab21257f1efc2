//! What is said on an events socket (interface.md "Events"), between client and controller and controller and agent
//! alike?

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use hotdesk_base::clock;
use hotdesk_domain::event::Kind;

mod catalogue;
mod data;

pub use catalogue::{Catalogue, CatalogueEntry, CatalogueField};
pub use data::{Data, FileAction, MAX_CONTENT_BYTES, MAX_TEXT_BYTES};

/// Longest event message in bytes: the longest clipboard text with every byte escaped sixfold, and room for the rest.
pub const MAX_EVENT_BYTES: usize = 6 * MAX_CONTENT_BYTES + 64 * 1024;

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientMessage {
    /// Adds types to the connection's subscription.
    Subscribe {
        /// Their names.
        event_types: Vec<String>,
    },
    /// Removes types.
    Unsubscribe {
        /// Their names.
        event_types: Vec<String>,
    },
    /// Asks for a pong.
    Ping,
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerMessage {
    /// Something happened.
    Event {
        /// How many events this connection has missed until now because it read too slowly; absent when none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropped: Option<u64>,
        /// How many of them of which type; absent when none.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        dropped_by_type: BTreeMap<String, u64>,
        /// What.
        event: Event,
    },
    /// A subscription was widened.
    Subscribed {
        /// `ok`.
        message: String,
    },
    /// A subscription was narrowed.
    Unsubscribed {
        /// `ok`.
        message: String,
    },
    /// The answer to a ping.
    Pong,
    /// A message could not be followed; nothing changed.
    Error {
        /// Why.
        message: String,
    },
}

/// Something that happened in a computer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, in ISO 8601, UTC, with milliseconds: `2026-01-31T09:30:00.120Z`.
    timestamp: String,
    /// What; it has the event's `type` and `data`.
    #[serde(flatten)]
    data: Data,
}

impl Event {
    /// Something that happened just now.
    pub fn now(data: Data) -> Self {
        Self::at(clock::now_ms(), data)
    }

    /// Something that happened at a time, in milliseconds since the Unix epoch.
    pub fn at(ms: i64, data: Data) -> Self {
        Self { timestamp: clock::iso8601(ms), data: data.bounded() }
    }

    /// Its type.
    pub fn kind(&self) -> Kind {
        self.data.kind()
    }

    /// When it happened, as it is written.
    pub fn timestamp(&self) -> &str {
        &self.timestamp
    }

    /// What happened.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The event as this house would have written it, whoever wrote it: within bounds, its time in the one form. `None`
    /// when its time is none.
    pub fn checked(self) -> Option<Self> {
        clock::parse_iso8601(&self.timestamp).map(|ms| Self::at(ms, self.data))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// One event of each type, in the catalogue's order.
    fn one_of_each() -> Vec<Data> {
        vec![
            Data::window_focus("0x1", "t", "default"),
            Data::window_open("0x1", "t", "default"),
            Data::window_close("0x1", "default"),
            Data::Clipboard { content: "c".into(), truncated: true, screen: "default".into() },
            Data::FileChange { path: "/p".into(), action: FileAction::Created, real_path: Some("/r".into()) },
            Data::ScreenChange { width: 1, height: 2, screen: "default".into() },
            Data::AudioStreamStart {},
            Data::AudioStreamStop {},
            Data::ProcessStart { pid: 1, name: "n".into() },
            Data::ProcessStop { pid: 1, name: "n".into() },
            Data::Idle { idle_seconds: 30 },
            Data::Active {},
            Data::title_change("0x1", "t", "default"),
            Data::DownloadFinished { path: "/p".into(), size_bytes: 1 },
        ]
    }

    #[test]
    fn every_event_has_its_catalogue_s_name_and_fields_and_comes_back() {
        let made = one_of_each();
        assert_eq!(made.iter().map(Data::kind).collect::<Vec<_>>(), Kind::ALL);
        for data in made {
            let event = Event::at(1_700_000_000_120, data);
            let value = serde_json::to_value(&event).expect("an event is JSON");
            let entry = event.kind().entry();
            assert_eq!(value["type"], entry.name);
            assert_eq!(value["timestamp"], "2023-11-14T22:13:20.120Z");
            assert_eq!(value.as_object().map(serde_json::Map::len), Some(3));
            let fields = value["data"].as_object().expect("data is an object");
            assert_eq!(fields.len(), entry.data.len(), "{value}");
            for field in entry.data {
                let json = match &fields[field.name] {
                    Value::String(_) => "string",
                    Value::Number(_) => "integer",
                    Value::Bool(_) => "boolean",
                    Value::Null | Value::Array(_) | Value::Object(_) => panic!("{value}"),
                };
                assert_eq!(json, field.json, "{}.{}", entry.name, field.name);
            }
            let back: Event = serde_json::from_value(value).expect("the same event");
            assert_eq!(back.checked(), Some(event));
        }
    }

    #[test]
    fn messages_have_the_shapes_of_the_specification() {
        let event = Event::at(0, Data::Active {});
        let counts = BTreeMap::from([("idle".to_owned(), 3)]);
        for (message, shape) in [
            (
                ServerMessage::Event {
                    dropped: None,
                    dropped_by_type: BTreeMap::new(),
                    event: event.clone(),
                },
                json!({"type":"event","event":{"type":"active","timestamp":"1970-01-01T00:00:00.000Z","data":{}}}),
            ),
            (
                ServerMessage::Event { dropped: Some(3), dropped_by_type: counts, event },
                json!({"type":"event","dropped":3,"dropped_by_type":{"idle":3},"event":
                    {"type":"active","timestamp":"1970-01-01T00:00:00.000Z","data":{}}}),
            ),
            (ServerMessage::Subscribed { message: "ok".into() }, json!({"type":"subscribed","message":"ok"})),
            (ServerMessage::Pong, json!({"type":"pong"})),
        ] {
            let text = serde_json::to_string(&message).expect("JSON");
            assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), shape);
            assert_eq!(serde_json::from_str::<ServerMessage>(&text).expect("a message"), message);
        }
        let asked = ClientMessage::Subscribe { event_types: vec!["idle".into()] };
        assert_eq!(
            serde_json::to_value(asked).expect("JSON"),
            json!({"type":"subscribe","event_types":["idle"]})
        );
        assert_eq!(serde_json::to_value(ClientMessage::Ping).expect("JSON"), json!({"type":"ping"}));
    }

    #[test]
    fn long_texts_are_cut_between_characters_and_a_cut_clipboard_says_so() {
        let long = "é".repeat(MAX_CONTENT_BYTES);
        let Data::Clipboard { content, truncated, .. } = Data::clipboard(format!("x{long}"), "default")
        else {
            panic!("a clipboard")
        };
        assert!(truncated && content.len() == MAX_CONTENT_BYTES - 1);
        let whole = Data::clipboard("é".repeat(MAX_CONTENT_BYTES / 2), "default");
        assert!(matches!(whole, Data::Clipboard { truncated: false, .. }));
        let noisy = Event::now(Data::clipboard("\u{1}".repeat(MAX_CONTENT_BYTES), long.clone()));
        let dropped_by_type = Kind::ALL.into_iter().map(|kind| (kind.name().to_owned(), u64::MAX)).collect();
        let longest = ServerMessage::Event { dropped: Some(u64::MAX), dropped_by_type, event: noisy };
        let longest = serde_json::to_string(&longest);
        assert!(longest.expect("JSON").len() <= MAX_EVENT_BYTES);
        for data in
            [Data::window_open(&*long, &*long, &*long), Data::ProcessStart { pid: 1, name: long.clone() }]
        {
            let text = serde_json::to_string(&Event::now(data)).expect("JSON");
            assert!(text.len() < 4 * MAX_TEXT_BYTES, "{}", text.len());
        }
    }

    #[test]
    fn what_is_no_event_does_not_parse_and_foreign_times_are_rewritten() {
        let parse = |value: Value| serde_json::from_value::<Event>(value).ok().and_then(Event::checked);
        let now = "2026-01-31T09:30:00.120Z";
        for bad in [
            json!({"type":"nope","timestamp":now,"data":{}}),
            json!({"type":"idle","timestamp":now,"data":{}}),
            json!({"type":"idle","timestamp":now,"data":{"idle_seconds":"30"}}),
            json!({"type":"idle","timestamp":now,"data":{"idle_seconds":-1}}),
            json!({"type":"active","timestamp":now}),
            json!({"type":"active","timestamp":"yesterday","data":{}}),
            json!({"type":"active","timestamp":"-009999-01-02T00:00:00Z","data":{}}),
            json!({"type":"active","data":{}}),
            json!({"type":"file_change","timestamp":now,"data":{"path":"/x","action":"eaten"}}),
            json!([]),
        ] {
            assert_eq!(parse(bad.clone()), None, "{bad}");
        }
        let foreign =
            json!({"type":"active","timestamp":"2026-01-31T10:30:00.1204+01:00","data":{"more":1},"x":2});
        let event = parse(foreign).expect("an event");
        assert_eq!(event.timestamp(), now);
        assert_eq!(event.data(), &Data::Active {});
    }

    #[test]
    fn the_catalogue_is_the_table() {
        let said = serde_json::to_value(Catalogue::current()).expect("JSON");
        assert_eq!(said["event_types"].as_array().map(Vec::len), Some(Kind::ALL.len()));
        assert_eq!(said["events"][0]["type"], "window_focus");
        assert_eq!(said["events"][0]["data"]["window_id"]["type"], "string");
        assert_eq!(said["events"][6]["data"], json!({}));
    }
}
