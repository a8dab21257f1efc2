//! What is said on an events socket (interface.md "Events"), between client and controller and controller and agent
//! alike?

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::clock;
use crate::domain::event::{self, Kind};

/// Longest clipboard text that an event carries, in bytes of UTF-8; of a longer one it is the beginning. Whoever wants
/// all of it reads the clipboard: an event goes to every listener, and many wait for one that is slow.
pub const MAX_CONTENT_BYTES: usize = 64 * 1024;
/// Longest other text of an event, in bytes: a path's bound in the kernel (PATH_MAX). Longer ones are cut.
pub const MAX_TEXT_BYTES: usize = 4096;
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

/// What an event carries, by type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
#[allow(missing_docs)] // the catalogue in domain::event says what each field means
pub enum Data {
    WindowFocus {
        window_id: String,
        title: String,
        screen: String,
    },
    WindowOpen {
        window_id: String,
        title: String,
        screen: String,
    },
    WindowClose {
        window_id: String,
        screen: String,
    },
    Clipboard {
        content: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        screen: String,
    },
    FileChange {
        path: String,
        action: FileAction,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        real_path: Option<String>,
    },
    ScreenChange {
        width: u32,
        height: u32,
        screen: String,
    },
    AudioStreamStart {},
    AudioStreamStop {},
    ProcessStart {
        pid: u32,
        name: String,
    },
    ProcessStop {
        pid: u32,
        name: String,
    },
    Idle {
        idle_seconds: u64,
    },
    Active {},
    TitleChange {
        window_id: String,
        title: String,
        screen: String,
    },
    DownloadFinished {
        path: String,
        size_bytes: u64,
    },
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAction {
    /// It is there now.
    Created,
    /// It has other content.
    Modified,
    /// It is gone.
    Deleted,
}

impl Data {
    /// The window that is active now.
    pub fn window_focus(
        window_id: impl Into<String>,
        title: impl Into<String>,
        screen: impl Into<String>,
    ) -> Self {
        Self::WindowFocus { window_id: window_id.into(), title: title.into(), screen: screen.into() }
    }

    /// A window that opened.
    pub fn window_open(
        window_id: impl Into<String>,
        title: impl Into<String>,
        screen: impl Into<String>,
    ) -> Self {
        Self::WindowOpen { window_id: window_id.into(), title: title.into(), screen: screen.into() }
    }

    /// A window that closed.
    pub fn window_close(window_id: impl Into<String>, screen: impl Into<String>) -> Self {
        Self::WindowClose { window_id: window_id.into(), screen: screen.into() }
    }

    /// A window's new title.
    pub fn title_change(
        window_id: impl Into<String>,
        title: impl Into<String>,
        screen: impl Into<String>,
    ) -> Self {
        Self::TitleChange { window_id: window_id.into(), title: title.into(), screen: screen.into() }
    }

    /// The clipboard's new text, of any length.
    pub fn clipboard(content: impl Into<String>, screen: impl Into<String>) -> Self {
        Self::Clipboard { content: content.into(), truncated: false, screen: screen.into() }.bounded()
    }

    /// Its type.
    pub fn kind(&self) -> Kind {
        match self {
            Self::WindowFocus { .. } => Kind::WindowFocus,
            Self::WindowOpen { .. } => Kind::WindowOpen,
            Self::WindowClose { .. } => Kind::WindowClose,
            Self::Clipboard { .. } => Kind::Clipboard,
            Self::FileChange { .. } => Kind::FileChange,
            Self::ScreenChange { .. } => Kind::ScreenChange,
            Self::AudioStreamStart {} => Kind::AudioStreamStart,
            Self::AudioStreamStop {} => Kind::AudioStreamStop,
            Self::ProcessStart { .. } => Kind::ProcessStart,
            Self::ProcessStop { .. } => Kind::ProcessStop,
            Self::Idle { .. } => Kind::Idle,
            Self::Active {} => Kind::Active,
            Self::TitleChange { .. } => Kind::TitleChange,
            Self::DownloadFinished { .. } => Kind::DownloadFinished,
        }
    }

    /// The same with every text cut to its bound.
    #[must_use]
    fn bounded(mut self) -> Self {
        match &mut self {
            Self::WindowFocus { window_id, title, screen }
            | Self::WindowOpen { window_id, title, screen }
            | Self::TitleChange { window_id, title, screen } => {
                cut(window_id, MAX_TEXT_BYTES);
                cut(title, MAX_TEXT_BYTES);
                cut(screen, MAX_TEXT_BYTES);
            }
            Self::WindowClose { window_id, screen } => {
                cut(window_id, MAX_TEXT_BYTES);
                cut(screen, MAX_TEXT_BYTES);
            }
            Self::Clipboard { content, truncated, screen } => {
                *truncated |= cut(content, MAX_CONTENT_BYTES);
                cut(screen, MAX_TEXT_BYTES);
            }
            Self::FileChange { path, real_path, .. } => {
                cut(path, MAX_TEXT_BYTES);
                if let Some(path) = real_path {
                    cut(path, MAX_TEXT_BYTES);
                }
            }
            Self::ScreenChange { screen: text, .. }
            | Self::DownloadFinished { path: text, .. }
            | Self::ProcessStart { name: text, .. }
            | Self::ProcessStop { name: text, .. } => {
                cut(text, MAX_TEXT_BYTES);
            }
            Self::AudioStreamStart {} | Self::AudioStreamStop {} | Self::Idle { .. } | Self::Active {} => {}
        }
        self
    }
}

/// Cuts a text to at most so many bytes of whole characters; whether it was longer.
fn cut(text: &mut String, bytes: usize) -> bool {
    let longer = text.len() > bytes;
    if longer {
        text.truncate(text.floor_char_boundary(bytes));
        text.shrink_to_fit();
    }
    longer
}

/// `GET events`: what a computer can tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Catalogue {
    /// One line per type.
    pub events: Vec<CatalogueEntry>,
    /// Their names alone.
    pub event_types: Vec<String>,
}

/// A type of event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatalogueEntry {
    /// The name to subscribe by.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it happens.
    pub description: String,
    /// How it is found, and how soon.
    pub detection: String,
    /// The fields of its `data`, by name.
    pub data: BTreeMap<String, CatalogueField>,
}

/// A field of an event's `data`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatalogueField {
    /// `string`, `integer` or `boolean`.
    #[serde(rename = "type")]
    pub json: String,
    /// What it says.
    pub description: String,
}

impl Catalogue {
    /// The catalogue of this version.
    pub fn current() -> Self {
        let field = |field: &event::Field| {
            let said = CatalogueField { json: field.json.into(), description: field.meaning.into() };
            (field.name.to_owned(), said)
        };
        let line = |entry: &event::Entry| CatalogueEntry {
            kind: entry.name.into(),
            description: entry.description.into(),
            detection: entry.detection.into(),
            data: entry.data.iter().map(field).collect(),
        };
        Self {
            events: event::catalogue().iter().map(line).collect(),
            event_types: Kind::ALL.iter().map(|kind| kind.name().to_owned()).collect(),
        }
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
