//! Which screens does this computer have? The display room: up to four X displays, each independent of the others.
//!
//! `screens` below is a [`Screen`] each, kept alive by a task (`supervise`), worked by a thread of its own (`seat`).
//! Only this folder knows X. What a request passes: `routes::desktop` -> [`Displays`] -> [`Screen`] -> seat -> X.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

mod album;
mod bench;
mod cache;
mod capture;
mod changes;
mod clipboard;
pub mod config;
mod encode;
mod fault;
mod fit;
mod form;
mod frame;
mod frames;
mod hands;
mod hidden;
mod keyboard;
mod keymap;
pub mod keys;
mod link;
mod observe;
mod others;
mod overdraw;
pub mod picture;
mod ping;
mod pointer;
mod pools;
pub(crate) mod process;
mod receiver;
mod resize;
mod rest;
mod rows;
mod screen;
mod seat;
mod session;
mod shm;
mod supervise;
mod tops;
mod watch;
mod windows;
mod xserver;

pub use album::Sight;
pub use cache::Picture;
pub use changes::{Change, Moment};
pub use clipboard::{Content, Copied, Loan, Selection, Snapshot};
pub use config::{Config, Session, XServer};
pub use form::Form;
pub use frames::Taken;
pub use hidden::Hidden;
pub use keyboard::{MAX_TEXT_CHARS, Typed};
pub use observe::{Attention, Effect, Observed};
pub use overdraw::Canvas;
pub use pointer::{Pointer, Press, Scrolled, Wheel};
pub use receiver::{Receiver, TITLE as RECEIVER_TITLE};
pub use screen::Screen;
pub use session::{session_env, session_env_in};
pub use tops::{Top, Tops};
pub use watch::{Memory, Sign, Teller, Watching};
pub use windows::Change as WindowChange;

use tokio::sync::watch as watch_channel;

use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::resolution::Size;

/// Id of the boot screen.
pub const BOOT_SCREEN: &str = "default";
/// Most screens of a computer, the boot screen included (wire.md 7).
pub const MAX_SCREENS: u16 = 4;
/// Number in the id of the first further screen: `screen-100` (wire.md 7), whatever its display.
const FIRST_ID: u16 = 100;
/// The size of a display to attach to, until it was connected to.
const UNSEEN: Size = Size { width: 0, height: 0 };
/// How long a new screen may take until it is usable.
const CREATE_TIMEOUT: Duration = Duration::from_secs(25);
/// How long a screen may take to end: its session, then its X server, each asked and then killed.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The screens of a computer. Clones are the same room.
#[derive(Clone, Debug)]
pub struct Displays {
    room: Arc<Room>,
}

#[derive(Debug)]
struct Room {
    config: Config,
    session: Option<PathBuf>,
    tasks: Tasks,
    encoders: Arc<encode::Encoders>,
    /// By place: 0 is the boot screen, `n` has the display `base + n`. A screen that is being deleted keeps its place.
    screens: Mutex<BTreeMap<u16, Arc<Screen>>>,
    /// Marked when a screen was added.
    added: watch_channel::Sender<()>,
}

impl Displays {
    /// Starts the boot screen; on return it is being started, [`Screen::ready`] tells when it is usable.
    ///
    /// # Errors
    /// `Internal` when the runtime folder or the session's scripts cannot be made; `Invalid` for a display to attach to
    /// that is not `:NUMBER`.
    pub fn start(config: Config, tasks: &Tasks) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::internal(format!("display room in {}: {error}", config.runtime_dir.display()))
        };
        std::fs::create_dir_all(&config.runtime_dir).map_err(failed)?;
        let session = session::prepare(&config.session, &config.runtime_dir).map_err(failed)?;
        let (display, size, own) = match &config.xserver {
            XServer::Own { boot } => (config.display_base, boot.size, true),
            XServer::Attach(name) => (display_number(name)?, UNSEEN, false),
        };
        let room = Room {
            session,
            tasks: tasks.clone(),
            encoders: Arc::new(encode::Encoders::new()),
            screens: Mutex::default(),
            added: watch_channel::Sender::default(),
            config,
        };
        let displays = Self { room: Arc::new(room) };
        displays.add(&mut displays.lock(), 0, BOOT_SCREEN.to_owned(), display, size, own);
        Ok(displays)
    }

    /// All screens that are to be seen, the boot screen first.
    pub fn list(&self) -> Vec<Arc<Screen>> {
        let seen = |screen: &&Arc<Screen>| !screen.stop.is_cancelled() && !screen.is_hidden();
        self.lock().values().filter(seen).cloned().collect()
    }

    /// Changes whenever a screen was added to the list.
    pub fn added(&self) -> watch_channel::Receiver<()> {
        self.room.added.subscribe()
    }

    /// One screen; the boot screen when no id is given.
    ///
    /// # Errors
    /// `NotFound` for an id that no screen has.
    pub fn screen(&self, id: Option<&str>) -> Result<Arc<Screen>> {
        let id = id.unwrap_or(BOOT_SCREEN);
        let found = self.list().into_iter().find(|screen| screen.id == id);
        found.ok_or_else(|| Error::not_found(format!("Screen not found: {id}")))
    }

    /// Makes a screen, of the boot screen's size when none is given; on return it is usable.
    ///
    /// # Errors
    /// `Conflict` at the limit, or when no X server can be started here; `Unavailable` when it did not come up.
    pub async fn create(&self, size: Option<Size>) -> Result<Arc<Screen>> {
        let screen = self.begin(None, size)?;
        if let Err(error) = screen.ready(CREATE_TIMEOUT).await {
            self.end(&screen).await;
            return Err(error);
        }
        Ok(screen)
    }

    /// Takes a free place for a screen and has it started.
    fn begin(&self, id: Option<&str>, size: Option<Size>) -> Result<Arc<Screen>> {
        if !xserver::available() {
            return Err(Error::conflict("No X server is installed to make screens with"));
        }
        let mut screens = self.lock();
        let place = (1..MAX_SCREENS).find(|place| !screens.contains_key(place));
        let Some(place) = place else {
            return Err(Error::conflict(format!("A computer has at most {MAX_SCREENS} screens")));
        };
        let size = match (size, screens.get(&0)) {
            (Some(size), _) => size,
            (None, Some(boot)) if boot.size() != UNSEEN => boot.size(),
            (None, _) => return Err(Error::unavailable("The boot screen is not up").retry_after(1)),
        };
        let id = id.map_or_else(|| format!("screen-{}", FIRST_ID + place - 1), str::to_owned);
        let display = self.room.config.display_base + place;
        if link::open_socket(display).is_ok() {
            return Err(Error::conflict(format!("Display :{display} is taken by another X server")));
        }
        Ok(self.add(&mut screens, place, id, display, size, true))
    }

    /// Ends a screen and everything on it.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` for the boot screen.
    pub async fn delete(&self, id: &str) -> Result<()> {
        let screen = self.screen(Some(id))?;
        if screen.default {
            return Err(Error::conflict("The boot screen cannot be deleted"));
        }
        self.end(&screen).await;
        Ok(())
    }

    /// Ends all screens: X servers of ours, sessions, and what they started.
    pub async fn stop(&self) {
        let screens: Vec<_> = self.lock().values().cloned().collect();
        for screen in &screens {
            screen.stop.cancel();
        }
        for screen in &screens {
            self.end(screen).await;
        }
    }

    async fn end(&self, screen: &Arc<Screen>) {
        screen.stop.cancel();
        if tokio::time::timeout(END_TIMEOUT, screen.ended.cancelled()).await.is_err() {
            tracing::error!(screen = screen.id, "a screen did not end in time");
        }
    }

    fn add(
        &self,
        screens: &mut BTreeMap<u16, Arc<Screen>>,
        place: u16,
        id: String,
        display: u16,
        size: Size,
        own: bool,
    ) -> Arc<Screen> {
        let room = &self.room;
        let stop = room.tasks.stopping().child_token();
        let encoders = Arc::clone(&room.encoders);
        let screen = Arc::new(Screen::new(id, display, place == 0, size, stop, encoders));
        let supervisor = supervise::Supervisor {
            screen: Arc::clone(&screen),
            own,
            session: room.session.clone(),
            session_dir: room.config.session_dir.clone(),
            runtime_dir: room.config.runtime_dir.clone(),
            tasks: room.tasks.clone(),
        };
        screens.insert(place, Arc::clone(&screen));
        room.added.send_replace(());
        let displays = self.clone();
        let _supervisor = room.tasks.spawn("screen", async move {
            supervisor.keep().await;
            // Only now its display number is free again, and whoever waits for its end finds it so.
            let ended = displays.lock().remove(&place).map(|screen| screen.ended.clone());
            ended.unwrap_or_default().cancel();
        });
        screen
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, Arc<Screen>>> {
        self.room.screens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the desktop session told of itself: its message bus among others. Empty while there is none.
    pub fn session_environment(&self) -> Vec<(String, String)> {
        session_env_in(&self.room.config.session_dir)
    }

    /// The socket of a screen's VNC server (RFB, no password: whoever opens it must have checked who asks). It exists
    /// only while the screen is served by an Xvnc of ours.
    pub fn vnc_socket(&self, screen: &Screen) -> PathBuf {
        xserver::vnc_socket(&self.room.config.runtime_dir, screen.display)
    }
}

/// Reads `:NUMBER` or `:NUMBER.0`.
fn display_number(name: &str) -> Result<u16> {
    let number = name.strip_prefix(':').map(|rest| rest.strip_suffix(".0").unwrap_or(rest));
    let number = number.and_then(|number| number.parse().ok());
    number.ok_or_else(|| Error::invalid(format!("display must be :NUMBER, not {name:?}")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn displays_are_local_numbers() {
        assert_eq!(super::display_number(":0").unwrap(), 0);
        assert_eq!(super::display_number(":99.0").unwrap(), 99);
        for bad in ["", "99", "host:0", ":", ":x", ":70000", ":0.1", ":-1"] {
            assert!(super::display_number(bad).is_err(), "{bad:?}");
        }
    }
}
