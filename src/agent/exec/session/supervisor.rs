//! How does a Python session live? Its process, one call after another, and its end.
//!
//! ```text
//! idle --call--> busy --reply--> idle
//!   |              | time-out, client gone, the process ended
//!   | half an hour, deleted, agent stops, the process ended
//!   +--------------+--> over: the tree is killed, the waiting call is told
//! ```

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::Prepared;
use super::super::command::{CHUNK, End, last_words};
use super::super::handover::Handed;
use super::super::launch::{self, Launched};
use super::super::output::Capture;
use super::super::streams::Streams;
use super::super::talk;
use super::{Arc, Call, Job, Ran, Session, Sessions};

/// Longest reply: 8,000 characters, escaped, and the rest.
const MAX_REPLY: usize = 64 * 1024;
/// How long a session that has closed its control socket may take to end by itself before it is killed: its end is known in
/// milliseconds, on a busy machine later, and tells more than that it was killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A fresh interpreter's parts.
pub struct Started {
    launched: Launched,
    control: UnixStream,
}

/// Starts the shim of a session.
///
/// # Errors
/// When the process or its sockets cannot be made.
pub fn start() -> io::Result<Started> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let handed = Handed { stdin: None, control: Some(OwnedFd::from(theirs)) };
    Ok(Started { launched: launch::launch(&handed)?, control: UnixStream::from_std(ours)? })
}

/// What a session's process has and a call uses.
struct Desk {
    streams: Streams,
    open: bool,
    capture: Capture,
    chunk: Vec<u8>,
}

impl Desk {
    /// Takes in what was written next; waits for ever when nothing can come.
    async fn listen(&mut self) {
        if !self.open {
            return std::future::pending().await;
        }
        match self.streams.next(&mut self.chunk).await {
            None => self.open = false,
            Some((stream, length)) => self.capture.push(stream, &self.chunk[..length]),
        }
    }

    /// Takes in all that has been written until now.
    fn catch_up(&mut self) {
        while let Some((stream, length)) = self.streams.take(&mut self.chunk) {
            self.capture.push(stream, &self.chunk[..length]);
        }
    }
}

/// The whole life of a session.
pub async fn keep(
    sessions: Sessions,
    session: Arc<Session>,
    started: Started,
    prepared: Prepared,
    mut inbox: mpsc::Receiver<Job>,
) {
    let Launched { shim, socket, streams } = started.launched;
    let mut control = started.control;
    let mut desk = Desk { streams, open: true, capture: Capture::default(), chunk: vec![0; CHUNK] };
    // The process has ended, or was never started, or its shim is gone.
    let over = CancellationToken::new();
    let attending = async {
        launch::attend(socket, prepared.order, |report| {
            let ends = matches!(report, talk::Report::Failed(_) | talk::Report::Ended { .. });
            session.told().hear(report);
            if ends {
                over.cancel();
            }
        })
        .await;
        over.cancel();
        // Waited for by nobody: `over` tells.
        std::future::pending::<()>().await;
    };
    let (end, asker) = tokio::select! {
        () = attending => (End::Lost, None),
        done = serve(&sessions, &session, &mut control, &mut desk, &mut inbox, &over) => done,
    };
    drop(inbox);
    let lost = (end == End::Lost).then(|| (session.told().command, prepared.marker));
    // Whoever waits for an answer hears in time, whoever ends a session that nothing is left of it.
    let patience = if asker.is_some() { launch::COMMAND_END } else { launch::LASTING_END };
    launch::end(shim, lost, patience).await;
    if desk.open {
        last_words(&mut desk.streams, &mut desk.capture, &mut desk.chunk).await;
    }
    sessions.forget(&session);
    if let Some(asker) = asker {
        let ran =
            Ran { output: desk.capture.finish(), end: Some(end), result: String::new(), started: false };
        // One that has hung up wants no answer.
        let _ = asker.send(ran);
    }
}

/// Calls, one after another, until something ends the session; returns who waits for an answer.
async fn serve(
    sessions: &Sessions,
    session: &Session,
    control: &mut UnixStream,
    desk: &mut Desk,
    inbox: &mut mpsc::Receiver<Job>,
    over: &CancellationToken,
) -> (End, Option<oneshot::Sender<Ran>>) {
    let mut until = Instant::now() + sessions.0.idle;
    loop {
        tokio::select! {
            job = inbox.recv() => {
                let Some(Job { call, mut answer }) = job else { return (End::Abandoned, None) };
                session.touch(1);
                let done = work(session, control, desk, call, &mut answer, over).await;
                session.touch(0);
                match done {
                    Err(end) => return (end, Some(answer)),
                    Ok(result) => {
                        let output = std::mem::take(&mut desk.capture).finish();
                        // One that has hung up since wants no answer.
                        let _ = answer.send(Ran { output, end: None, result, started: false });
                    }
                }
                until = Instant::now() + sessions.0.idle;
            }
            () = desk.listen() => {}
            () = over.cancelled() => return (ended(session), None),
            () = tokio::time::sleep_until(until) => return (End::Abandoned, None),
            () = session.stop.cancelled() => return (End::Abandoned, None),
        }
    }
}

/// One call; its result, or how the session ended.
async fn work(
    session: &Session,
    control: &mut UnixStream,
    desk: &mut Desk,
    call: Call,
    answer: &mut oneshot::Sender<Ran>,
    over: &CancellationToken,
) -> Result<String, End> {
    let deadline = Instant::now() + call.timeout;
    let reply = {
        let mut exchange = std::pin::pin!(exchange(control, &call));
        loop {
            tokio::select! {
                reply = &mut exchange => break reply,
                () = desk.listen() => {}
                () = over.cancelled() => return Err(ended(session)),
                () = tokio::time::sleep_until(deadline) => return Err(End::TimedOut),
                () = answer.closed() => return Err(End::Abandoned),
                () = session.stop.cancelled() => return Err(End::Abandoned),
            }
        }
    };
    let Ok(reply) = reply else {
        // Its end tells more than a closed socket.
        let until = tokio::time::sleep(EXIT_TIMEOUT);
        tokio::pin!(until);
        loop {
            tokio::select! {
                () = over.cancelled() => return Err(ended(session)),
                () = desk.listen() => {}
                () = &mut until => return Err(End::Lost),
                () = answer.closed() => return Err(End::Abandoned),
                () = session.stop.cancelled() => return Err(End::Abandoned),
            }
        }
    };
    // All that the code wrote was written before the reply.
    desk.catch_up();
    Ok(reply)
}

#[derive(Serialize)]
struct Asked<'a> {
    code: &'a str,
    stdin: Option<&'a str>,
}

async fn exchange(control: &mut UnixStream, call: &Call) -> io::Result<String> {
    let frame = talk::encode(&Asked { code: &call.code, stdin: call.stdin.as_deref() })?;
    control.write_all(&frame).await?;
    drop(frame);
    let mut header = [0; 4];
    control.read_exact(&mut header).await?;
    let length = talk::length(header)?;
    if length > MAX_REPLY {
        return Err(io::Error::other("the reply is too long"));
    }
    let mut reply = vec![0; length];
    control.read_exact(&mut reply).await?;
    String::from_utf8(reply).map_err(io::Error::other)
}

/// How the process ended, as its shim told.
fn ended(session: &Session) -> End {
    let told = session.told();
    match (&told.failed, told.ended) {
        (Some(why), _) => End::NotStarted(why.clone()),
        (None, Some(how)) => End::Itself(how),
        (None, None) => End::Lost,
    }
}
