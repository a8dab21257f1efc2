//! How is a command's shim started, listened to and ended?

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::Child;

use super::handover::{self, Handed};
use super::streams::{self, Streams};
use super::talk::{self, How, Order, Report};
use super::tree::{self, Target};
use crate::reaped;

/// How long a tree may take to die before a command is answered without waiting for the rest. The answer is due
/// one second after the deadline.
pub const COMMAND_END: Duration = Duration::from_millis(600);
/// How long the tree of a process, a session or a terminal may take to die: that it is gone is what is told then.
pub const LASTING_END: Duration = Duration::from_secs(4);

/// A shim that waits for its order.
#[derive(Debug)]
pub struct Launched {
    pub shim: Child,
    pub socket: UnixStream,
    pub streams: Streams,
}

/// Starts a shim and hands it what its command gets.
///
/// # Errors
/// When the process or its pipes cannot be made.
pub fn launch(handed: &Handed) -> io::Result<Launched> {
    let (streams, writers) = streams::pair()?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    handover::send(&ours, handed)?;
    ours.set_nonblocking(true)?;
    let mut command = std::process::Command::new("/proc/self/exe");
    command.arg0("hotdesk").arg("exec-shim").env_clear();
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs))).stdout(writers.out).stderr(writers.err);
    let shim = tokio::process::Command::from(command).spawn()?;
    Ok(Launched { shim, socket: UnixStream::from_std(ours)?, streams })
}

/// What a shim has told of its command so far.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The command's process.
    pub command: Option<i32>,
    /// Its parent.
    pub nurse: Option<i32>,
    /// The program runs, or has run.
    pub running: bool,
    /// Why it could not be started.
    pub failed: Option<String>,
    /// How it ended.
    pub ended: Option<How>,
    /// What it wrote to its `{result}`.
    pub result: String,
}

impl Told {
    /// Takes a report in.
    pub fn hear(&mut self, report: Report) {
        match report {
            Report::Started { command, nurse } => {
                (self.command, self.nurse) = (Some(command), Some(nurse));
            }
            Report::Running => self.running = true,
            Report::Failed(why) => self.failed = Some(why),
            Report::Ended { how, result } => (self.ended, self.result) = (Some(how), result),
        }
    }
}

/// Gives the order and passes on what the shim tells, until its socket ends.
pub async fn attend(mut socket: UnixStream, order: Order, mut tell: impl FnMut(Report)) {
    let sent = match talk::encode(&order) {
        Ok(frame) => socket.write_all(&frame).await,
        Err(error) => Err(error),
    };
    drop(order);
    if sent.is_err() {
        return;
    }
    while let Ok(report) = next_report(&mut socket).await {
        tell(report);
    }
}

async fn next_report(socket: &mut UnixStream) -> io::Result<Report> {
    let mut header = [0; 4];
    socket.read_exact(&mut header).await?;
    let mut body = vec![0; talk::length(header)?];
    socket.read_exact(&mut body).await?;
    talk::decode(&body)
}

/// The id of a shim's process. One that was reaped already has no descendants; -1 is nobody's parent.
pub fn shim_pid(shim: &Child) -> i32 {
    shim.id().map_or(-1, u32::cast_signed)
}

/// Ends all that is below a shim, for at most `patience`, then the shim. A command that killed its own shim (`lost`) is looked for by its
/// session and its mark.
pub async fn end(shim: Child, lost: Option<(Option<i32>, String)>, patience: Duration) {
    let below = shim_pid(&shim);
    let target = match lost {
        None => Target::below(below),
        Some((session, marker)) => Target { below, session, marker: Some(marker) },
    };
    let left = end_tree(target, patience).await;
    release(shim, left).await;
}

/// Ends the tree; returns how many processes are left.
async fn end_tree(target: Target, patience: Duration) -> usize {
    let named = format!("{target:?}");
    let left = tokio::task::spawn_blocking(move || tree::end(&target, patience)).await;
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
    reap(&mut shim).await;
}

/// Waits for a shim that has said all.
pub async fn reap(shim: &mut Child) {
    if let Err(error) = reaped::ended(shim).await {
        tracing::warn!(%error, "could not reap a shim");
    }
}
