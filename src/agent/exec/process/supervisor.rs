//! How does a background process live? Its shim, what it writes, and the end of all that it started.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use super::super::Prepared;
use super::super::command::CHUNK;
use super::super::handover::Handed;
use super::super::launch::{self, Launched};
use super::super::streams::Streams;
use super::super::talk::Report;
use super::{Process, Stdin};
use hotdesk_base::clock::now_ms;
use hotdesk_domain::error::{Error, Result};

/// Bytes that still wait in the pipes when the tree has ended are there at once; a stranger who was given a pipe and
/// writes on is not listened to for longer than this.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(250);

/// A fresh process's parts.
pub struct Started {
    launched: Launched,
    stdin: Option<OwnedFd>,
}

/// Starts the shim of a process.
///
/// # Errors
/// When the process or its pipes cannot be made.
pub fn start(piped: bool) -> io::Result<Started> {
    let (reader, writer) = if piped {
        let (reader, writer) = io::pipe()?;
        (Some(OwnedFd::from(reader)), Some(OwnedFd::from(writer)))
    } else {
        (None, None)
    };
    let launched = launch::launch(&Handed { stdin: reader, control: None })?;
    Ok(Started { launched, stdin: writer })
}

impl Started {
    /// The id of the shim's process.
    pub fn shim(&self) -> i32 {
        launch::shim_pid(&self.launched.shim)
    }

    /// The end to write to.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn stdin(&self) -> Result<Stdin> {
        let Some(writer) = &self.stdin else { return Ok(Stdin::None) };
        let failed = |error| Error::internal(format!("standard input of a process: {error}"));
        let writer = writer.try_clone().map_err(failed)?;
        pipe::Sender::from_owned_fd(writer).map(Stdin::Open).map_err(failed)
    }
}

/// The whole life of a process. `begun` learns whether the program runs.
pub async fn keep(
    process: Arc<Process>,
    started: Started,
    prepared: Prepared,
    begun: oneshot::Sender<Result<(), String>>,
) {
    let Started { launched: Launched { mut shim, socket, mut streams }, stdin } = started;
    // The process's own copy is the one to close.
    drop(stdin);
    let mut begun = Some(begun);
    let over = {
        let attending = launch::attend(socket, prepared.order, |report| {
            hear(&process, report, &mut begun);
        });
        let mut attending = std::pin::pin!(attending);
        let mut open = true;
        let mut chunk = vec![0; CHUNK];
        loop {
            tokio::select! {
                () = &mut attending => break true,
                more = listen(&process, &mut streams, &mut chunk), if open => open = more,
                () = process.stop.cancelled() => break false,
            }
        }
    };
    let told = process.state().told.clone();
    if over && (told.ended.is_some() || told.failed.is_some()) {
        launch::reap(&mut shim).await;
    } else {
        // Stopped, or the shim was killed.
        launch::end(shim, over.then_some((told.command, prepared.marker)), launch::LASTING_END).await;
    }
    let mut chunk = vec![0; CHUNK];
    let rest = async { while listen(&process, &mut streams, &mut chunk).await {} };
    // Whatever was cut off by the time-out belongs to nobody that is left.
    let _ = tokio::time::timeout(LAST_WORDS, rest).await;
    drop(streams);
    *process.stdin.lock().await = Stdin::Closed;
    {
        let mut state = process.state();
        state.ended_at.get_or_insert_with(now_ms);
        if state.stdin == "open" {
            state.stdin = "closed";
        }
    }
    process.gone.cancel();
    process.write(|log| log.over = true);
}

/// Takes in what was written next; false when nothing more can come.
async fn listen(process: &Process, streams: &mut Streams, chunk: &mut [u8]) -> bool {
    let Some((stream, length)) = streams.next(chunk).await else { return false };
    process.write(|log| log.push(stream, &chunk[..length]));
    true
}

fn hear(process: &Process, report: Report, begun: &mut Option<oneshot::Sender<Result<(), String>>>) {
    let outcome = match &report {
        Report::Running | Report::Ended { .. } => Some(Ok(())),
        Report::Failed(why) => Some(Err(why.clone())),
        Report::Started { .. } => None,
    };
    {
        let mut state = process.state();
        if matches!(report, Report::Ended { .. }) {
            state.ended_at = Some(now_ms());
        }
        state.told.hear(report);
    }
    if let Some(outcome) = outcome
        && let Some(begun) = begun.take()
    {
        // Who asked may have hung up; the process runs all the same.
        let _ = begun.send(outcome);
    }
}
