//! What happens in this computer? A watcher per family of sources, which runs while anybody wants to hear of it, and
//! publishes what it finds to the [`Feed`].
//!
//! A watcher tells only what is new since it started. One that fails is started again after growing pauses.

use std::path::PathBuf;

use super::display::Displays;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::event::{Kind, Kinds};
use hotdesk_http::feed::Feed;

mod audio;
mod clipboard;
mod files;
mod keep;
mod processes;
mod rest;
mod screens;

use audio::Audio;
pub(super) use audio::plays;
use files::Files;
use keep::keep;
use processes::Processes;
use screens::Screens;

/// What the watchers look at, and whom they tell.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Where events go.
    pub feed: Feed,
    /// The screens; none in an agent for commands and files only.
    pub displays: Option<Displays>,
    /// The home folder of the computer's user, which holds `Desktop` and `Downloads`.
    pub home: PathBuf,
    /// Where the session tells its environment, the sound server's socket among it.
    pub session_dir: PathBuf,
}

/// Starts to watch; in `tasks` until they are drained.
pub fn watch(sources: Sources, tasks: &Tasks) {
    let Sources { feed, displays, home, session_dir } = sources;
    feed.set_watched(Kind::ALL.into_iter().collect(), false);
    if let Some(displays) = displays {
        let make = move |feed| Screens::new(feed, displays.clone());
        let _screens = tasks.spawn("screen events", keep(feed.clone(), tasks.stopping(), make));
    } else {
        // Nothing happens on screens that are not there.
        feed.set_watched(kinds(screens::KINDS), true);
    }
    let make = move |feed| Audio::new(feed, session_dir.clone());
    let _audio = tasks.spawn("sound events", keep(feed.clone(), tasks.stopping(), make));
    let make = move |feed| Files::new(feed, home.clone());
    let _files = tasks.spawn("file events", keep(feed.clone(), tasks.stopping(), make));
    let _processes = tasks.spawn("process events", keep(feed, tasks.stopping(), Processes::new));
}

fn kinds(kinds: &[Kind]) -> Kinds {
    kinds.iter().copied().collect()
}
