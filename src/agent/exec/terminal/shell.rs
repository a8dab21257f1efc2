//! How does the shell of a terminal live? From its start below a shim to the end of all that it started.

use std::future::pending;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::super::Prepared;
use super::super::handover::Handed;
use super::super::launch::{self, Launched};
use super::super::talk::How;
use super::job::Shells;
use super::pty::{Master, Pty, Ruler};
use super::text::Text;
use super::{input, output};
use crate::quiet::Quiet;
use hotdesk_domain::channel::{Channel, Failure, GOING_AWAY, NORMAL};
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::socket::{Closing, Receiver, Sender};
use hotdesk_wire::terminal::Told;

/// How long the client may take to read the shell's last words. They lie in the terminal; with the tree ended, their end
/// is there too, unless a process cannot be killed.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// What a shell that was killed with its own shim is said to have ended with.
const KILLED: How = How::Signal(9);

/// A shell that waits for its order.
pub struct Shell {
    launched: Launched,
    prepared: Prepared,
    master: Master,
    ruler: Ruler,
}

/// Starts the shim of a shell.
///
/// # Errors
/// `Unavailable` when the process cannot be made.
pub fn start((prepared, pty): (Prepared, Pty)) -> Result<Shell> {
    let Pty { master, ruler, slave } = pty;
    let launched = launch::launch(&Handed { stdin: Some(slave), control: None });
    let launched =
        launched.map_err(|error| Error::unavailable("the shell could not be started").context(error))?;
    Ok(Shell { launched, prepared, master, ruler })
}

impl Shell {
    /// Joins the shell and a client until one of them ends, or `stop` is cancelled. On return everything that the shell
    /// started has ended.
    pub async fn serve(
        self,
        sender: &Sender,
        receiver: Receiver,
        shells: &Shells,
        quiet: &Quiet,
        stop: CancellationToken,
    ) -> Closing {
        let Self { launched: Launched { shim, socket, streams: _unused }, prepared, master, ruler } = self;
        let mut text = Text::default();
        let mut told = launch::Told::default();
        let (tell, over) = oneshot::channel();
        let mut open = None;
        let cut = {
            let mut tell = Some(tell);
            let attending = launch::attend(socket, prepared.order, |report| {
                told.hear(report);
                if told.running && open.is_none() {
                    open = told.command.map(|pid| shells.open(pid));
                }
                if (told.ended.is_some() || told.failed.is_some())
                    && let Some(tell) = tell.take()
                {
                    // Who waits for it is here until then.
                    let _ = tell.send(());
                }
            });
            // The last process may let go of the terminal before the shell's end is told.
            let writing = async {
                if output::send(&master, &mut text, sender).await.is_ok() {
                    pending::<()>().await;
                }
            };
            tokio::select! {
                () = attending => None,
                _ = over => None,
                () = writing => Some(Closing::new(NORMAL, "")),
                () = input::listen(receiver, &master, ruler, sender, quiet) => Some(Closing::new(NORMAL, "")),
                () = stop.cancelled() => Some(Closing::new(GOING_AWAY, "the computer is stopping")),
            }
        };
        let lost = cut.is_none() && told.ended.is_none() && told.failed.is_none();
        drop(open);
        launch::end(shim, lost.then_some((told.command, prepared.marker)), launch::LASTING_END).await;
        if let Some(closing) = cut {
            return closing;
        }
        if let Some(why) = told.failed {
            let message = format!("the shell could not be started: {why}");
            let _gone = sender.json(&Told::Error { message: &message }).await;
            return Closing::new(Channel::Terminal.close_code(Failure::Failed), message);
        }
        let last = async {
            output::send(&master, &mut text, sender).await?;
            sender.json(&Told::Exit { code: told.ended.unwrap_or(KILLED).exit_code() }).await
        };
        // A client that is gone, or does not read on, has what it read.
        let _cut = tokio::time::timeout(LAST_WORDS, last).await;
        Closing::new(NORMAL, "the shell ended")
    }
}
