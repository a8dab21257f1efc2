//! Start, supervision and end of a command's shim, on the agent's side.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::Child;

use crate::exec::child_exit;
use crate::exec::output::streams::{self, OutputPipes};
use crate::exec::shim::descriptors::{self, CommandDescriptors};
use crate::exec::shim::shim_protocol::{self, CommandSpec, ProcessExit, Report};
use crate::exec::tree::{self, Target};

/// How long the processes of a command may take to die before the answer is sent without waiting for the
/// rest. The answer is due one second after the timeout.
pub const COMMAND_END: Duration = Duration::from_millis(600);
/// How long the processes of a background process, a session or a terminal may take to die: their end is what
/// is reported.
pub const LASTING_END: Duration = Duration::from_secs(4);

/// A started shim that waits for its request.
#[derive(Debug)]
pub struct RunningShim {
    pub shim: Child,
    pub socket: UnixStream,
    pub streams: OutputPipes,
}

/// Starts a shim and sends it the descriptors of its command.
///
/// # Errors
/// When the process or its pipes cannot be created.
pub fn launch(descriptors: &CommandDescriptors) -> io::Result<RunningShim> {
    let (streams, writers) = streams::pair()?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    descriptors::send(&ours, descriptors)?;
    ours.set_nonblocking(true)?;
    let mut command = std::process::Command::new("/proc/self/exe");
    command.arg0("hotdesk").arg("exec-shim").env_clear();
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs))).stdout(writers.out).stderr(writers.err);
    let shim = tokio::process::Command::from(command).spawn()?;
    Ok(RunningShim { shim, socket: UnixStream::from_std(ours)?, streams })
}

/// State of a command as reported by its shim so far.
#[derive(Clone, Debug, Default)]
pub struct ShimState {
    /// Process id of the command.
    pub command: Option<i32>,
    /// Process id of its parent.
    pub waiter: Option<i32>,
    /// Whether the program runs or has run.
    pub running: bool,
    /// Why it could not be started.
    pub failed: Option<String>,
    /// How it ended.
    pub ended: Option<ProcessExit>,
    /// Text that it wrote to its `{result}`.
    pub result: String,
}

impl ShimState {
    /// Applies a report.
    pub fn apply(&mut self, report: Report) {
        match report {
            Report::Started { command, waiter } => {
                (self.command, self.waiter) = (Some(command), Some(waiter));
            }
            Report::Running => self.running = true,
            Report::Failed(why) => self.failed = Some(why),
            Report::Ended { how, result } => (self.ended, self.result) = (Some(how), result),
        }
    }
}

/// Sends the request and passes on the shim's reports, until its socket closes.
pub async fn attend(mut socket: UnixStream, spec: CommandSpec, mut on_report: impl FnMut(Report)) {
    let sent = match shim_protocol::encode(&spec) {
        Ok(frame) => socket.write_all(&frame).await,
        Err(error) => Err(error),
    };
    drop(spec);
    if sent.is_err() {
        return;
    }
    while let Ok(report) = next_report(&mut socket).await {
        on_report(report);
    }
}

async fn next_report(socket: &mut UnixStream) -> io::Result<Report> {
    let mut header = [0; 4];
    socket.read_exact(&mut header).await?;
    let mut body = vec![0; shim_protocol::length(header)?];
    socket.read_exact(&mut body).await?;
    shim_protocol::decode(&body)
}

/// Process id of a shim. A reaped shim has no descendants; no process has the parent -1.
pub fn shim_pid(shim: &Child) -> i32 {
    shim.id().map_or(-1, u32::cast_signed)
}

/// Kills all processes below a shim, for at most `timeout`, then the shim. `lost` identifies the processes of
/// a command that killed its own shim: its session and its marker.
pub async fn end(shim: Child, lost: Option<(Option<i32>, String)>, timeout: Duration) {
    let below = shim_pid(&shim);
    let target = match lost {
        None => Target::below(below),
        Some((session, marker)) => Target { below, session, marker: Some(marker) },
    };
    let left = end_tree(target, timeout).await;
    release(shim, left).await;
}

/// Kills the tree; returns how many processes are left.
async fn end_tree(target: Target, timeout: Duration) -> usize {
    let named = format!("{target:?}");
    let left = tokio::task::spawn_blocking(move || tree::end(&target, timeout)).await;
    left.unwrap_or_else(|error| {
        tracing::error!(%error, target = named, "the task that kills a command's processes failed");
        1
    })
}

/// Kills the shim when its tree is gone. With processes left it stays as their ancestor and goes on killing
/// them, because its socket is closed.
async fn release(mut shim: Child, left: usize) {
    if left > 0 {
        tracing::warn!(
            left,
            "some processes of a command have not ended yet; their shim goes on killing them"
        );
        return;
    }
    if let Err(error) = shim.start_kill() {
        tracing::debug!(%error, "the shim has already ended");
    }
    reap(&mut shim).await;
}

/// Waits for a shim that exits by itself.
pub async fn reap(shim: &mut Child) {
    if let Err(error) = child_exit::wait(shim).await {
        tracing::warn!(%error, "cannot reap a shim");
    }
}
