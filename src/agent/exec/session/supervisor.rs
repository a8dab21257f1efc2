//! Supervision of one Python session: its process, its calls one after another, and its end.
//!
//! ```text
//! idle --call--> busy --reply--> idle
//!   |              | timeout, client gone, process ended
//!   | idle for 30 minutes, deleted, agent stops, process ended
//!   +--------------+--> over: all processes are killed, the waiting call is answered
//! ```

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::PreparedCommand;
use super::super::command::{CHUNK, CommandEnd, read_final_output};
use super::{Arc, Call, CallResult, QueuedCall, Session, Sessions};
use crate::exec::output::OutputCapture;
use crate::exec::output::streams::OutputPipes;
use crate::exec::shim::descriptors::CommandDescriptors;
use crate::exec::shim::launch::{self, Shim};
use crate::exec::shim::shim_protocol;
use crate::exec::shim::stock::ShimStock;

/// Longest reply in bytes: 8,000 characters of up to four bytes, and the name of a type.
const MAX_REPLY: usize = 64 * 1024;
/// How long a session that has closed its control socket may take to exit by itself before it is killed. Its
/// exit status says more than a kill would; it comes within milliseconds, later on a busy machine.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A shim with the descriptors of its session, and the session's control socket.
pub struct StartedSession {
    shim: Shim,
    streams: OutputPipes,
    control: UnixStream,
}

/// Takes a shim for a session.
///
/// # Errors
/// When the process or its sockets cannot be made.
pub fn start(stock: &ShimStock) -> io::Result<StartedSession> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let control = Some(OwnedFd::from(theirs));
    let shim = stock.take_for_good()?;
    let streams = shim.pass(&CommandDescriptors { control, ..CommandDescriptors::default() })?;
    Ok(StartedSession { shim, streams, control: UnixStream::from_std(ours)? })
}

/// Output pipes of a session and the capture of the current call.
struct SessionOutput {
    streams: OutputPipes,
    open: bool,
    capture: OutputCapture,
    chunk: Vec<u8>,
}

impl SessionOutput {
    /// Captures the next output; waits for ever when no more can come.
    async fn listen(&mut self) {
        if !self.open {
            return std::future::pending().await;
        }
        match self.streams.next(&mut self.chunk).await {
            None => self.open = false,
            Some((stream, length)) => self.capture.push(stream, &self.chunk[..length]),
        }
    }

    /// Captures all output that is in the pipes now.
    fn catch_up(&mut self) {
        while let Some((stream, length)) = self.streams.take(&mut self.chunk) {
            self.capture.push(stream, &self.chunk[..length]);
        }
    }
}

/// Supervises a session until all its processes have ended.
pub async fn supervise(
    sessions: Sessions,
    session: Arc<Session>,
    started: StartedSession,
    prepared: PreparedCommand,
    mut inbox: mpsc::Receiver<QueuedCall>,
) {
    let StartedSession { mut shim, streams, mut control } = started;
    let mut output_state =
        SessionOutput { streams, open: true, capture: OutputCapture::default(), chunk: vec![0; CHUNK] };
    // Cancelled when the process has ended or could not be started, or its shim has ended.
    let over = CancellationToken::new();
    let attending = async {
        launch::attend(&mut shim.sockets, prepared.spec, |report| {
            let ends =
                matches!(report, shim_protocol::Report::Failed(_) | shim_protocol::Report::Ended { .. });
            session.shim().apply(report);
            if ends {
                over.cancel();
            }
        })
        .await;
        over.cancel();
        // `over` reports the end.
        std::future::pending::<()>().await;
    };
    let (end, caller) = tokio::select! {
        () = attending => (CommandEnd::Lost, None),
        done = serve(&sessions, &session, &mut control, &mut output_state, &mut inbox, &over) => done,
    };
    drop(inbox);
    let lost = (end == CommandEnd::Lost).then(|| (session.shim().command, prepared.marker));
    // A caller that waits is answered in time; without one, the end is reported when no process is left.
    let timeout = if caller.is_some() { launch::COMMAND_END } else { launch::LASTING_END };
    launch::end(shim, lost, timeout).await;
    if output_state.open {
        read_final_output(&mut output_state.streams, &mut output_state.capture, &mut output_state.chunk)
            .await;
    }
    sessions.forget(&session);
    if let Some(caller) = caller {
        let ran = CallResult {
            output: output_state.capture.finish(),
            end: Some(end),
            result: String::new(),
            started: false,
        };
        // The caller may have disconnected.
        let _ = caller.send(ran);
    }
}

/// Executes calls one after another until something ends the session; returns the caller that waits for an
/// answer.
async fn serve(
    sessions: &Sessions,
    session: &Session,
    control: &mut UnixStream,
    output_state: &mut SessionOutput,
    inbox: &mut mpsc::Receiver<QueuedCall>,
    over: &CancellationToken,
) -> (CommandEnd, Option<oneshot::Sender<CallResult>>) {
    let mut until = Instant::now() + sessions.0.idle;
    loop {
        tokio::select! {
            job = inbox.recv() => {
                let Some(QueuedCall { call, mut answer }) = job else { return (CommandEnd::Abandoned, None) };
                session.touch(1);
                let done = execute(session, control, output_state, call, &mut answer, over).await;
                session.touch(0);
                match done {
                    Err(end) => return (end, Some(answer)),
                    Ok(result) => {
                        let output = std::mem::take(&mut output_state.capture).finish();
                        // The caller may have disconnected.
                        let _ = answer.send(CallResult { output, end: None, result, started: false });
                    }
                }
                until = Instant::now() + sessions.0.idle;
            }
            () = output_state.listen() => {}
            () = over.cancelled() => return (ended(session), None),
            () = tokio::time::sleep_until(until) => return (CommandEnd::Abandoned, None),
            () = session.stop.cancelled() => return (CommandEnd::Abandoned, None),
        }
    }
}

/// Executes one call; returns its result or how the session ended.
async fn execute(
    session: &Session,
    control: &mut UnixStream,
    output_state: &mut SessionOutput,
    call: Call,
    answer: &mut oneshot::Sender<CallResult>,
    over: &CancellationToken,
) -> Result<String, CommandEnd> {
    let deadline = Instant::now() + call.timeout;
    let reply = {
        let mut exchange = std::pin::pin!(exchange(control, &call));
        loop {
            tokio::select! {
                reply = &mut exchange => break reply,
                () = output_state.listen() => {}
                () = over.cancelled() => return Err(ended(session)),
                () = tokio::time::sleep_until(deadline) => return Err(CommandEnd::TimedOut),
                () = answer.closed() => return Err(CommandEnd::Abandoned),
                () = session.stop.cancelled() => return Err(CommandEnd::Abandoned),
            }
        }
    };
    let Ok(reply) = reply else {
        // The exit status says more than a closed socket.
        let until = tokio::time::sleep(EXIT_TIMEOUT);
        tokio::pin!(until);
        loop {
            tokio::select! {
                () = over.cancelled() => return Err(ended(session)),
                () = output_state.listen() => {}
                () = &mut until => return Err(CommandEnd::Lost),
                () = answer.closed() => return Err(CommandEnd::Abandoned),
                () = session.stop.cancelled() => return Err(CommandEnd::Abandoned),
            }
        }
    };
    // The code wrote all its output before the reply.
    output_state.catch_up();
    Ok(reply)
}

/// Length that means: no standard input.
const NO_STDIN: u32 = u32::MAX;

/// Passes a call to the session and returns its report, as `session.py` describes them.
async fn exchange(control: &mut UnixStream, call: &Call) -> io::Result<String> {
    let length = |text: &str| u32::try_from(text.len()).map_err(io::Error::other);
    let stdin_length = call.stdin.as_deref().map_or(Ok(NO_STDIN), length)?;
    let header = [length(&call.code)?.to_le_bytes(), stdin_length.to_le_bytes()].concat();
    let stdin = call.stdin.as_deref().unwrap_or_default();
    control.write_all(&[&header, call.code.as_bytes(), stdin.as_bytes()].concat()).await?;
    let mut header = [0; 4];
    control.read_exact(&mut header).await?;
    let length = shim_protocol::length(header)?;
    if length > MAX_REPLY {
        return Err(io::Error::other("the reply is too long"));
    }
    let mut reply = vec![0; length];
    control.read_exact(&mut reply).await?;
    String::from_utf8(reply).map_err(io::Error::other)
}

/// How the process ended, as reported by its shim.
fn ended(session: &Session) -> CommandEnd {
    let state = session.shim();
    match (&state.failed, state.ended) {
        (Some(why), _) => CommandEnd::NotStarted(why.clone()),
        (None, Some(how)) => CommandEnd::Exited(how),
        (None, None) => CommandEnd::Lost,
    }
}
