//! Is anybody or anything at work in this computer? What the agent knows of its screens, terminals and of all that was asked
//! of it, put together when asked; nothing is watched for it in between.

use std::time::Duration;

use futures_util::future::join_all;

use super::display::{Displays, Screen};
use super::events;
use super::files::blocking;
use super::recording::Recordings;
use super::state::Agent;
use super::stream::Streams;
use hotdesk_domain::channel::Channel;
use hotdesk_domain::error::Result;
use hotdesk_wire::agent::{Activity, Hold};

/// Most reasons that are told: one is enough to stay up, the rest is for people.
const MAX_HOLDS: usize = 16;
/// Characters of a name or a command that are told.
const SHOWN: usize = 80;
/// How long a screen may take to say how long nobody has used it. One that is busy longer is being used.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(1);

/// Where the agent looks.
#[derive(Clone)]
pub struct Work {
    /// What runs commands, terminals, transfers and sockets.
    pub agent: Agent,
    /// What there is besides, in an agent with screens.
    pub sight: Option<Sight>,
}

/// What an agent with screens has.
#[derive(Clone)]
pub struct Sight {
    /// The screens.
    pub displays: Displays,
    /// What is streamed of them.
    pub streams: Streams,
    /// What is recorded of them.
    pub recordings: Recordings,
}

impl Work {
    /// Looks at all of it.
    ///
    /// # Errors
    /// `Internal` when the process table cannot be read.
    pub async fn look(&self) -> Result<Activity> {
        let typed = self.agent.terminals.quiet();
        let idle = self.screens_idle().await.into_iter().fold(typed, Duration::min);
        let mut held_by = self.terminals().await?;
        held_by.extend(self.sound().await);
        held_by.extend(self.seen());
        held_by.extend(self.commands());
        held_by.truncate(MAX_HOLDS);
        let idle_ms = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        Ok(Activity { idle_ms, held_by })
    }

    /// How long nobody has used each screen that can tell.
    async fn screens_idle(&self) -> Vec<Duration> {
        let screens = self.sight.iter().flat_map(|sight| sight.displays.list());
        let asked = screens.map(|screen| async move { screen_idle(&screen).await });
        join_all(asked).await.into_iter().flatten().collect()
    }

    async fn terminals(&self) -> Result<Vec<Hold>> {
        let shells = self.agent.terminals.shells();
        let jobs = blocking(move || Ok(shells.jobs())).await?;
        Ok(jobs.into_iter().map(|job| hold("terminal", format!("bash runs {}", shown(&job)))).collect())
    }

    async fn sound(&self) -> Option<Hold> {
        let listeners = self.agent.channels.count(&Channel::Audio);
        if listeners == 0 || !events::plays(&self.agent.desktop.environment(None).ok()?).await {
            return None;
        }
        Some(hold("audio", format!("sound plays for {}", counted(listeners, "listener"))))
    }

    /// Who or what looks at the screens.
    fn seen(&self) -> Vec<Hold> {
        let mut all = Vec::new();
        if let Some(sight) = &self.sight {
            let streamed = sight.streams.screen();
            all.extend(streamed.map(|screen| hold("stream", format!("screen {screen} is streamed"))));
            let recorded = sight.recordings.under_way().into_iter();
            all.extend(recorded.map(|screen| hold("recording", format!("screen {screen} is recorded"))));
        }
        let viewers = self.agent.channels.count(&Channel::Websockify);
        all.extend(
            (viewers > 0).then(|| hold("viewer", format!("{} connected", counted(viewers, "viewer")))),
        );
        all
    }

    /// What was asked for and goes on.
    fn commands(&self) -> Vec<Hold> {
        let agent = &self.agent;
        let mut all = Vec::new();
        let running = agent.commands.running();
        all.extend(
            (running > 0).then(|| hold("command", format!("{} running", counted(running, "command")))),
        );
        let sessions = agent.sessions.list().into_iter().filter(|session| session.busy);
        all.extend(sessions.map(|session| hold("command", format!("Python session {} runs", session.name))));
        let transfers = agent.files.under_way() + agent.answers.count(&());
        all.extend((transfers > 0).then(|| hold("transfer", counted(transfers, "transfer"))));
        let processes = agent.processes.list().into_iter().filter(|process| process.tree_running);
        all.extend(processes.map(|process| {
            let name = process.name.unwrap_or(process.command);
            hold("process", format!("{} runs", shown(&name)))
        }));
        all
    }
}

/// How long nobody has used a screen; none while it is down or where its X server does not count.
async fn screen_idle(screen: &Screen) -> Option<Duration> {
    match tokio::time::timeout(SCREEN_TIMEOUT, screen.idle()).await {
        Ok(told) => told.ok().flatten(),
        Err(_) => Some(Duration::ZERO),
    }
}

fn hold(kind: &str, detail: String) -> Hold {
    Hold { kind: kind.to_owned(), detail }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// As much of a text as is told, on one line.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect()
}
