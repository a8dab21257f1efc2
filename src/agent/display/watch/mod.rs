//! What happens on a screen? A screen that somebody watches has one more thread with an X connection of its own, which
//! waits for what the server tells, looks at what that concerns and says what is different.
//!
//! Notices only tell that it is time to look: what is told is the difference between two looks. So nothing is told
//! twice, and a lost or early notice does no harm.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::oneshot;
use x11rb::protocol::xproto::Window;

use super::fault::restarting;
use super::screen::{Phase, Screen};
use super::windows::id_text;
use hotdesk_domain::error::Result;
use hotdesk_domain::resolution::Size;

mod eye;
mod idle;
mod windows;

/// How long the thread may take to connect and to look for the first time: some ten round trips, each bounded.
const START_TIMEOUT: Duration = Duration::from_secs(6);

/// Something that happened on a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A window is there that was not.
    Opened {
        /// Its id, as in the list of windows.
        id: String,
        /// Its title.
        title: String,
    },
    /// A window is gone.
    Closed {
        /// Its id.
        id: String,
    },
    /// Another window is the active one.
    Focused {
        /// Its id.
        id: String,
        /// Its title.
        title: String,
    },
    /// A window's title is another.
    Titled {
        /// Its id.
        id: String,
        /// Its title.
        title: String,
    },
    /// A program put something on the clipboard.
    Copied,
    /// The screen has another size.
    Resized(Size),
    /// Nobody has used its keyboard or pointer for the time of `domain::event`.
    Rested,
    /// Somebody used them after that.
    Moved,
}

/// Who is told; it must not wait.
pub type Teller = Box<dyn FnMut(Sign) + Send>;

/// What is known of a screen between two looks, and from one connection to the next.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The process of the X server: another one has other windows, whatever their ids.
    server: Option<i32>,
    /// The windows and their titles.
    windows: BTreeMap<Window, String>,
    active: Option<Window>,
    size: Option<Size>,
    /// Whether what a look finds is news. The first look at a screen that was there before only tells what there is.
    begun: bool,
}

/// What is known of a screen; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Known>>);

impl Memory {
    /// Of a screen that was there before: what is on it now is no news.
    pub fn of_old() -> Self {
        Self::default()
    }

    /// Of a screen that is just being made: whatever is on it is news.
    pub fn of_new() -> Self {
        Self(Arc::new(Mutex::new(Known { begun: true, ..Known::default() })))
    }

    /// Forgets all windows, because their screen has ended, and tells that they are closed.
    pub fn close_all(&self, tell: &mut Teller) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).close_all(tell);
    }
}

impl Known {
    fn close_all(&mut self, tell: &mut Teller) {
        self.active = None;
        for window in std::mem::take(&mut self.windows).into_keys() {
            tell(Sign::Closed { id: id_text(window) });
        }
    }
}

/// A screen that is being watched, until this goes or its X connection ends.
#[derive(Debug)]
pub struct Watching {
    /// Whether the screen was at rest when the watch began; also where its X server does not tell.
    pub rested: bool,
    ended: oneshot::Receiver<String>,
    bell: Arc<OwnedFd>,
}

impl Watching {
    /// Resolves with the reason when the watch has ended.
    pub async fn ended(&mut self) -> String {
        let ended = &mut self.ended;
        ended.await.unwrap_or_else(|_| String::from("the watch's thread panicked"))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Err(error) = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes()) {
            tracing::warn!(%error, "could not end a watch");
        }
    }
}

impl Screen {
    /// Watches the screen; on return everything that happens from now on will be told.
    ///
    /// # Errors
    /// `Unavailable` when its X server cannot be asked now.
    pub async fn watch(&self, memory: &Memory, tell: Teller) -> Result<Watching> {
        let failed = |why: &dyn std::fmt::Display| restarting(&self.display_name()).context(why);
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = Arc::new(bell.map_err(|error| failed(&error))?);
        let (ready, begun) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let (display, memory, their_bell) = (self.display, memory.clone(), Arc::clone(&bell));
        let thread = std::thread::Builder::new().name(format!("watch :{display}"));
        let started = thread.spawn(move || {
            let mut known = memory.0.lock().unwrap_or_else(PoisonError::into_inner);
            let why = eye::run(display, &mut known, tell, &their_bell, ready);
            drop(known);
            // Nobody listens any more: the watch was ended.
            let _ = end.send(why);
        });
        started.map_err(|error| failed(&error))?;
        let watching = |rested| Watching { rested, ended, bell };
        match tokio::time::timeout(START_TIMEOUT, begun).await {
            Ok(Ok(rested)) => Ok(watching(rested)),
            Ok(Err(_)) => Err(failed(&watching(false).ended().await)),
            Err(_) => {
                drop(watching(false));
                Err(failed(&"the X server does not answer"))
            }
        }
    }

    /// How long nobody has used it; `None` where its X server does not count.
    ///
    /// # Errors
    /// `Unavailable` when it is not up, or has too much to do.
    pub async fn idle(&self) -> Result<Option<Duration>> {
        self.run(|seat, _| idle::length(&seat.link)).await
    }

    /// Waits until the screen takes work; false when it has ended instead.
    pub async fn lives(&self) -> bool {
        let mut phase = self.phase.subscribe();
        let settled = phase.wait_for(|phase| !matches!(phase, Phase::Starting)).await;
        settled.is_ok_and(|phase| matches!(*phase, Phase::Ready(_)))
    }
}
