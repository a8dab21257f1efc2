//! What does an event carry, by its type, and how much of it?

use serde::{Deserialize, Serialize};

use hotdesk_domain::event::Kind;

/// Longest clipboard text that an event carries, in bytes of UTF-8; of a longer one it is the beginning. Whoever wants
/// all of it reads the clipboard: an event goes to every listener, and many wait for one that is slow.
pub const MAX_CONTENT_BYTES: usize = 64 * 1024;
/// Longest other text of an event, in bytes: a path's bound in the kernel (PATH_MAX). Longer ones are cut.
pub const MAX_TEXT_BYTES: usize = 4096;

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
    pub(super) fn bounded(mut self) -> Self {
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
