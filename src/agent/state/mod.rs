//! State that the agent's request handlers share.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

pub mod activity;
pub mod journal;
pub mod token;

use crate::display::desktop::Desktop;
use crate::exec::Commands;
use crate::exec::process::Processes;
use crate::exec::services::Services;
use crate::exec::session::Sessions;
use crate::exec::terminal::Terminals;
use crate::files::Files;
use crate::media::audio::Audio;
use crate::media::timeline::Timelines;
use hotdesk_base::keyed_semaphore::KeyedSemaphore;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::channel::Channel;
use hotdesk_http::feed::Feed;
use journal::Journal;
use token::Token;

/// Parts of a running agent.
pub struct Parts {
    /// Token that every request must show.
    pub token: Token,
    /// The home folder of the computer's user.
    pub home: PathBuf,
    /// Private folder of this boot.
    pub runtime_dir: PathBuf,
    /// Uploads and downloads.
    pub files: Files,
    /// Runner of bash and Python.
    pub commands: Commands,
    /// Python sessions.
    pub sessions: Sessions,
    /// Background processes.
    pub processes: Processes,
    /// Hooks and services of the template.
    pub services: Services,
    /// Shells on pseudo-terminals.
    pub terminals: Terminals,
    /// Audio output.
    pub audio: Audio,
    /// Timelines of the screens.
    pub timelines: Timelines,
    /// The screens.
    pub desktop: Arc<dyn Desktop>,
    /// Record of requests with an `Idempotency-Key`.
    pub journal: Journal,
    /// Number of open sockets of each channel.
    pub channels: KeyedSemaphore<Channel>,
    /// Number of answers that are being streamed.
    pub answers: KeyedSemaphore<()>,
    /// Event feed.
    pub feed: Feed,
    /// Background tasks of the agent.
    pub tasks: Tasks,
    /// When the agent started.
    pub started: Instant,
}

/// A running agent; cheap to clone.
#[derive(Clone)]
pub struct Agent(Arc<Parts>);

impl Agent {
    /// Shares the parts.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for Agent {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
