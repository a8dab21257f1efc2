//! Screens of the computer: up to four independent X displays.
//!
//! Only this folder uses X. The path of a request is `routes::screens` -> [`Displays`] -> [`Screen`] ->
//! `screen::x11_worker` -> X server. A supervisor task (`screen::supervise`) starts and restarts each screen.
//!
//! A module uses only modules below it:
//! ```text
//! desktop                                    interface for commands and the health check
//! watch                                      window, clipboard, size and idle events
//! input   window                             methods of `Screen` and `X11Worker`, by subject
//! screen                                     `Screen`, its `X11Worker`, its session, its supervisor
//! screenshot   clipboard   keyboard_layout   state that a screen or its worker holds
//! damage_history   link   process            painted areas, X connections, processes
//! template_environment                       variables of the template for programs of screens
//! fault   config                             failures, configuration
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

mod clipboard;
pub mod config;
mod damage_history;
pub mod desktop;
mod fault;
mod input;
mod keyboard_layout;
mod link;
pub(crate) mod process;
mod screen;
pub mod screenshot;
mod template_environment;
mod watch;
mod window;

pub use clipboard::{ClipboardContents, ClipboardItem, CopiedContent, Selection, Snapshot, TemporaryContent};
pub use config::{DisplayConfig, ScreenSession, XServer};
pub use damage_history::{Moment, PaintedChange};
pub use input::effect::{Effect, FocusedWindow, Observation};
pub use input::keyboard::TypingResult;
pub use input::pointer::{PointerState, Press, ScrollResult, Wheel};
pub use keyboard_layout::keys;
pub use keyboard_layout::text::MAX_TEXT_CHARS;
pub use screen::Screen;
pub use screen::control::{AdmittedInput, ControlLease};
pub use screen::hidden::HiddenScreen;
pub use screen::overlay::Canvas;
pub use screen::session::{session_env, session_env_in};
pub use screenshot::cache::{ConditionalScreenshot, Picture};
pub use screenshot::frame_history::FrameRecord;
pub use watch::{EventCallback, ScreenEvent, ScreenWatch, WatchState};
pub use window::change::WindowChange;
pub use window::test_window::{TITLE as TEST_WINDOW_TITLE, TestWindow};
pub use window::toplevel_windows::{ToplevelWindow, ToplevelWindows};

use screen::{session, supervise, xserver};

use tokio::sync::watch as watch_channel;

use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::{Error, Result};
use hotdesk_pictures::Encoders;
pub use hotdesk_pictures::ScreenshotOptions;

/// Id of the boot screen.
pub const BOOT_SCREEN: &str = "default";
/// Most screens of a computer, the boot screen included (docs/api/screens.md).
pub const MAX_SCREENS: u16 = 4;
/// Number in the id of the first further screen, `screen-100` (docs/api/screens.md). It is independent of the
/// X display number.
const FIRST_ID: u16 = 100;
/// Size of an attached display before the first connection.
const UNSEEN: Size = Size { width: 0, height: 0 };
/// File in the runtime folder with the control of the boot screen. It outlives the agent, but not the boot of
/// the computer.
const CONTROL_FILE: &str = "control.json";
/// Timeout of the start of a new screen.
const CREATE_TIMEOUT: Duration = Duration::from_secs(25);
/// Timeout of the end of a screen: its session, then its X server, each terminated and then killed.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The screens of a computer. Clones share the same screens.
#[derive(Clone, Debug)]
pub struct Displays {
    inner: Arc<DisplaysInner>,
}

#[derive(Debug)]
struct DisplaysInner {
    config: DisplayConfig,
    session: Option<PathBuf>,
    tasks: Tasks,
    encoders: Arc<Encoders>,
    /// By slot: 0 is the boot screen, slot `n` has the X display `base + n`. A screen that is being deleted
    /// occupies its slot until it has ended.
    screens: Mutex<BTreeMap<u16, Arc<Screen>>>,
    /// Notified when a screen is added.
    added: watch_channel::Sender<()>,
}

impl Displays {
    /// Begins to start the boot screen; [`Screen::ready`] waits until it is usable.
    ///
    /// # Errors
    /// `Internal` when the runtime folder or the session's scripts cannot be written; `Invalid` when the
    /// display to attach to is not `:NUMBER`.
    pub fn start(config: DisplayConfig, tasks: &Tasks) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::internal(format!(
                "Runtime folder of the displays, {}: {error}",
                config.runtime_dir.display()
            ))
        };
        std::fs::create_dir_all(&config.runtime_dir).map_err(failed)?;
        let session = session::prepare(&config.session, &config.runtime_dir).map_err(failed)?;
        let (display, size, own) = match &config.xserver {
            XServer::Own { boot } => (config.display_base, boot.size, true),
            XServer::Attach(name) => (display_number(name)?, UNSEEN, false),
        };
        let inner = DisplaysInner {
            session,
            tasks: tasks.clone(),
            encoders: Arc::default(),
            screens: Mutex::default(),
            added: watch_channel::Sender::default(),
            config,
        };
        let displays = Self { inner: Arc::new(inner) };
        displays.add(&mut displays.lock(), 0, BOOT_SCREEN.to_owned(), display, size, own);
        Ok(displays)
    }

    /// All visible screens by slot, the boot screen first. Hidden screens and those that are being deleted
    /// are left out.
    pub fn list(&self) -> Vec<Arc<Screen>> {
        let seen = |screen: &&Arc<Screen>| !screen.stop.is_cancelled() && !screen.is_hidden();
        self.lock().values().filter(seen).cloned().collect()
    }

    /// A receiver that is notified whenever a screen is added.
    pub fn added(&self) -> watch_channel::Receiver<()> {
        self.inner.added.subscribe()
    }

    /// The screen with this id; the boot screen for `None`.
    ///
    /// # Errors
    /// `NotFound` for an unknown id.
    pub fn screen(&self, id: Option<&str>) -> Result<Arc<Screen>> {
        let id = id.unwrap_or(BOOT_SCREEN);
        let found = self.list().into_iter().find(|screen| screen.id == id);
        found.ok_or_else(|| Error::not_found(format!("Screen not found: {id}")))
    }

    /// Creates a screen and waits until it is usable. Without a size it gets the boot screen's.
    ///
    /// # Errors
    /// `Conflict` at the limit, when no X server is installed, or when its display number is taken;
    /// `Unavailable` when it does not start in time. The screen is removed then.
    pub async fn create(&self, size: Option<Size>) -> Result<Arc<Screen>> {
        let screen = self.begin(None, size)?;
        if let Err(error) = screen.ready(CREATE_TIMEOUT).await {
            self.end(&screen).await;
            return Err(error);
        }
        Ok(screen)
    }

    /// Takes a free slot and begins to start a screen.
    fn begin(&self, id: Option<&str>, size: Option<Size>) -> Result<Arc<Screen>> {
        if !xserver::available() {
            return Err(Error::conflict(
                "Cannot create a screen: no X server is installed in the computer (Xvnc or Xvfb)",
            ));
        }
        let mut screens = self.lock();
        let slot = (1..MAX_SCREENS).find(|slot| !screens.contains_key(slot));
        let Some(slot) = slot else {
            return Err(Error::conflict(format!("A computer has at most {MAX_SCREENS} screens")));
        };
        let size = match (size, screens.get(&0)) {
            (Some(size), _) => size,
            (None, Some(boot)) if boot.size() != UNSEEN => boot.size(),
            (None, _) => {
                return Err(Error::unavailable(
                    "The boot screen is not ready yet: try again, or give a size",
                )
                .retry_after(1));
            }
        };
        let id = id.map_or_else(|| format!("screen-{}", FIRST_ID + slot - 1), str::to_owned);
        let display = self.inner.config.display_base + slot;
        if link::open_socket(display).is_ok() {
            return Err(Error::conflict(format!(
                "X display :{display} is in use by an X server that the agent did not start"
            )));
        }
        Ok(self.add(&mut screens, slot, id, display, size, true))
    }

    /// Deletes a screen and ends everything on it.
    ///
    /// # Errors
    /// `NotFound` for an unknown id; `Conflict` for the boot screen.
    pub async fn delete(&self, id: &str) -> Result<()> {
        let screen = self.screen(Some(id))?;
        if screen.default {
            return Err(Error::conflict("The boot screen cannot be deleted"));
        }
        self.end(&screen).await;
        Ok(())
    }

    /// Ends all screens: the agent's X servers, the sessions, and their processes.
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
            tracing::error!(screen = screen.id, "a screen did not end in time; its processes may still run");
        }
    }

    fn add(
        &self,
        screens: &mut BTreeMap<u16, Arc<Screen>>,
        slot: u16,
        id: String,
        display: u16,
        size: Size,
        own: bool,
    ) -> Arc<Screen> {
        let inner = &self.inner;
        let stop = inner.tasks.stopping().child_token();
        let encoders = Arc::clone(&inner.encoders);
        // Other screens end with the agent.
        let file = (slot == 0).then(|| inner.config.runtime_dir.join(CONTROL_FILE));
        let control = ControlLease::open(&id, file, inner.config.feed.clone());
        let screen = Arc::new(Screen::new(id, display, slot == 0, size, stop, encoders, control));
        let timed = Arc::clone(&screen);
        let _timer = inner.tasks.spawn("control of a screen", async move {
            tokio::select! {
                () = timed.ended.cancelled() => {}
                () = timed.control.end_in_time() => {}
            }
        });
        let supervisor = supervise::ScreenSupervisor {
            screen: Arc::clone(&screen),
            own,
            session: inner.session.clone(),
            session_dir: inner.config.session_dir.clone(),
            runtime_dir: inner.config.runtime_dir.clone(),
            tasks: inner.tasks.clone(),
        };
        screens.insert(slot, Arc::clone(&screen));
        inner.added.send_replace(());
        let displays = self.clone();
        let _supervisor = inner.tasks.spawn("screen", async move {
            supervisor.run().await;
            // The display number is free only now; after this the end of the screen is announced.
            let ended = displays.lock().remove(&slot).map(|screen| screen.ended.clone());
            ended.unwrap_or_default().cancel();
        });
        screen
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, Arc<Screen>>> {
        self.inner.screens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Environment variables that the desktop session published, such as the address of its message bus.
    /// Empty without a session.
    pub fn session_environment(&self) -> Vec<(String, String)> {
        session_env_in(&self.inner.config.session_dir)
    }

    /// Path of the RFB socket of a screen's VNC server. It has no password, so the caller must authorise its
    /// client. The socket exists only while the agent's own Xvnc serves the screen.
    pub fn vnc_socket(&self, screen: &Screen) -> PathBuf {
        xserver::vnc_socket(&self.inner.config.runtime_dir, screen.display)
    }
}

/// Parses `:NUMBER` or `:NUMBER.0`.
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
