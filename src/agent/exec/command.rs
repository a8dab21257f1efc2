//! How does one command run from its start to its last byte? Started through a shim, read, and ended in time.

use std::io;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::handover::Handed;
use super::launch::{self, Launched, Told};
use super::leftover::Leftovers;
use super::output::{Capture, Captured};
use super::streams::Streams;
use super::talk::{How, Order};

/// Bytes read at once: the capacity of a wide pipe.
pub const CHUNK: usize = 64 * 1024;
/// After the command's end its output counts as complete once nothing has come for this long: a process substitution
/// (`> >(tee log)`) may still be starting, or writing its last lines. Only commands that leave something behind wait for it.
const QUIET: Duration = Duration::from_millis(150);
/// A background process that never pauses writing does not hold the answer up for longer than this.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// What came of a command.
#[derive(Debug)]
pub struct Finished {
    /// What it wrote.
    pub output: Captured,
    /// How it ended.
    pub end: End,
    /// What it wrote to its `{result}`, when it had one.
    pub result: String,
}

/// How a command came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Itself(How),
    /// It was killed at its time-out with all that it had started.
    TimedOut,
    /// It killed its own shim; all that could be found of it was killed.
    Lost,
    /// The client hung up, or the agent is stopping.
    Abandoned,
    /// It could not be started; why.
    NotStarted(String),
}

/// Runs one command. It is killed, with everything that it started, after `timeout` or when `abandon` is cancelled.
///
/// # Errors
/// When the shim cannot be started.
pub async fn run(
    order: Order,
    handed: Handed,
    marker: String,
    timeout: Duration,
    abandon: CancellationToken,
    leftovers: &Leftovers,
) -> io::Result<Finished> {
    let deadline = Instant::now() + timeout;
    let Launched { mut shim, socket, mut streams } = launch::launch(&handed)?;
    drop(handed);
    let mut told = Told::default();
    let mut capture = Capture::default();
    let mut open = true;
    let mut chunk = vec![0; CHUNK];
    let cut = {
        let mut attending = std::pin::pin!(launch::attend(socket, order, |report| told.hear(report)));
        loop {
            tokio::select! {
                () = &mut attending => break None,
                read = streams.next(&mut chunk), if open => match read {
                    None => open = false,
                    Some((stream, length)) => capture.push(stream, &chunk[..length]),
                },
                () = tokio::time::sleep_until(deadline) => break Some(End::TimedOut),
                () = abandon.cancelled() => break Some(End::Abandoned),
            }
        }
    };
    let end = match (cut, told.failed, told.ended) {
        (Some(cut), _, _) => cut,
        (None, Some(why), _) => End::NotStarted(why),
        (None, None, Some(how)) => End::Itself(how),
        // Told nothing and asked to end by nobody else: the shim itself was killed.
        (None, None, None) => End::Lost,
    };
    match end {
        End::TimedOut | End::Abandoned => launch::end(shim, None, launch::COMMAND_END).await,
        End::Lost => launch::end(shim, Some((told.command, marker)), launch::COMMAND_END).await,
        End::Itself(_) | End::NotStarted(_) => launch::reap(&mut shim).await,
    }
    if open {
        open = last_words(&mut streams, &mut capture, &mut chunk).await;
    }
    if open && matches!(end, End::Itself(_)) {
        leave(streams, leftovers);
    }
    drop(chunk);
    Ok(Finished { output: capture.finish(), end, result: told.result })
}

/// Reads what is still in the pipes. Returns whether somebody still holds their other ends.
pub async fn last_words(streams: &mut Streams, capture: &mut Capture, chunk: &mut [u8]) -> bool {
    let until = Instant::now() + LAST_WORDS;
    loop {
        let patience = QUIET.min(until.saturating_duration_since(Instant::now()));
        match tokio::time::timeout(patience, streams.next(chunk)).await {
            Ok(None) => return false,
            Ok(Some((stream, length))) => capture.push(stream, &chunk[..length]),
            Err(_) => return true,
        }
    }
}

/// Leaves the pipes of what lives on to their drains.
pub fn leave(streams: Streams, leftovers: &Leftovers) {
    for pipe in streams.into_open() {
        match pipe::Receiver::from_owned_fd(pipe) {
            Ok(pipe) => leftovers.adopt(pipe),
            Err(error) => tracing::warn!(%error, "closed the output of a background process"),
        }
    }
}
