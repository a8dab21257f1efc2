//! What do the agent's handlers share?

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::audio::Audio;
use super::desktop::Desktop;
use super::exec::Commands;
use super::exec::process::Processes;
use super::exec::session::Sessions;
use super::exec::terminal::Terminals;
use super::files::Files;
use super::journal::Journal;
use super::token::Token;
use hotdesk_base::tally::Tally;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::channel::Channel;
use hotdesk_http::feed::Feed;

/// A running agent's parts.
pub struct Parts {
    /// What every request must show.
    pub token: Token,
    /// The home folder of the computer's user.
    pub home: PathBuf,
    /// Files under way.
    pub files: Files,
    /// Runs bash and Python.
    pub commands: Commands,
    /// Python that keeps its state.
    pub sessions: Sessions,
    /// What runs in the background.
    pub processes: Processes,
    /// Shells on terminals.
    pub terminals: Terminals,
    /// What is played.
    pub audio: Audio,
    /// The screens.
    pub desktop: Arc<dyn Desktop>,
    /// What was done under which key.
    pub journal: Journal,
    /// How many sockets each channel has.
    pub channels: Tally<Channel>,
    /// Answers that are sent as they come.
    pub answers: Tally<()>,
    /// What happens here, for those who subscribed.
    pub feed: Feed,
    /// Everything that runs in the background.
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
