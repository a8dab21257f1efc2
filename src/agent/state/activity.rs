//! Answer of `GET /activity`: the idle time of the computer and the reasons against its suspension.
//!
//! It is computed on request from the screens, terminals, transfers and commands; nothing watches for it in
//! between.

use std::time::Duration;

use futures_util::future::join_all;

use crate::display::{Displays, Screen};
use crate::events;
use crate::files::blocking;
use crate::media::recording::Recordings;
use crate::media::stream::Streams;
use crate::state::Agent;
use hotdesk_domain::desktop::channel::Channel;
use hotdesk_domain::error::Result;
use hotdesk_wire::agent::{Activity, BusyReason};

/// Most reasons that are returned: one prevents a suspension, the others inform people.
const MAX_HOLDS: usize = 16;
/// Most characters of a name or a command in a reason.
const MAX_NAME_CHARS: usize = 80;
/// How long a screen may take to report its idle time. A screen that is busy for longer counts as used.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(1);

/// Sources of the answer.
#[derive(Clone)]
pub struct ActivitySources {
    /// Commands, terminals, transfers and sockets.
    pub agent: Agent,
    /// Screens, in an agent that has some.
    pub screens: Option<ScreenSources>,
}

/// Sources in an agent with screens.
#[derive(Clone)]
pub struct ScreenSources {
    /// The screens.
    pub displays: Displays,
    /// RTMP streams of the screens.
    pub streams: Streams,
    /// Recordings of the screens.
    pub recordings: Recordings,
}

impl ActivitySources {
    /// Reads all sources. `idle_ms` is the time in milliseconds since somebody last used a screen or a
    /// terminal.
    ///
    /// # Errors
    /// `Internal` when the process table cannot be read.
    pub async fn read(&self) -> Result<Activity> {
        let typed = self.agent.terminals.idle_for();
        let idle = self.screens_idle().await.into_iter().fold(typed, Duration::min);
        let mut held_by = self.terminals().await?;
        held_by.extend(self.sound().await);
        held_by.extend(self.screen_watchers());
        held_by.extend(self.ssh());
        held_by.extend(self.tunnels());
        held_by.extend(self.commands());
        held_by.truncate(MAX_HOLDS);
        let idle_ms = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        Ok(Activity { idle_ms, held_by })
    }

    /// Idle time of each screen that reports one.
    async fn screens_idle(&self) -> Vec<Duration> {
        let screens = self.screens.iter().flat_map(|screens| screens.displays.list());
        let asked = screens.map(|screen| async move { screen_idle(&screen).await });
        join_all(asked).await.into_iter().flatten().collect()
    }

    async fn terminals(&self) -> Result<Vec<BusyReason>> {
        let shells = self.agent.terminals.shells();
        let jobs = blocking(move || Ok(shells.jobs())).await?;
        Ok(jobs.into_iter().map(|job| hold("terminal", format!("bash runs {}", shown(&job)))).collect())
    }

    async fn sound(&self) -> Option<BusyReason> {
        let listeners = self.agent.channels.count(&Channel::Audio);
        if listeners == 0 || !events::is_playing(&self.agent.desktop.environment(None).ok()?).await {
            return None;
        }
        Some(hold("audio", format!("sound plays for {}", plural(listeners, "listener"))))
    }

    /// Streams, recordings and viewers of the screens.
    fn screen_watchers(&self) -> Vec<BusyReason> {
        let mut all = Vec::new();
        if let Some(screens) = &self.screens {
            let streamed = screens.streams.screen();
            all.extend(streamed.map(|screen| hold("stream", format!("screen {screen} is streamed"))));
            let recorded = screens.recordings.active_screens().into_iter();
            all.extend(recorded.map(|screen| hold("recording", format!("screen {screen} is recorded"))));
        }
        let open = |channel| self.agent.channels.count(&channel);
        // A page with video has VNC as well, for the input.
        let viewers = open(Channel::Websockify).max(open(Channel::Video));
        all.extend((viewers > 0).then(|| hold("viewer", format!("{} connected", plural(viewers, "viewer")))));
        all
    }

    /// SSH connections. What happens in them is encrypted, so an open one counts as used.
    fn ssh(&self) -> Option<BusyReason> {
        let connections = self.agent.channels.count(&Channel::Ssh);
        (connections > 0).then(|| hold("ssh", plural(connections, "connection")))
    }

    /// Connections to ports of the computer. Programs keep them open between uses, so an open one counts as used.
    fn tunnels(&self) -> Option<BusyReason> {
        let connections = self.agent.channels.count(&Channel::Tcp);
        (connections > 0).then(|| hold("port", plural(connections, "connection")))
    }

    /// Commands, Python sessions, transfers and background processes that run.
    fn commands(&self) -> Vec<BusyReason> {
        let agent = &self.agent;
        let mut all = Vec::new();
        let running = agent.commands.running();
        all.extend((running > 0).then(|| hold("command", format!("{} running", plural(running, "command")))));
        let sessions = agent.sessions.list().into_iter().filter(|session| session.busy);
        all.extend(sessions.map(|session| hold("command", format!("Python session {} runs", session.name))));
        let transfers = agent.files.active_transfers() + agent.answers.count(&());
        all.extend((transfers > 0).then(|| hold("transfer", plural(transfers, "transfer"))));
        let processes = agent.processes.list().into_iter().filter(|process| process.tree_running);
        all.extend(processes.map(|process| {
            let name = process.name.unwrap_or(process.command);
            hold("process", format!("{} runs", shown(&name)))
        }));
        all
    }
}

/// Idle time of a screen; `None` while it is down or when its X server does not count it.
async fn screen_idle(screen: &Screen) -> Option<Duration> {
    match tokio::time::timeout(SCREEN_TIMEOUT, screen.idle()).await {
        Ok(result) => result.ok().flatten(),
        Err(_) => Some(Duration::ZERO),
    }
}

fn hold(kind: &str, detail: String) -> BusyReason {
    BusyReason { kind: kind.to_owned(), detail }
}

fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The beginning of a text, on one line.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_NAME_CHARS).collect()
}
