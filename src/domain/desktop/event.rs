//! Which events does a computer tell? One table: names, meanings, detection and data (interface.md "Events").
//!
//! The catalogue that clients read, the names that they subscribe by and the shapes in [`hotdesk_wire::event`] follow it.

/// Seconds without input after which a computer is idle (interface.md "Limits").
pub const IDLE_SECONDS: u32 = 30;

/// A type of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The active window changed.
    WindowFocus,
    /// A window opened.
    WindowOpen,
    /// A window closed.
    WindowClose,
    /// The clipboard's content changed.
    Clipboard,
    /// A file on the desktop or among the downloads changed.
    FileChange,
    /// A screen's resolution changed.
    ScreenChange,
    /// Something began to play sound.
    AudioStreamStart,
    /// Something stopped playing sound.
    AudioStreamStop,
    /// A process started.
    ProcessStart,
    /// A process ended.
    ProcessStop,
    /// Nobody used the computer for a while.
    Idle,
    /// Somebody uses it again.
    Active,
    /// A window's title changed; beyond interface.md.
    TitleChange,
    /// A download is complete; beyond interface.md.
    DownloadFinished,
}

/// A field of an event's `data`.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its JSON type: `string`, `integer` or `boolean`.
    pub json: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

/// A line of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The type.
    pub kind: Kind,
    /// Its name on the wire.
    pub name: &'static str,
    /// When it happens.
    pub description: &'static str,
    /// How it is found, and how soon.
    pub detection: &'static str,
    /// What it carries.
    pub data: &'static [Field],
}

const fn field(name: &'static str, json: &'static str, meaning: &'static str) -> Field {
    Field { name, json, meaning }
}

const WINDOW: Field = field("window_id", "string", "The window's X id, as in the list of windows");
const TITLE: Field = field("title", "string", "What its title bar says");
const SCREEN: Field = field("screen", "string", "Id of the screen");
const PID: Field = field("pid", "integer", "Its process id");
const NAME: Field =
    field("name", "string", "Name of its program; empty where it ended too soon to be asked for it");

/// How processes are watched: the kernel lets in nobody from a container.
const PROCESSES: &str = "The kernel's process connector, at once, for an agent that root runs outside of containers; else the processes of /proc \
    are compared every 250 ms, and shorter lives may be missed";

const CATALOGUE: [Entry; Kind::COUNT] = [
    Entry {
        kind: Kind::WindowFocus,
        name: "window_focus",
        description: "The active window changed",
        detection: "The window manager's _NET_ACTIVE_WINDOW, at once",
        data: &[WINDOW, TITLE, SCREEN],
    },
    Entry {
        kind: Kind::WindowOpen,
        name: "window_open",
        description: "A new window opened",
        detection: "The window manager's _NET_CLIENT_LIST, at once",
        data: &[WINDOW, TITLE, SCREEN],
    },
    Entry {
        kind: Kind::WindowClose,
        name: "window_close",
        description: "A window closed",
        detection: "The window manager's _NET_CLIENT_LIST, at once",
        data: &[WINDOW, SCREEN],
    },
    Entry {
        kind: Kind::Clipboard,
        name: "clipboard",
        description: "The clipboard's content changed",
        detection: "XFixes selection notification, then the text is asked for, at once",
        data: &[
            field("content", "string", "The text; its first 64 KiB when it is longer"),
            field("truncated", "boolean", "True when the text is longer than content; absent otherwise"),
            SCREEN,
        ],
    },
    Entry {
        kind: Kind::FileChange,
        name: "file_change",
        description: "A file was created, modified or deleted in the Desktop or Downloads folder",
        detection: "inotify, at once; while a file is being written once a second, and when it is closed",
        data: &[
            field("path", "string", "The file's path, below /home/user where it can be reached by that name"),
            field("action", "string", "created, modified or deleted"),
            field("real_path", "string", "Its path without links; absent when it is the same"),
        ],
    },
    Entry {
        kind: Kind::ScreenChange,
        name: "screen_change",
        description: "A screen's resolution changed",
        detection: "The X server's notification, once the size has stayed for 50 ms",
        data: &[
            field("width", "integer", "Pixels across"),
            field("height", "integer", "Pixels down"),
            SCREEN,
        ],
    },
    Entry {
        kind: Kind::AudioStreamStart,
        name: "audio_stream_start",
        description: "Audio playback started",
        detection: "PulseAudio subscription, at once",
        data: &[],
    },
    Entry {
        kind: Kind::AudioStreamStop,
        name: "audio_stream_stop",
        description: "Audio playback stopped",
        detection: "PulseAudio subscription, at once",
        data: &[],
    },
    Entry {
        kind: Kind::ProcessStart,
        name: "process_start",
        description: "A new process started; again when it becomes another program, where the kernel tells",
        detection: PROCESSES,
        data: &[PID, NAME],
    },
    Entry {
        kind: Kind::ProcessStop,
        name: "process_stop",
        description: "A process ended",
        detection: PROCESSES,
        data: &[PID, NAME],
    },
    Entry {
        kind: Kind::Idle,
        name: "idle",
        description: "No user input for 30 seconds, on any screen",
        detection: "XSync alarm on the idle counter, at once",
        data: &[field("idle_seconds", "integer", "Seconds without input: 30")],
    },
    Entry {
        kind: Kind::Active,
        name: "active",
        description: "Input came again after idle",
        detection: "XSync alarm on the idle counter, at once",
        data: &[],
    },
    Entry {
        kind: Kind::TitleChange,
        name: "title_change",
        description: "An open window's title changed",
        detection: "The window's _NET_WM_NAME, at once",
        data: &[WINDOW, TITLE, SCREEN],
    },
    Entry {
        kind: Kind::DownloadFinished,
        name: "download_finished",
        description: "A browser's download in the Downloads folder is complete",
        detection: "inotify: a file loses the name of an unfinished download, at once",
        data: &[field("path", "string", "The file's path"), field("size_bytes", "integer", "Its length")],
    },
];

impl Kind {
    /// How many types there are. A number, because rustc 1.95 cannot take the catalogue's length for a field's type (E0391, in
    /// release builds alone).
    pub const COUNT: usize = 14;

    /// Every type, in the catalogue's order.
    pub const ALL: [Self; Self::COUNT] = {
        let mut all = [Self::WindowFocus; Self::COUNT];
        let mut at = 0;
        while at < Self::COUNT {
            all[at] = CATALOGUE[at].kind;
            at += 1;
        }
        all
    };

    /// The type with a name on the wire.
    pub fn parse(name: &str) -> Option<Self> {
        CATALOGUE.iter().find(|entry| entry.name == name).map(|entry| entry.kind)
    }

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Its line of the catalogue.
    pub fn entry(self) -> &'static Entry {
        &CATALOGUE[self as usize]
    }
}

/// The whole catalogue.
pub fn catalogue() -> &'static [Entry] {
    &CATALOGUE
}

/// A set of types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kinds {
    /// No type.
    pub const NONE: Self = Self(0);

    /// Whether it holds none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it holds a type.
    pub fn contains(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }

    /// What is in either.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in this one and not in the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Its types, in the catalogue's order.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

impl From<Kind> for Kinds {
    fn from(kind: Kind) -> Self {
        Self(1 << kind as u32)
    }
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<Types: IntoIterator<Item = Kind>>(kinds: Types) -> Self {
        kinds.into_iter().fold(Self::NONE, |all, kind| all.union(kind.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_types_order_and_every_name_is_its_own() {
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            assert_eq!(kind.entry().kind, kind);
            assert_eq!(Kind::parse(kind.name()), Some(kind));
        }
        assert_eq!(Kind::parse("window_focused"), None);
        assert_eq!(Kind::parse("WINDOW_FOCUS"), None);
        assert_eq!(Kind::parse(""), None);
    }

    /// The twelve types and their fields, as interface.md has them.
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
            let entry = Kind::parse(name).expect(name).entry();
            for (field, json) in fields {
                assert!(entry.data.iter().any(|f| f.name == *field && f.json == *json), "{name}.{field}");
            }
        }
    }

    #[test]
    fn sets_of_types_are_sets() {
        let some: Kinds = [Kind::Idle, Kind::Active, Kind::Idle].into_iter().collect();
        assert!(some.contains(Kind::Idle) && !some.contains(Kind::Clipboard) && !some.is_empty());
        assert_eq!(some.iter().collect::<Vec<_>>(), [Kind::Idle, Kind::Active]);
        assert_eq!(some.without(Kind::Idle.into()), Kind::Active.into());
        assert_eq!(some.intersection(Kind::Active.into()), Kind::Active.into());
        assert_eq!(Kinds::from(Kind::Clipboard).union(some).iter().count(), 3);
        assert_eq!(Kinds::from_iter(Kind::ALL).iter().count(), Kind::ALL.len());
        assert!(some.without(some).is_empty());
    }
}
