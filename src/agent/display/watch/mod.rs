//! Watches of a screen: window, clipboard, size and idle events.
//!
//! A watched screen has one more thread with its own X connection. X events only trigger a read; the thread
//! reports the difference between two reads. So no event is reported twice, and a lost or early X event does
//! no harm.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::oneshot;
use x11rb::protocol::xproto::Window;

use super::fault::restarting;
use super::screen::{Phase, Screen};
use super::window::id_text;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::Result;

mod event_loop;
mod idle;
mod windows;

/// Timeout of the thread's connection and first read: some ten round trips, each with its own timeout.
const START_TIMEOUT: Duration = Duration::from_secs(6);

/// An event on a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScreenEvent {
    /// A window appeared.
    Opened {
        /// Window id, as in the list of windows.
        id: String,
        /// Window title.
        title: String,
    },
    /// A window disappeared.
    Closed {
        /// Window id.
        id: String,
    },
    /// Another window became active.
    Focused {
        /// Window id.
        id: String,
        /// Window title.
        title: String,
    },
    /// The title of a window changed.
    TitleChanged {
        /// Window id.
        id: String,
        /// The new title.
        title: String,
    },
    /// A program put something on the clipboard.
    Copied,
    /// The size of the screen changed, in pixels.
    Resized(Size),
    /// Nobody used keyboard or pointer for [`IDLE_SECONDS`](hotdesk_domain::desktop::event::IDLE_SECONDS).
    BecameIdle,
    /// Somebody used them after that.
    BecameActive,
}

/// Callback for events; it must not block.
pub type EventCallback = Box<dyn FnMut(ScreenEvent) + Send>;

/// State of a screen at the last read; it survives a reconnection.
#[derive(Debug, Default)]
pub(super) struct KnownState {
    /// Process id of the X server. Another server has other windows, whatever their ids.
    server: Option<i32>,
    /// Titles by window.
    windows: BTreeMap<Window, String>,
    active: Option<Window>,
    size: Option<Size>,
    /// Whether differences are reported. The first read of an existing screen only records its state.
    reports_existing: bool,
}

/// Last known state of a screen; clones share it.
#[derive(Clone, Debug, Default)]
pub struct WatchState(Arc<Mutex<KnownState>>);

impl WatchState {
    /// State for a screen that existed before: its current content is not reported.
    pub fn of_existing_screen() -> Self {
        Self::default()
    }

    /// State for a new screen: all its content is reported.
    pub fn of_new_screen() -> Self {
        Self(Arc::new(Mutex::new(KnownState { reports_existing: true, ..KnownState::default() })))
    }

    /// Reports all windows as closed, because their screen has ended.
    pub fn close_all(&self, callback: &mut EventCallback) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).close_all(callback);
    }
}

impl KnownState {
    fn close_all(&mut self, callback: &mut EventCallback) {
        self.active = None;
        for window in std::mem::take(&mut self.windows).into_keys() {
            callback(ScreenEvent::Closed { id: id_text(window) });
        }
    }
}

/// A watch of a screen. It ends when it is dropped or its X connection ends.
#[derive(Debug)]
pub struct ScreenWatch {
    /// Whether the screen was idle when the watch began. True when its X server has no idle counter.
    pub idle: bool,
    ended: oneshot::Receiver<String>,
    wakeup: Arc<OwnedFd>,
}

impl ScreenWatch {
    /// Waits until the watch has ended; returns why.
    pub async fn ended(&mut self) -> String {
        let ended = &mut self.ended;
        ended.await.unwrap_or_else(|_| String::from("the watch's thread panicked"))
    }
}

impl Drop for ScreenWatch {
    fn drop(&mut self) {
        if let Err(error) = rustix::io::write(&*self.wakeup, &1_u64.to_ne_bytes()) {
            tracing::warn!(%error, "could not wake a watch thread; the watch goes on until its screen ends");
        }
    }
}

impl Screen {
    /// Starts a watch; all events after the return are reported.
    ///
    /// # Errors
    /// `Unavailable` when the X server does not answer or the screen is down.
    pub async fn watch(&self, state: &WatchState, callback: EventCallback) -> Result<ScreenWatch> {
        let failed = |why: &dyn std::fmt::Display| restarting(&self.display_name()).context(why);
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wakeup = Arc::new(wakeup.map_err(|error| failed(&error))?);
        let (ready, begun) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let (display, state, thread_wakeup) = (self.display, state.clone(), Arc::clone(&wakeup));
        let thread = std::thread::Builder::new().name(format!("watch :{display}"));
        let started = thread.spawn(move || {
            let mut known = state.0.lock().unwrap_or_else(PoisonError::into_inner);
            let why = event_loop::run(display, &mut known, callback, &thread_wakeup, ready);
            drop(known);
            // The receiver is gone when the watch was dropped.
            let _ = end.send(why);
        });
        started.map_err(|error| failed(&error))?;
        let watching = |idle| ScreenWatch { idle, ended, wakeup };
        match tokio::time::timeout(START_TIMEOUT, begun).await {
            Ok(Ok(idle)) => Ok(watching(idle)),
            Ok(Err(_)) => Err(failed(&watching(false).ended().await)),
            Err(_) => {
                drop(watching(false));
                Err(failed(&"the X server does not answer"))
            }
        }
    }

    /// Time since the last input; `None` when its X server has no idle counter.
    ///
    /// # Errors
    /// `Unavailable` when the screen is down or busy; `TimedOut` when the X server stops answering.
    pub async fn idle(&self) -> Result<Option<Duration>> {
        self.run(|worker, _| idle::length(&worker.link)).await
    }

    /// Waits until the screen accepts jobs; false when it has ended.
    pub async fn wait_until_ready(&self) -> bool {
        let mut phase = self.phase.subscribe();
        let settled = phase.wait_for(|phase| !matches!(phase, Phase::Starting)).await;
        settled.is_ok_and(|phase| matches!(*phase, Phase::Ready(_)))
    }
}
