//! Clipboard of a screen.
//!
//! Each screen has a clipboard thread with its own X connection, started at the first use. A selection owner
//! must answer paste requests at any time, also while the screen's worker types or waits. A clipboard owner
//! that hangs must not block the worker.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::{Mutex, oneshot, watch};

use super::fault::restarting;
use hotdesk_domain::error::{Error, Result};

mod atoms;
mod content;
mod fetch;
mod serve;
pub(super) mod thread;
mod transfer;

pub use content::{ClipboardContents, ClipboardItem, CopiedContent, Selection, Snapshot};

use thread::Command;

/// Requests that wait for one clipboard; further ones fail with `Unavailable`.
const QUEUE: usize = 16;
/// Timeout of the thread's start: a few round trips, each with its own timeout.
const START_TIMEOUT: Duration = Duration::from_secs(4);
/// Timeout of a request: a slow owner, and the requests before it in the queue.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Clipboard of a screen; empty until its thread is first needed.
#[derive(Debug)]
pub(super) struct Clipboard {
    display: u16,
    thread: Mutex<Option<Handle>>,
}

impl Clipboard {
    /// The clipboard of the screen with this X display number.
    pub(super) fn new(display: u16) -> Self {
        Self { display, thread: Mutex::default() }
    }

    /// Sends a command to the thread and waits for its answer.
    ///
    /// # Errors
    /// Those of the command; `TimedOut` when the clipboard's owner does not answer; `Unavailable` when the
    /// thread cannot be started, its queue is full, or the screen ends.
    pub(super) async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T>>) -> Command,
    ) -> Result<T> {
        let (reply, answered) = oneshot::channel();
        self.send(command(reply)).await?;
        match tokio::time::timeout(ANSWER_TIMEOUT, answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(self.down())),
            Err(_) => Err(content::owner_silent()),
        }
    }

    /// Sends a command to the thread; starts the thread when none runs.
    async fn send(&self, mut command: Command) -> Result<()> {
        let busy = || Error::unavailable("The clipboard is busy: try again").retry_after(1);
        let mut held = self.thread.lock().await;
        if let Some(handle) = &*held
            && let Some(commands) = &handle.commands
        {
            match commands.try_send(command) {
                Ok(()) => {
                    handle.wake();
                    return Ok(());
                }
                Err(TrySendError::Full(_)) => return Err(busy()),
                Err(TrySendError::Disconnected(back)) => command = back,
            }
        }
        let handle = held.insert(self.start().await?);
        let commands = handle.commands.as_ref().ok_or_else(busy)?;
        commands.try_send(command).map_err(|_| busy())?;
        handle.wake();
        Ok(())
    }

    async fn start(&self) -> Result<Handle> {
        let failed = |why: &dyn std::fmt::Display| self.down().context(why);
        let wakeup =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| failed(&error))?;
        let wakeup = Arc::new(wakeup);
        let (commands, queue) = std::sync::mpsc::sync_channel(QUEUE);
        let (ready, opened) = oneshot::channel();
        let (display, thread_wakeup) = (self.display, Arc::clone(&wakeup));
        let thread = std::thread::Builder::new().name(format!("clipboard :{display}"));
        let started = thread.spawn(move || thread::run(display, queue, &thread_wakeup, ready));
        started.map_err(|error| failed(&error))?;
        match tokio::time::timeout(START_TIMEOUT, opened).await {
            Ok(Ok(Ok(()))) => Ok(Handle { commands: Some(commands), wakeup }),
            Ok(Ok(Err(error))) => Err(error),
            Ok(Err(_)) => Err(failed(&"the clipboard thread panicked")),
            Err(_) => Err(failed(&"the X server does not accept connections")),
        }
    }

    fn down(&self) -> Error {
        restarting(&format!(":{}", self.display))
    }
}

/// Handle of the clipboard thread. The thread ends when the handle is dropped or its X connection ends.
#[derive(Debug)]
struct Handle {
    commands: Option<SyncSender<Command>>,
    wakeup: Arc<OwnedFd>,
}

impl Handle {
    fn wake(&self) {
        if let Err(error) = rustix::io::write(&*self.wakeup, &1_u64.to_ne_bytes()) {
            tracing::warn!(%error, "could not wake a clipboard thread");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.commands = None;
        self.wake();
    }
}

/// Content that was put on a clipboard temporarily, together with the previous content.
#[derive(Debug)]
pub struct TemporaryContent {
    pub(super) selection: Selection,
    pub(super) previous: Snapshot,
    pub(super) serial: u64,
    pub(super) fetches: watch::Receiver<u64>,
}

impl TemporaryContent {
    /// How many times a program fetched the whole content.
    pub fn fetches(&self) -> u64 {
        *self.fetches.borrow()
    }

    /// Waits until the content was fetched more than `before` times. Returns false when that does not happen
    /// within `timeout`, or when another program takes the clipboard.
    pub async fn wait_for_fetch_after(&mut self, before: u64, timeout: Duration) -> bool {
        let more = self.fetches.wait_for(|count| *count > before);
        matches!(tokio::time::timeout(timeout, more).await, Ok(Ok(_)))
    }

    /// The content before the temporary one.
    pub fn previous(&self) -> &Snapshot {
        &self.previous
    }
}
