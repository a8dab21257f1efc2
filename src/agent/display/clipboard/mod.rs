//! What can be asked of the clipboard of a screen? Each screen has a clipboard thread with an X connection of its own,
//! started at the first use: the owner of a selection must answer whoever pastes at any time, while the screen's own
//! thread types or waits; and a program that owns it and hangs must hold up nothing else.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::{Mutex, oneshot, watch};

use super::fault::restarting;
use super::screen::Screen;
use hotdesk_domain::error::{Error, Result};

mod atoms;
mod content;
mod fetch;
mod owner;
mod serve;

pub use content::{Content, Copied, Seen, Selection, Snapshot};

use owner::{Command, Outfit};

/// Questions that wait for one clipboard; past it callers are told to retry.
const QUEUE: usize = 16;
/// How long the thread may take to connect: a few round trips, each bounded.
const START_TIMEOUT: Duration = Duration::from_secs(4);
/// How long an answer may take: a slow owner's turn, and those before it in the queue.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A screen's clipboard: its thread, once it was needed.
#[derive(Debug, Default)]
pub(super) struct Clipboard(Mutex<Option<Handle>>);

/// The thread as others see it. It ends when this goes, or when its X connection does.
#[derive(Debug)]
struct Handle {
    commands: Option<SyncSender<Command>>,
    bell: Arc<OwnedFd>,
}

impl Handle {
    fn ring(&self) {
        if let Err(error) = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes()) {
            tracing::warn!(%error, "could not wake a clipboard's thread");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.commands = None;
        self.ring();
    }
}

/// What was put on a clipboard for a while, and what was there before.
#[derive(Debug)]
pub struct Loan {
    selection: Selection,
    former: Snapshot,
    serial: u64,
    fetches: watch::Receiver<u64>,
}

impl Loan {
    /// How often the content was fetched so far.
    pub fn fetches(&self) -> u64 {
        *self.fetches.borrow()
    }

    /// Waits until the content was fetched whole once more than `before` times; false when that does not come to pass
    /// within `patience`, or cannot any more because another program took the clipboard.
    pub async fn fetched_beyond(&mut self, before: u64, patience: Duration) -> bool {
        let more = self.fetches.wait_for(|count| *count > before);
        matches!(tokio::time::timeout(patience, more).await, Ok(Ok(_)))
    }

    /// What was on the clipboard before.
    pub fn former(&self) -> &Snapshot {
        &self.former
    }
}

impl Screen {
    /// What is on the clipboard: text, else a PNG image.
    ///
    /// # Errors
    /// `TimedOut` when its owner does not answer, `TooLarge` when it is past [`Content`]'s limits, `Unavailable` when
    /// the screen cannot be asked now.
    pub async fn clipboard_get(&self, selection: Selection) -> Result<Seen> {
        self.ask_clipboard(|reply| Command::Get { selection, reply }).await
    }

    /// What a program has just put on the clipboard proper, for those who are told of each change.
    ///
    /// # Errors
    /// `TimedOut` when its owner does not answer, `Unavailable` when the screen cannot be asked now.
    pub async fn clipboard_copied(&self) -> Result<Copied> {
        self.ask_clipboard(|reply| Command::Copied { reply }).await
    }

    /// Puts text or an image on the clipboard.
    ///
    /// # Errors
    /// As [`Screen::clipboard_get`].
    pub async fn clipboard_set(&self, selection: Selection, content: Content) -> Result<()> {
        content.check()?;
        let outfit = Outfit::Content(content);
        let set = |reply| Command::Set { selection, outfit, passing: false, reply };
        self.ask_clipboard(set).await.map(drop)
    }

    /// All that is on the clipboard, in every form that its owner offers.
    ///
    /// # Errors
    /// As [`Screen::clipboard_get`], but what is too large is left out.
    pub async fn clipboard_snapshot(&self, selection: Selection) -> Result<Snapshot> {
        self.ask_clipboard(|reply| Command::Snapshot { selection, reply }).await
    }

    /// Puts content on the clipboard for a while. [`Screen::clipboard_give_back`] ends that.
    ///
    /// # Errors
    /// As [`Screen::clipboard_get`].
    pub async fn clipboard_lend(&self, selection: Selection, content: Content) -> Result<Loan> {
        content.check()?;
        let former = self.clipboard_snapshot(selection).await?;
        let outfit = Outfit::Content(content);
        let set = |reply| Command::Set { selection, outfit, passing: true, reply };
        let (serial, fetches) = self.ask_clipboard(set).await?;
        Ok(Loan { selection, former, serial, fetches })
    }

    /// Puts back what was on the clipboard before a loan; false, and nothing is changed, when something else was put
    /// there meanwhile.
    ///
    /// # Errors
    /// As [`Screen::clipboard_get`].
    pub async fn clipboard_give_back(&self, loan: Loan) -> Result<bool> {
        let Loan { selection, former, serial, .. } = loan;
        self.ask_clipboard(|reply| Command::GiveBack { selection, serial, former, reply }).await
    }

    async fn ask_clipboard<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T>>) -> Command,
    ) -> Result<T> {
        let down = || restarting(&self.display_name());
        if !self.is_ready() {
            return Err(down());
        }
        let (reply, answered) = oneshot::channel();
        self.send_to_clipboard(command(reply)).await?;
        match tokio::time::timeout(ANSWER_TIMEOUT, answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(down())),
            Err(_) => Err(content::owner_silent()),
        }
    }

    /// Hands a command to the thread, which is started when there is none, or none any more.
    async fn send_to_clipboard(&self, mut command: Command) -> Result<()> {
        let busy = || Error::unavailable("The clipboard is busy").retry_after(1);
        let mut held = self.clipboard.0.lock().await;
        if let Some(handle) = &*held
            && let Some(commands) = &handle.commands
        {
            match commands.try_send(command) {
                Ok(()) => {
                    handle.ring();
                    return Ok(());
                }
                Err(TrySendError::Full(_)) => return Err(busy()),
                Err(TrySendError::Disconnected(back)) => command = back,
            }
        }
        let handle = held.insert(self.start_clipboard().await?);
        let commands = handle.commands.as_ref().ok_or_else(busy)?;
        commands.try_send(command).map_err(|_| busy())?;
        handle.ring();
        Ok(())
    }

    async fn start_clipboard(&self) -> Result<Handle> {
        let failed = |why: &dyn std::fmt::Display| restarting(&self.display_name()).context(why);
        let bell =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| failed(&error))?;
        let bell = Arc::new(bell);
        let (commands, queue) = std::sync::mpsc::sync_channel(QUEUE);
        let (ready, opened) = oneshot::channel();
        let (display, their_bell) = (self.display, Arc::clone(&bell));
        let thread = std::thread::Builder::new().name(format!("clipboard :{display}"));
        let started = thread.spawn(move || owner::run(display, queue, &their_bell, ready));
        started.map_err(|error| failed(&error))?;
        match tokio::time::timeout(START_TIMEOUT, opened).await {
            Ok(Ok(Ok(()))) => Ok(Handle { commands: Some(commands), bell }),
            Ok(Ok(Err(error))) => Err(error),
            Ok(Err(_)) => Err(failed(&"the clipboard's thread panicked")),
            Err(_) => Err(failed(&"the X server does not accept connections")),
        }
    }
}
