//! Events of the computer: one watcher per source, which runs while clients subscribe to its types and
//! publishes to the [`Feed`].
//!
//! A watcher publishes only changes since its start. A failed watcher restarts after increasing delays.

use std::path::PathBuf;

use crate::display::Displays;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::event::{EventKind, EventKinds};
use hotdesk_http::feed::Feed;

mod audio;
mod clipboard;
mod files;
mod idle;
mod processes;
mod screens;
mod watcher;

use audio::AudioWatcher;
pub(super) use audio::is_playing;
use files::FileWatcher;
use processes::ProcessWatcher;
use screens::ScreenWatcher;
use watcher::run_watcher;

/// Sources of the watchers, and their target.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Feed for the events.
    pub feed: Feed,
    /// The screens; `None` in an agent for commands and files only.
    pub displays: Option<Displays>,
    /// Home folder of the computer's user, which contains `Desktop` and `Downloads`.
    pub home: PathBuf,
    /// Folder in which the session writes its environment, such as the sound server's socket.
    pub session_dir: PathBuf,
}

/// Starts the watchers as tasks of `tasks`.
pub fn watch(sources: Sources, tasks: &Tasks) {
    let Sources { feed, displays, home, session_dir } = sources;
    feed.set_watched(EventKind::ALL.into_iter().collect(), false);
    // The controller publishes it, so nobody needs to wait for a watcher.
    feed.set_watched(EventKind::AgentChange.into(), true);
    // Health checks run whether somebody listens or not.
    feed.set_watched(EventKind::HealthChange.into(), true);
    // So do triggers.
    feed.set_watched(EventKind::Notification.into(), true);
    // Each screen publishes changes of its control.
    feed.set_watched(kinds(&[EventKind::ControlChanged, EventKind::HelpRequested]), true);
    if let Some(displays) = displays {
        let make = move |feed| ScreenWatcher::new(feed, displays.clone());
        let _screens = tasks.spawn("screen events", run_watcher(feed.clone(), tasks.stopping(), make));
    } else {
        // Without screens there are no screen events to wait for.
        feed.set_watched(kinds(screens::KINDS), true);
    }
    let make = move |feed| AudioWatcher::new(feed, session_dir.clone());
    let _audio = tasks.spawn("sound events", run_watcher(feed.clone(), tasks.stopping(), make));
    let make = move |feed| FileWatcher::new(feed, home.clone());
    let _files = tasks.spawn("file events", run_watcher(feed.clone(), tasks.stopping(), make));
    let _processes = tasks.spawn("process events", run_watcher(feed, tasks.stopping(), ProcessWatcher::new));
}

fn kinds(kinds: &[EventKind]) -> EventKinds {
    kinds.iter().copied().collect()
}
