//! Data of events by type, with limits for texts.

use serde::{Deserialize, Serialize};

use hotdesk_domain::desktop::event::EventKind;

/// Longest clipboard text in an event, in bytes of UTF-8; a longer text is truncated. Clients read the whole
/// text from the clipboard: events are sent to every listener and are buffered for slow ones.
pub const MAX_CONTENT_BYTES: usize = 64 * 1024;
/// Longest other text of an event, in bytes: the kernel's `PATH_MAX`. A longer text is truncated.
pub const MAX_TEXT_BYTES: usize = 4096;

/// Data of an event, by type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
#[allow(missing_docs)] // `hotdesk_domain::desktop::event` documents each field
pub enum EventData {
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
    AgentChange {
        state: AgentState,
        since: String,
    },
    HealthChange {
        app: String,
        status: AppHealth,
        action: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Notification {
        trigger: String,
        title: String,
        level: String,
    },
    ControlChanged {
        screen: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    HelpRequested {
        screen: String,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

/// Whether a computer's agent answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// It answers nothing.
    Unresponsive,
    /// It answers again.
    Responsive,
}

/// Whether an application works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AppHealth {
    /// Its checks fail.
    Unhealthy,
    /// Its checks succeed again.
    Healthy,
}

/// Change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAction {
    /// The file was created.
    Created,
    /// The content changed.
    Modified,
    /// The file was deleted.
    Deleted,
}

impl EventData {
    /// The active window changed to this one.
    pub fn window_focus(
        window_id: impl Into<String>,
        title: impl Into<String>,
        screen: impl Into<String>,
    ) -> Self {
        Self::WindowFocus { window_id: window_id.into(), title: title.into(), screen: screen.into() }
    }

    /// A window opened.
    pub fn window_open(
        window_id: impl Into<String>,
        title: impl Into<String>,
        screen: impl Into<String>,
    ) -> Self {
        Self::WindowOpen { window_id: window_id.into(), title: title.into(), screen: screen.into() }
    }

    /// A window closed.
    pub fn window_close(window_id: impl Into<String>, screen: impl Into<String>) -> Self {
        Self::WindowClose { window_id: window_id.into(), screen: screen.into() }
    }

    /// The title of a window changed.
    pub fn title_change(
        window_id: impl Into<String>,
        title: impl Into<String>,
        screen: impl Into<String>,
    ) -> Self {
        Self::TitleChange { window_id: window_id.into(), title: title.into(), screen: screen.into() }
    }

    /// The clipboard has a new text, of any length.
    pub fn clipboard(content: impl Into<String>, screen: impl Into<String>) -> Self {
        Self::Clipboard { content: content.into(), truncated: false, screen: screen.into() }.bounded()
    }

    /// Returns the type of the event.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::WindowFocus { .. } => EventKind::WindowFocus,
            Self::WindowOpen { .. } => EventKind::WindowOpen,
            Self::WindowClose { .. } => EventKind::WindowClose,
            Self::Clipboard { .. } => EventKind::Clipboard,
            Self::FileChange { .. } => EventKind::FileChange,
            Self::ScreenChange { .. } => EventKind::ScreenChange,
            Self::AudioStreamStart {} => EventKind::AudioStreamStart,
            Self::AudioStreamStop {} => EventKind::AudioStreamStop,
            Self::ProcessStart { .. } => EventKind::ProcessStart,
            Self::ProcessStop { .. } => EventKind::ProcessStop,
            Self::Idle { .. } => EventKind::Idle,
            Self::Active {} => EventKind::Active,
            Self::TitleChange { .. } => EventKind::TitleChange,
            Self::DownloadFinished { .. } => EventKind::DownloadFinished,
            Self::AgentChange { .. } => EventKind::AgentChange,
            Self::HealthChange { .. } => EventKind::HealthChange,
            Self::Notification { .. } => EventKind::Notification,
            Self::ControlChanged { .. } => EventKind::ControlChanged,
            Self::HelpRequested { .. } => EventKind::HelpRequested,
        }
    }

    /// Truncates every text to its limit.
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
            Self::HealthChange { app, action, reason, .. } => {
                cut(app, MAX_TEXT_BYTES);
                cut(action, MAX_TEXT_BYTES);
                if let Some(reason) = reason {
                    cut(reason, MAX_TEXT_BYTES);
                }
            }
            Self::Notification { trigger, title, level } => {
                cut(trigger, MAX_TEXT_BYTES);
                cut(title, MAX_TEXT_BYTES);
                cut(level, MAX_TEXT_BYTES);
            }
            Self::ControlChanged { screen, holder, note } => {
                cut(screen, MAX_TEXT_BYTES);
                for text in [holder, note].into_iter().flatten() {
                    cut(text, MAX_TEXT_BYTES);
                }
            }
            Self::HelpRequested { screen, message, by } => {
                cut(screen, MAX_TEXT_BYTES);
                cut(message, MAX_TEXT_BYTES);
                if let Some(by) = by {
                    cut(by, MAX_TEXT_BYTES);
                }
            }
            Self::AgentChange { since: text, .. }
            | Self::ScreenChange { screen: text, .. }
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

/// Truncates a text to whole characters of at most `bytes` bytes; returns whether it was longer.
fn cut(text: &mut String, bytes: usize) -> bool {
    let longer = text.len() > bytes;
    if longer {
        text.truncate(text.floor_char_boundary(bytes));
        text.shrink_to_fit();
    }
    longer
}
