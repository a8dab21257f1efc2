//! Messages of the events channel, between client and controller and between controller and agent
//! (docs/api/events.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use hotdesk_base::clock;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::desktop::event::EventKind;

mod catalogue;
mod data;

pub use catalogue::{Catalogue, CatalogueEntry, CatalogueField};
pub use data::{AgentState, AppHealth, EventData, FileAction, MAX_CONTENT_BYTES, MAX_TEXT_BYTES};

/// Longest event message, in bytes: the longest clipboard text with six bytes for each escaped byte, and the
/// other fields.
pub const MAX_EVENT_BYTES: usize = 6 * MAX_CONTENT_BYTES + 64 * 1024;

/// Message from a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventClientMessage {
    /// Adds types to the subscription.
    Subscribe {
        /// Names of the types.
        event_types: Vec<String>,
    },
    /// Removes types from the subscription.
    Unsubscribe {
        /// Names of the types.
        event_types: Vec<String>,
    },
    /// Request for a pong.
    Ping,
}

/// Message to a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventServerMessage {
    /// An event.
    Event {
        /// Number of events that this connection has missed so far because it read too slowly; absent when 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropped: Option<u64>,
        /// The same number by type; absent when 0.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        dropped_by_type: BTreeMap<String, u64>,
        /// The event.
        event: Event,
    },
    /// Types were added to the subscription.
    Subscribed {
        /// `ok`.
        message: String,
    },
    /// Types were removed from the subscription.
    Unsubscribed {
        /// `ok`.
        message: String,
    },
    /// Answer to a ping.
    Pong,
    /// A message was invalid; nothing changed.
    Error {
        /// Reason.
        message: String,
    },
}

/// An event of a computer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Time of the event, ISO 8601 in UTC with milliseconds: `2026-01-31T09:30:00.120Z`.
    timestamp: String,
    /// `type` and `data` of the event.
    #[serde(flatten)]
    data: EventData,
}

impl Event {
    /// Creates an event with the current time.
    pub fn now(data: EventData) -> Self {
        Self::at(clock::now(), data)
    }

    /// Creates an event with a time.
    pub fn at(time: UnixMillis, data: EventData) -> Self {
        Self { timestamp: time.iso8601(), data: data.bounded() }
    }

    /// Returns the type.
    pub fn kind(&self) -> EventKind {
        self.data.kind()
    }

    /// Returns the time in ISO 8601.
    pub fn timestamp(&self) -> &str {
        &self.timestamp
    }

    /// Returns the data.
    pub fn data(&self) -> &EventData {
        &self.data
    }

    /// Normalizes an event from an untrusted source: truncates its texts and rewrites its time. `None` when
    /// the time is invalid.
    pub fn checked(self) -> Option<Self> {
        UnixMillis::parse_iso8601(&self.timestamp).map(|time| Self::at(time, self.data))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// One event of each type, in the order of the catalogue.
    fn one_of_each() -> Vec<EventData> {
        vec![
            EventData::window_focus("0x1", "t", "default"),
            EventData::window_open("0x1", "t", "default"),
            EventData::window_close("0x1", "default"),
            EventData::Clipboard { content: "c".into(), truncated: true, screen: "default".into() },
            EventData::FileChange {
                path: "/p".into(),
                action: FileAction::Created,
                real_path: Some("/r".into()),
            },
            EventData::ScreenChange { width: 1, height: 2, screen: "default".into() },
            EventData::AudioStreamStart {},
            EventData::AudioStreamStop {},
            EventData::ProcessStart { pid: 1, name: "n".into() },
            EventData::ProcessStop { pid: 1, name: "n".into() },
            EventData::Idle { idle_seconds: 30 },
            EventData::Active {},
            EventData::title_change("0x1", "t", "default"),
            EventData::DownloadFinished { path: "/p".into(), size_bytes: 1 },
            EventData::AgentChange {
                state: AgentState::Responsive,
                since: "2026-01-31T09:30:00.120Z".into(),
            },
            EventData::HealthChange {
                app: "web".into(),
                status: AppHealth::Unhealthy,
                action: "alert".into(),
                reason: Some("refused".into()),
            },
            EventData::Notification { trigger: "t".into(), title: "x".into(), level: "info".into() },
            EventData::ControlChanged {
                screen: "default".into(),
                holder: Some("password".into()),
                note: Some("n".into()),
            },
            EventData::HelpRequested {
                screen: "default".into(),
                message: "m".into(),
                by: Some("password".into()),
            },
        ]
    }

    #[test]
    fn every_event_has_its_catalogue_s_name_and_fields_and_comes_back() {
        let made = one_of_each();
        assert_eq!(made.iter().map(EventData::kind).collect::<Vec<_>>(), EventKind::ALL);
        for data in made {
            let event = Event::at(UnixMillis::new(1_700_000_000_120), data);
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
        let event = Event::at(UnixMillis::EPOCH, EventData::Active {});
        let counts = BTreeMap::from([("idle".to_owned(), 3)]);
        for (message, shape) in [
            (
                EventServerMessage::Event {
                    dropped: None,
                    dropped_by_type: BTreeMap::new(),
                    event: event.clone(),
                },
                json!({"type":"event","event":{"type":"active","timestamp":"1970-01-01T00:00:00.000Z","data":{}}}),
            ),
            (
                EventServerMessage::Event { dropped: Some(3), dropped_by_type: counts, event },
                json!({"type":"event","dropped":3,"dropped_by_type":{"idle":3},"event":
                    {"type":"active","timestamp":"1970-01-01T00:00:00.000Z","data":{}}}),
            ),
            (
                EventServerMessage::Subscribed { message: "ok".into() },
                json!({"type":"subscribed","message":"ok"}),
            ),
            (EventServerMessage::Pong, json!({"type":"pong"})),
        ] {
            let text = serde_json::to_string(&message).expect("JSON");
            assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), shape);
            assert_eq!(serde_json::from_str::<EventServerMessage>(&text).expect("a message"), message);
        }
        let asked = EventClientMessage::Subscribe { event_types: vec!["idle".into()] };
        assert_eq!(
            serde_json::to_value(asked).expect("JSON"),
            json!({"type":"subscribe","event_types":["idle"]})
        );
        assert_eq!(serde_json::to_value(EventClientMessage::Ping).expect("JSON"), json!({"type":"ping"}));
    }

    #[test]
    fn long_texts_are_truncated_between_characters() {
        let long = "é".repeat(MAX_CONTENT_BYTES);
        let EventData::Clipboard { content, truncated, .. } =
            EventData::clipboard(format!("x{long}"), "default")
        else {
            panic!("a clipboard")
        };
        assert!(truncated && content.len() == MAX_CONTENT_BYTES - 1);
        let whole = EventData::clipboard("é".repeat(MAX_CONTENT_BYTES / 2), "default");
        assert!(matches!(whole, EventData::Clipboard { truncated: false, .. }));
        let noisy = Event::now(EventData::clipboard("\u{1}".repeat(MAX_CONTENT_BYTES), long.clone()));
        let dropped_by_type =
            EventKind::ALL.into_iter().map(|kind| (kind.name().to_owned(), u64::MAX)).collect();
        let longest = EventServerMessage::Event { dropped: Some(u64::MAX), dropped_by_type, event: noisy };
        let longest = serde_json::to_string(&longest);
        assert!(longest.expect("JSON").len() <= MAX_EVENT_BYTES);
        for data in [
            EventData::window_open(&*long, &*long, &*long),
            EventData::ProcessStart { pid: 1, name: long.clone() },
        ] {
            let text = serde_json::to_string(&Event::now(data)).expect("JSON");
            assert!(text.len() < 4 * MAX_TEXT_BYTES, "{}", text.len());
        }
    }

    #[test]
    fn invalid_events_do_not_parse_and_times_are_normalized() {
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
        assert_eq!(event.data(), &EventData::Active {});
    }

    #[test]
    fn the_catalogue_is_the_table() {
        let said = serde_json::to_value(Catalogue::current()).expect("JSON");
        assert_eq!(said["event_types"].as_array().map(Vec::len), Some(EventKind::ALL.len()));
        assert_eq!(said["events"][0]["type"], "window_focus");
        assert_eq!(said["events"][0]["data"]["window_id"]["type"], "string");
        assert_eq!(said["events"][6]["data"], json!({}));
    }
}
