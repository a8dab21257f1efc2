//! Catalogue of events: names, meanings, detection and data (docs/api/events.md).
//!
//! `GET events`, the names for subscriptions and the types in `hotdesk_wire::desktop::event` follow this
//! table.

/// Seconds without input after which a computer is idle (docs/api/limits.md).
pub const IDLE_SECONDS: u32 = 30;

/// A type of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// The active window changed.
    WindowFocus,
    /// A window opened.
    WindowOpen,
    /// A window closed.
    WindowClose,
    /// The clipboard's content changed.
    Clipboard,
    /// A file in the Desktop or Downloads folder changed.
    FileChange,
    /// A screen's resolution changed.
    ScreenChange,
    /// Audio playback started.
    AudioStreamStart,
    /// Audio playback stopped.
    AudioStreamStop,
    /// A process started.
    ProcessStart,
    /// A process ended.
    ProcessStop,
    /// There was no user input for [`IDLE_SECONDS`].
    Idle,
    /// There was user input after idle.
    Active,
    /// A window's title changed.
    TitleChange,
    /// A download is complete.
    DownloadFinished,
    /// The computer's agent stopped or began to answer. The controller publishes it.
    AgentChange,
    /// A health check of the template found that an application does not work, or works again.
    HealthChange,
    /// A trigger of the template showed a notification.
    Notification,
    /// Somebody took control of a screen or handed it back, or a request for help ended.
    ControlChanged,
    /// Somebody asks a person for help on a screen.
    HelpRequested,
}

/// A field of an event's `data`.
#[derive(Clone, Copy, Debug)]
pub struct EventField {
    /// Its name.
    pub name: &'static str,
    /// Its JSON type: `string`, `integer` or `boolean`.
    pub json: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
}

/// An entry of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct EventDescription {
    /// The type.
    pub kind: EventKind,
    /// Its name in the API.
    pub name: &'static str,
    /// When it happens.
    pub description: &'static str,
    /// How it is detected, and how soon.
    pub detection: &'static str,
    /// Fields of its `data`.
    pub data: &'static [EventField],
}

const fn field(name: &'static str, json: &'static str, meaning: &'static str) -> EventField {
    EventField { name, json, meaning }
}

const WINDOW: EventField = field("window_id", "string", "The window's X id, as in the list of windows");
const TITLE: EventField = field("title", "string", "Title of the window");
const SCREEN: EventField = field("screen", "string", "Id of the screen");
const PID: EventField = field("pid", "integer", "Its process id");
const NAME: EventField =
    field("name", "string", "Name of its program; empty if the process ended before its name could be read");

/// Detection of processes. The kernel refuses its process connector to containers.
const PROCESSES: &str = "The kernel's process connector, at once, for an agent that runs as root outside of containers; otherwise /proc is \
    compared every 250 ms, and shorter processes may be missed";

const CATALOGUE: [EventDescription; EventKind::COUNT] = [
    EventDescription {
        kind: EventKind::WindowFocus,
        name: "window_focus",
        description: "The active window changed",
        detection: "The window manager's _NET_ACTIVE_WINDOW, at once",
        data: &[WINDOW, TITLE, SCREEN],
    },
    EventDescription {
        kind: EventKind::WindowOpen,
        name: "window_open",
        description: "A new window opened",
        detection: "The window manager's _NET_CLIENT_LIST, at once",
        data: &[WINDOW, TITLE, SCREEN],
    },
    EventDescription {
        kind: EventKind::WindowClose,
        name: "window_close",
        description: "A window closed",
        detection: "The window manager's _NET_CLIENT_LIST, at once",
        data: &[WINDOW, SCREEN],
    },
    EventDescription {
        kind: EventKind::Clipboard,
        name: "clipboard",
        description: "The clipboard's content changed",
        detection: "XFixes selection notification, then a request for the text, at once",
        data: &[
            field("content", "string", "The text; the first 64 KiB when it is longer"),
            field("truncated", "boolean", "True when content is truncated; absent otherwise"),
            SCREEN,
        ],
    },
    EventDescription {
        kind: EventKind::FileChange,
        name: "file_change",
        description: "A file was created, modified or deleted in the Desktop or Downloads folder",
        detection: "inotify, at once; once a second while a file is being written, and when it is closed",
        data: &[
            field("path", "string", "Path of the file, below /home/user if it is accessible there"),
            field("action", "string", "created, modified or deleted"),
            field("real_path", "string", "Path without symbolic links; absent when it is the same"),
        ],
    },
    EventDescription {
        kind: EventKind::ScreenChange,
        name: "screen_change",
        description: "A screen's resolution changed",
        detection: "The X server's notification, once the size has stayed for 250 ms",
        data: &[
            field("width", "integer", "Pixels across"),
            field("height", "integer", "Pixels down"),
            SCREEN,
        ],
    },
    EventDescription {
        kind: EventKind::AudioStreamStart,
        name: "audio_stream_start",
        description: "Audio playback started",
        detection: "PulseAudio subscription, at once",
        data: &[],
    },
    EventDescription {
        kind: EventKind::AudioStreamStop,
        name: "audio_stream_stop",
        description: "Audio playback stopped",
        detection: "PulseAudio subscription, at once",
        data: &[],
    },
    EventDescription {
        kind: EventKind::ProcessStart,
        name: "process_start",
        description: "A new process started; also when a process executes another program, if the kernel reports it",
        detection: PROCESSES,
        data: &[PID, NAME],
    },
    EventDescription {
        kind: EventKind::ProcessStop,
        name: "process_stop",
        description: "A process ended",
        detection: PROCESSES,
        data: &[PID, NAME],
    },
    EventDescription {
        kind: EventKind::Idle,
        name: "idle",
        description: "No user input for 30 seconds, on any screen",
        detection: "XSync alarm on the idle counter, at once",
        data: &[field("idle_seconds", "integer", "Seconds without input: 30")],
    },
    EventDescription {
        kind: EventKind::Active,
        name: "active",
        description: "User input after idle",
        detection: "XSync alarm on the idle counter, at once",
        data: &[],
    },
    EventDescription {
        kind: EventKind::TitleChange,
        name: "title_change",
        description: "An open window's title changed",
        detection: "The window's _NET_WM_NAME, at once",
        data: &[WINDOW, TITLE, SCREEN],
    },
    EventDescription {
        kind: EventKind::DownloadFinished,
        name: "download_finished",
        description: "A browser's download in the Downloads folder is complete",
        detection: "inotify: a file is renamed from the name of an unfinished download, at once",
        data: &[field("path", "string", "The file's path"), field("size_bytes", "integer", "Its length")],
    },
    EventDescription {
        kind: EventKind::AgentChange,
        name: "agent_change",
        description: "The computer's agent stopped answering, or answers again",
        detection: "The service: no connection within 2 s, or no answer within 10 s or more; then a health check every 2 s",
        data: &[
            field("state", "string", "unresponsive or responsive"),
            field("since", "string", "Time of the first unanswered request, ISO 8601"),
        ],
    },
    EventDescription {
        kind: EventKind::HealthChange,
        name: "health_change",
        description: "A health check of the computer's template failed so often that its action ran, or succeeded again",
        detection: "The health check of the application, at its own intervals; not for the action none",
        data: &[
            field("app", "string", "Name of the application"),
            field("status", "string", "unhealthy or healthy"),
            field("action", "string", "The action of the check, such as restart_service:api or alert"),
            field("reason", "string", "Why the last check failed; absent when it is healthy"),
        ],
    },
    EventDescription {
        kind: EventKind::Notification,
        name: "notification",
        description: "A trigger of the computer's template showed a notification",
        detection: "The action notify of the trigger, at once",
        data: &[
            field("trigger", "string", "Name of the trigger"),
            field("title", "string", "Text of the notification"),
            field("level", "string", "info, success, warn or error"),
        ],
    },
    EventDescription {
        kind: EventKind::ControlChanged,
        name: "control_changed",
        description: "Control of a screen was taken, handed back or ended, or a request for help ended",
        detection: "The computer's agent, at once",
        data: &[
            SCREEN,
            field("holder", "string", "Kind and id of the holder, such as key:ID; absent without one"),
            field("note", "string", "Note of the holder, the hand-back or the answer; absent without one"),
        ],
    },
    EventDescription {
        kind: EventKind::HelpRequested,
        name: "help_requested",
        description: "Somebody asks a person for help on a screen",
        detection: "The computer's agent, at once",
        data: &[
            SCREEN,
            field("message", "string", "What is needed"),
            field("by", "string", "Kind and id of the asker, such as thread:ID; absent when unknown"),
        ],
    },
];

impl EventKind {
    /// Number of event types. It is a literal, because rustc 1.95 refuses the catalogue's length in a field's
    /// type (E0391, only in release builds).
    pub const COUNT: usize = 19;

    /// Every type, in the order of the catalogue.
    pub const ALL: [Self; Self::COUNT] = {
        let mut all = [Self::WindowFocus; Self::COUNT];
        let mut at = 0;
        while at < Self::COUNT {
            all[at] = CATALOGUE[at].kind;
            at += 1;
        }
        all
    };

    /// Returns the type with this name.
    pub fn parse(name: &str) -> Option<Self> {
        CATALOGUE.iter().find(|entry| entry.name == name).map(|entry| entry.kind)
    }

    /// Returns its name in the API.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Returns its entry of the catalogue.
    pub fn entry(self) -> &'static EventDescription {
        &CATALOGUE[self as usize]
    }
}

/// Returns the catalogue, in the order of [`EventKind`].
pub fn catalogue() -> &'static [EventDescription] {
    &CATALOGUE
}

/// A set of event types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventKinds(u32);

// A bit for each type.
const _: () = assert!(EventKind::COUNT <= u32::BITS as usize, "EventKinds needs a wider integer");

impl EventKinds {
    /// No type.
    pub const NONE: Self = Self(0);

    /// Whether it holds none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it holds a type.
    pub fn contains(self, kind: EventKind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }

    /// Returns the union.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the intersection.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the types of this set that are not in the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns its types, in the order of the catalogue.
    pub fn iter(self) -> impl Iterator<Item = EventKind> {
        EventKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

impl From<EventKind> for EventKinds {
    fn from(kind: EventKind) -> Self {
        Self(1 << kind as u32)
    }
}

impl FromIterator<EventKind> for EventKinds {
    fn from_iter<Types: IntoIterator<Item = EventKind>>(kinds: Types) -> Self {
        kinds.into_iter().fold(Self::NONE, |all, kind| all.union(kind.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_types_and_names_are_unique() {
        for (at, kind) in EventKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            assert_eq!(kind.entry().kind, kind);
            assert_eq!(EventKind::parse(kind.name()), Some(kind));
        }
        assert_eq!(EventKind::parse("window_focused"), None);
        assert_eq!(EventKind::parse("WINDOW_FOCUS"), None);
        assert_eq!(EventKind::parse(""), None);
    }

    /// The first twelve types and their fields, as in docs/api/events.md.
    #[test]
    fn the_twelve_of_the_specification_are_there_with_their_fields() {
        let promised: [(&str, &[(&str, &str)]); 12] = [
            ("window_focus", &[("window_id", "string"), ("title", "string")]),
            ("window_open", &[("window_id", "string"), ("title", "string")]),
            ("window_close", &[("window_id", "string")]),
            ("clipboard", &[("content", "string")]),
            ("file_change", &[("path", "string"), ("action", "string")]),
            ("screen_change", &[("width", "integer"), ("height", "integer")]),
            ("audio_stream_start", &[]),
            ("audio_stream_stop", &[]),
            ("process_start", &[("pid", "integer"), ("name", "string")]),
            ("process_stop", &[("pid", "integer"), ("name", "string")]),
            ("idle", &[("idle_seconds", "integer")]),
            ("active", &[]),
        ];
        for (name, fields) in promised {
            let entry = EventKind::parse(name).expect(name).entry();
            for (field, json) in fields {
                assert!(entry.data.iter().any(|f| f.name == *field && f.json == *json), "{name}.{field}");
            }
        }
    }

    #[test]
    fn sets_of_types_have_set_operations() {
        let some: EventKinds = [EventKind::Idle, EventKind::Active, EventKind::Idle].into_iter().collect();
        assert!(some.contains(EventKind::Idle) && !some.contains(EventKind::Clipboard) && !some.is_empty());
        assert_eq!(some.iter().collect::<Vec<_>>(), [EventKind::Idle, EventKind::Active]);
        assert_eq!(some.without(EventKind::Idle.into()), EventKind::Active.into());
        assert_eq!(some.intersection(EventKind::Active.into()), EventKind::Active.into());
        assert_eq!(EventKinds::from(EventKind::Clipboard).union(some).iter().count(), 3);
        assert_eq!(EventKinds::from_iter(EventKind::ALL).iter().count(), EventKind::ALL.len());
        assert!(some.without(some).is_empty());
    }
}
