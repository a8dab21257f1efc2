//! Terminals: login shells on pseudo-terminals, one for each socket (docs/channels.md).
//!
//! A shell runs below a shim, like every command, so that all its processes end with it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

mod input;
mod job;
mod output;
mod pty;
mod shell;
pub mod utf8;

use super::{Commands, PreparedCommand, Program, bash};
use crate::exec::exec_context::ExecContext;
use hotdesk_domain::desktop::channel::{Channel, Failure};
use hotdesk_domain::desktop::terminal::TerminalSize;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_http::socket::last_activity::LastActivity;
use hotdesk_http::socket::{CloseReason, Receiver, Sender};
use hotdesk_wire::programs::terminal::TerminalServerMessage;
use job::Shells;
use pty::Pty;

/// Most open terminals: a shell with its two helper processes takes about 8 MB, and unread input may take a
/// few more.
pub const MAX_TERMINALS: usize = 16;
/// Folder in the home folder in which a shell starts, if it exists.
const FOLDER: &str = "Desktop";

/// The open terminals.
#[derive(Clone)]
pub struct Terminals {
    commands: Commands,
    slots: Arc<Semaphore>,
    shells: Shells,
    /// Time of the last input on any terminal.
    activity: Arc<LastActivity>,
}

/// Query parameters of a terminal's socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct TerminalQuery<'a> {
    /// Columns.
    pub cols: Option<&'a str>,
    /// Rows.
    pub rows: Option<&'a str>,
    /// The screen that `DISPLAY` names; the boot screen when absent.
    pub screen: Option<&'a str>,
}

impl Terminals {
    /// Creates an empty set.
    pub fn new(commands: Commands) -> Self {
        let slots = Arc::new(Semaphore::new(MAX_TERMINALS));
        Self { commands, slots, shells: Shells::default(), activity: Arc::default() }
    }

    /// The shells of the open terminals.
    pub fn shells(&self) -> Shells {
        self.shells.clone()
    }

    /// Time since the last input on any terminal, or since the creation of this set.
    pub fn idle_for(&self) -> Duration {
        self.activity.idle_for()
    }

    /// Serves a socket with a shell until one of them ends or `stop` is cancelled. A failure is sent as an
    /// `error` message, then the socket is closed with the channel's code for it.
    pub async fn serve(
        &self,
        query: TerminalQuery<'_>,
        sender: Sender,
        receiver: Receiver,
        stop: CancellationToken,
    ) -> CloseReason {
        let Ok(_slot) = self.slots.try_acquire() else {
            let message = format!("{MAX_TERMINALS} terminals are open already");
            return refuse(&sender, &Error::unavailable(message)).await;
        };
        let opened = match self.prepare(query) {
            Ok(prepared) => shell::start(&self.commands.stock, prepared),
            Err(error) => Err(error),
        };
        match opened {
            Ok(shell) => shell.serve(&sender, receiver, &self.shells, &self.activity, stop).await,
            Err(error) => refuse(&sender, &error).await,
        }
    }

    fn prepare(&self, query: TerminalQuery<'_>) -> Result<(PreparedCommand, Pty)> {
        let size = TerminalSize::parse(query.cols, query.rows)?;
        let folder = self.commands.home.join(FOLDER);
        let context = ExecContext {
            cwd: folder.is_dir().then(|| FOLDER.to_owned()),
            screen: query.screen.map(str::to_owned),
            ..ExecContext::default()
        };
        let program =
            Program { name: bash::SHELL.to_owned(), args: vec![String::from("--login")], text: None };
        let mut prepared = self.commands.prepare(program, &context)?;
        prepared.spec.terminal = true;
        // The shim then ends all remaining processes after the shell has ended.
        prepared.spec.stay = true;
        let opened = pty::open(size);
        let opened =
            opened.map_err(|error| Error::unavailable("no pseudo-terminal is available").context(error))?;
        Ok((prepared, opened))
    }
}

/// Sends the reason for which there is no shell.
async fn refuse(sender: &Sender, error: &Error) -> CloseReason {
    tracing::info!(error = format_args!("{error:#}"), "cannot open a terminal");
    let failure = if error.kind == Kind::NotFound { Failure::NotRunning } else { Failure::Failed };
    let message = error.message.clone();
    // A client that has disconnected does not need the reason.
    let _gone = sender.json(&TerminalServerMessage::Error { message: &message }).await;
    CloseReason::new(Channel::Terminal.close_code(failure), message)
}
