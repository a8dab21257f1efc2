//! How does one command run from its start to its last byte? Started through a shim, read, and ended in time.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::leftover::Leftovers;
use super::output::{Output, Text};
use super::talk::{self, How, Order, Report};
use super::tree::{self, Target};

/// Bytes read at once: the capacity of a pipe.
const CHUNK: usize = 64 * 1024;
/// After the command's end its output counts as complete once nothing has come for this long: a process substitution
/// (`> >(tee log)`) may still be writing its last lines.
const QUIET: Duration = Duration::from_millis(50);
/// A background process that never pauses writing does not hold the answer up for longer than this.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// How long a tree may take to die before the command is answered without waiting for the rest. The answer is due
/// one second after the deadline.
const END_PATIENCE: Duration = Duration::from_millis(700);

/// What came of a command.
#[derive(Debug)]
pub struct Finished {
    /// What it wrote.
    pub output: Text,
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
    marker: String,
    timeout: Duration,
    abandon: CancellationToken,
    leftovers: &Leftovers,
) -> io::Result<Finished> {
    let deadline = Instant::now() + timeout;
    let Parts { mut shim, socket, mut pipe } = start()?;
    let session = OnceLock::new();
    let mut output = Output::default();
    let mut open = true;
    let mut chunk = vec![0; CHUNK];
    let (end, result) = {
        let mut told = std::pin::pin!(attend(socket, order, &session));
        loop {
            tokio::select! {
                told = &mut told => break told,
                read = pipe.read(&mut chunk), if open => match read {
                    Ok(0) | Err(_) => open = false,
                    Ok(length) => output.push(&chunk[..length]),
                },
                () = tokio::time::sleep_until(deadline) => break (End::TimedOut, String::new()),
                () = abandon.cancelled() => break (End::Abandoned, String::new()),
            }
        }
    };
    if matches!(end, End::TimedOut | End::Abandoned | End::Lost) {
        // Told nothing and asked to end by nobody else: the shim itself was killed.
        let lost = end == End::Lost;
        let target = Target {
            below: shim_pid(&shim),
            session: session.get().copied().filter(|_| lost),
            marker: lost.then_some(marker),
        };
        let left = end_tree(target).await;
        release(shim, left).await;
    } else if let Err(error) = shim.wait().await {
        tracing::warn!(%error, "could not reap a shim");
    }
    if open {
        open = last_words(&mut pipe, &mut output, &mut chunk).await;
    }
    if open && matches!(end, End::Itself(_)) {
        leftovers.adopt(pipe);
    }
    Ok(Finished { output: output.finish(), end, result })
}

struct Parts {
    shim: Child,
    socket: UnixStream,
    pipe: pipe::Receiver,
}

fn start() -> io::Result<Parts> {
    let (reader, writer) = io::pipe()?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut command = std::process::Command::new("/proc/self/exe");
    command.arg0("hotdesk").arg("exec-shim").env_clear();
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    command.stdout(writer.try_clone()?).stderr(writer);
    let shim = tokio::process::Command::from(command).spawn()?;
    Ok(Parts {
        shim,
        socket: UnixStream::from_std(ours)?,
        pipe: pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?,
    })
}

fn shim_pid(shim: &Child) -> i32 {
    // A shim that was reaped already has no descendants; -1 is nobody's parent.
    shim.id().map_or(-1, u32::cast_signed)
}

/// Gives the order and listens until the command's end. A socket that ends before is a shim that was killed.
async fn attend(mut socket: UnixStream, order: Order, session: &OnceLock<i32>) -> (End, String) {
    let sent = match talk::encode(&order) {
        Ok(frame) => socket.write_all(&frame).await,
        Err(error) => Err(error),
    };
    drop(order);
    if sent.is_err() {
        return (End::Lost, String::new());
    }
    loop {
        match next_report(&mut socket).await {
            Ok(Report::Started(pid)) => {
                let _first = session.set(pid);
            }
            Ok(Report::Failed(why)) => return (End::NotStarted(why), String::new()),
            Ok(Report::Ended { how, result }) => return (End::Itself(how), result),
            Err(_) => return (End::Lost, String::new()),
        }
    }
}

async fn next_report(socket: &mut UnixStream) -> io::Result<Report> {
    let mut header = [0; 4];
    socket.read_exact(&mut header).await?;
    let mut body = vec![0; talk::length(header)?];
    socket.read_exact(&mut body).await?;
    talk::decode(&body)
}

/// Ends the tree; returns how many processes are left.
async fn end_tree(target: Target) -> usize {
    let named = format!("{target:?}");
    let left = tokio::task::spawn_blocking(move || tree::end(&target, END_PATIENCE)).await;
    left.unwrap_or_else(|error| {
        tracing::error!(%error, target = named, "ending a command's processes failed");
        1
    })
}

/// Ends the shim once its tree is gone. With processes left it stays, because it is what keeps them together, and goes
/// on ending them by itself: its socket is closed.
async fn release(mut shim: Child, left: usize) {
    if left > 0 {
        tracing::warn!(left, "processes of a command are still dying");
        return;
    }
    if let Err(error) = shim.start_kill() {
        tracing::debug!(%error, "the shim had ended already");
    }
    if let Err(error) = shim.wait().await {
        tracing::warn!(%error, "could not reap a shim");
    }
}

/// Reads what is still in the pipe. Returns whether somebody still holds its other end.
async fn last_words(pipe: &mut pipe::Receiver, output: &mut Output, chunk: &mut [u8]) -> bool {
    let until = Instant::now() + LAST_WORDS;
    loop {
        let patience = QUIET.min(until.saturating_duration_since(Instant::now()));
        match tokio::time::timeout(patience, pipe.read(chunk)).await {
            Ok(Ok(0) | Err(_)) => return false,
            Ok(Ok(length)) => output.push(&chunk[..length]),
            Err(_) => return true,
        }
    }
}
