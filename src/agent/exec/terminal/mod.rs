//! Which terminals are open? Login shells on terminals of their own, each for one socket (wire.md 10.4).
//!
//! A shell runs below a shim like every command, so that its end takes with it all that it started.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

mod input;
mod job;
mod output;
mod pty;
mod shell;
mod text;

use super::surroundings::Surroundings;
use super::{Commands, Prepared, Program, bash};
use crate::quiet::Quiet;
use hotdesk_domain::channel::{Channel, Failure};
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::terminal::Size;
use hotdesk_http::socket::{Closing, Receiver, Sender};
use hotdesk_wire::terminal::Told;
use job::Shells;
use pty::Pty;

/// Terminals at once: a shell with its two helpers is about 8 MB, and what is typed ahead may be a few more.
pub const MAX_TERMINALS: usize = 16;
/// The folder in the home folder that a shell starts in, where there is one.
const FOLDER: &str = "Desktop";

/// The terminals.
#[derive(Clone)]
pub struct Terminals {
    commands: Commands,
    slots: Arc<Semaphore>,
    shells: Shells,
    /// Since when nobody types.
    quiet: Arc<Quiet>,
}

/// What a client asks for, as its query has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// Characters in a row.
    pub cols: Option<&'a str>,
    /// Rows.
    pub rows: Option<&'a str>,
    /// The screen that `DISPLAY` names; the boot screen when absent.
    pub screen: Option<&'a str>,
}

impl Terminals {
    /// None yet.
    pub fn new(commands: Commands) -> Self {
        let slots = Arc::new(Semaphore::new(MAX_TERMINALS));
        Self { commands, slots, shells: Shells::default(), quiet: Arc::default() }
    }

    /// What the open terminals run.
    pub fn shells(&self) -> Shells {
        self.shells.clone()
    }

    /// For how long nobody has typed on any; since this was made where nobody has.
    pub fn quiet(&self) -> Duration {
        self.quiet.length()
    }

    /// Serves a socket with a shell until one of them ends, or `stop` is cancelled. What cannot be is told in an
    /// `error`, then closed with the channel's code for it.
    pub async fn serve(
        &self,
        asked: Asked<'_>,
        sender: Sender,
        receiver: Receiver,
        stop: CancellationToken,
    ) -> Closing {
        let Ok(_slot) = self.slots.try_acquire() else {
            let message = format!("{MAX_TERMINALS} terminals are open already");
            return refuse(&sender, &Error::unavailable(message)).await;
        };
        let opened = match self.prepare(asked) {
            Ok(prepared) => shell::start(prepared),
            Err(error) => Err(error),
        };
        match opened {
            Ok(shell) => shell.serve(&sender, receiver, &self.shells, &self.quiet, stop).await,
            Err(error) => refuse(&sender, &error).await,
        }
    }

    fn prepare(&self, asked: Asked<'_>) -> Result<(Prepared, Pty)> {
        let size = Size::parse(asked.cols, asked.rows)?;
        let folder = self.commands.home.join(FOLDER);
        let surroundings = Surroundings {
            cwd: folder.is_dir().then(|| FOLDER.to_owned()),
            screen: asked.screen.map(str::to_owned),
            ..Surroundings::default()
        };
        let program =
            Program { name: bash::SHELL.to_owned(), args: vec![String::from("--login")], text: None };
        let mut prepared = self.commands.prepare(program, &surroundings)?;
        prepared.order.terminal = true;
        // So that what it started can be ended with it when it has ended itself.
        prepared.order.stay = true;
        let opened = pty::open(size);
        let opened =
            opened.map_err(|error| Error::unavailable("there is no terminal left").context(error))?;
        Ok((prepared, opened))
    }
}

/// Tells why there is no shell.
async fn refuse(sender: &Sender, error: &Error) -> Closing {
    tracing::info!(%error, "no terminal");
    let failure = if error.kind == Kind::NotFound { Failure::NotRunning } else { Failure::Failed };
    let message = error.message.clone();
    // A client that is gone already misses nothing.
    let _gone = sender.json(&Told::Error { message: &message }).await;
    Closing::new(Channel::Terminal.close_code(failure), message)
}
