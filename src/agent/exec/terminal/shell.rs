//! Login shell of one terminal, from its start below a shim to the end of all its processes.

use std::future::pending;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::super::PreparedCommand;
use super::job::Shells;
use super::pty::{Master, Pty, TerminalResizer};
use super::utf8::Utf8Decoder;
use super::{input, output};
use crate::exec::shim::descriptors::CommandDescriptors;
use crate::exec::shim::launch::{self, Shim};
use crate::exec::shim::shim_protocol::ProcessExit;
use crate::exec::shim::stock::ShimStock;
use hotdesk_domain::desktop::channel::{Channel, Failure, GOING_AWAY, NORMAL};
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::socket::last_activity::LastActivity;
use hotdesk_http::socket::{CloseReason, Receiver, Sender};
use hotdesk_wire::programs::terminal::TerminalServerMessage;

/// How long the client may take to read the shell's last output. It is in the terminal already; with the
/// process tree killed its end is there too, unless a process cannot be killed.
const FINAL_OUTPUT_TIMEOUT: Duration = Duration::from_secs(5);
/// Exit of a shell that was killed together with its shim.
const KILLED: ProcessExit = ProcessExit::Signal(9);

/// A shim that waits for the request to start its shell.
pub struct Shell {
    shim: Shim,
    prepared: PreparedCommand,
    master: Master,
    resizer: TerminalResizer,
}

/// Takes a shim for a shell.
///
/// # Errors
/// `Unavailable` when the process cannot be started.
pub fn start(stock: &ShimStock, (prepared, pty): (PreparedCommand, Pty)) -> Result<Shell> {
    let Pty { master, resizer, slave } = pty;
    let descriptors = CommandDescriptors { stdin: Some(slave), ..CommandDescriptors::default() };
    let taken = stock.take_for_good().and_then(|shim| {
        // The shell writes to its terminal.
        let _unused = shim.pass(&descriptors)?;
        Ok(shim)
    });
    let shim = taken.map_err(|error| Error::unavailable("the shell could not be started").context(error))?;
    Ok(Shell { shim, prepared, master, resizer })
}

impl Shell {
    /// Connects the shell and a client until one of them ends or `stop` is cancelled. On return all processes
    /// of the shell have ended.
    pub async fn serve(
        self,
        sender: &Sender,
        receiver: Receiver,
        shells: &Shells,
        activity: &LastActivity,
        stop: CancellationToken,
    ) -> CloseReason {
        let Self { mut shim, prepared, master, resizer } = self;
        let mut text = Utf8Decoder::default();
        let mut state = launch::ShimState::default();
        let (exited, on_exit) = oneshot::channel();
        let mut open = None;
        let cut = {
            let mut exited = Some(exited);
            let attending = launch::attend(&mut shim.sockets, prepared.spec, |report| {
                state.apply(report);
                if state.running && open.is_none() {
                    open = state.command.map(|pid| shells.register(pid));
                }
                if (state.ended.is_some() || state.failed.is_some())
                    && let Some(exited) = exited.take()
                {
                    // The receiver lives until then.
                    let _ = exited.send(());
                }
            });
            // The last process may close the terminal before the shim reports the shell's exit.
            let writing = async {
                if output::send(&master, &mut text, sender).await.is_ok() {
                    pending::<()>().await;
                }
            };
            tokio::select! {
                () = attending => None,
                _ = on_exit => None,
                () = writing => Some(CloseReason::new(NORMAL, "")),
                () = input::listen(receiver, &master, resizer, sender, activity) => Some(CloseReason::new(NORMAL, "")),
                () = stop.cancelled() => Some(CloseReason::new(GOING_AWAY, "the computer is stopping")),
            }
        };
        let lost = cut.is_none() && state.ended.is_none() && state.failed.is_none();
        drop(open);
        launch::end(shim, lost.then_some((state.command, prepared.marker)), launch::LASTING_END).await;
        if let Some(closing) = cut {
            return closing;
        }
        if let Some(why) = state.failed {
            let message = format!("the shell could not be started: {why}");
            let _gone = sender.json(&TerminalServerMessage::Error { message: &message }).await;
            return CloseReason::new(Channel::Terminal.close_code(Failure::Failed), message);
        }
        let last = async {
            output::send(&master, &mut text, sender).await?;
            sender
                .json(&TerminalServerMessage::Exit { code: state.ended.unwrap_or(KILLED).exit_code() })
                .await
        };
        // A client that has disconnected or stopped reading loses the rest.
        let _cut = tokio::time::timeout(FINAL_OUTPUT_TIMEOUT, last).await;
        CloseReason::new(NORMAL, "the shell ended")
    }
}
