//! Start, supervision and end of a command's shim, on the agent's side.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
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

/// A shim and its sockets. It takes one request at a time.
#[derive(Debug)]
pub struct Shim {
    /// Its process.
    pub process: Child,
    /// Its sockets.
    pub sockets: ShimSockets,
}

/// Sockets of a shim. Their end is the end of all processes of the command that runs.
#[derive(Debug)]
pub struct ShimSockets {
    requests: UnixStream,
    reports: UnixStream,
    /// The report that a command process waits, if it was read already.
    started: Option<Report>,
}

impl Shim {
    /// Starts a shim.
    ///
    /// # Errors
    /// When the process or its sockets cannot be created.
    pub fn launch() -> io::Result<Self> {
        let pair = || -> io::Result<(UnixStream, Stdio)> {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            Ok((UnixStream::from_std(ours)?, Stdio::from(OwnedFd::from(theirs))))
        };
        let ((reports, reports_in), (requests, requests_out)) = (pair()?, pair()?);
        let mut command = std::process::Command::new("/proc/self/exe");
        command.arg0("hotdesk").arg("exec-shim").env_clear();
        command.stdin(reports_in).stdout(requests_out).stderr(Stdio::null());
        let process = tokio::process::Command::from(command).spawn()?;
        Ok(Self { process, sockets: ShimSockets { requests, reports, started: None } })
    }

    /// Sends the descriptors of a command. Returns the pipes of its output.
    ///
    /// # Errors
    /// When the shim has ended or the pipes cannot be created.
    pub fn pass(&self, descriptors: &CommandDescriptors) -> io::Result<OutputPipes> {
        let (streams, writers) = streams::pair()?;
        descriptors::send(&self.sockets.requests, &writers, descriptors)?;
        Ok(streams)
    }

    /// Waits until a command process is ready for a request; false when the shim has ended instead.
    /// Cancel-safe only in that the shim cannot be used after a cancelled wait.
    pub async fn ready(&mut self) -> bool {
        if self.sockets.started.is_none() {
            self.sockets.started = next_report(&mut self.sockets.reports).await.ok();
        }
        matches!(self.sockets.started, Some(Report::Started { .. }))
    }

    /// Whether a shim that was ready is still ready: it has said nothing since.
    pub fn is_still_ready(&self) -> bool {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        recv(self.sockets.reports.as_raw_fd(), &mut [0], flags) == Err(Errno::EAGAIN)
    }

    /// Process id of the shim. A reaped shim has no descendants; no process has the parent -1.
    pub fn pid(&self) -> i32 {
        self.process.id().map_or(-1, u32::cast_signed)
    }
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
            Report::Ended { how } => self.ended = Some(how),
        }
    }
}

/// Sends the request and passes on the shim's reports, until the command has ended; with
/// [`CommandSpec::stay`] until the shim has ended, and with it all processes of the command.
pub async fn attend(sockets: &mut ShimSockets, spec: CommandSpec, mut on_report: impl FnMut(Report)) {
    let sent = match shim_protocol::encode(&spec) {
        Ok(frame) => sockets.requests.write_all(&frame).await,
        Err(error) => Err(error),
    };
    let stay = spec.stay;
    drop(spec);
    if let Err(error) = sent {
        // The shim's reports say more.
        tracing::debug!(%error, "cannot send a command to its shim");
    }
    if let Some(started) = sockets.started.take() {
        on_report(started);
    }
    while let Ok(report) = next_report(&mut sockets.reports).await {
        let over = matches!(report, Report::Ended { .. } | Report::Failed(_)) && !stay;
        on_report(report);
        if over {
            return;
        }
    }
}

async fn next_report(socket: &mut UnixStream) -> io::Result<Report> {
    let mut header = [0; 4];
    socket.read_exact(&mut header).await?;
    let mut body = vec![0; shim_protocol::length(header)?];
    socket.read_exact(&mut body).await?;
    shim_protocol::decode(&body)
}

/// Kills all processes below a shim, for at most `timeout`, then the shim. `lost` identifies the processes of
/// a command that killed its own shim: its session and its marker.
pub async fn end(shim: Shim, lost: Option<(Option<i32>, String)>, timeout: Duration) {
    let below = shim.pid();
    let Shim { process, sockets } = shim;
    // The shim kills its processes, too.
    drop(sockets);
    let target = match lost {
        None => Target::below(below),
        Some((session, marker)) => Target { below, session, marker: Some(marker) },
    };
    let left = end_tree(target, timeout).await;
    release(process, left).await;
}

/// Kills the tree; returns how many processes are left.
async fn end_tree(target: Target, timeout: Duration) -> usize {
    let named = format!("{target:?}");
    let left = hotdesk_base::tasks::spawn_blocking(move || tree::end(&target, timeout)).await;
    left.unwrap_or_else(|error| {
        tracing::error!(%error, target = named, "the task that kills a command's processes failed");
        1
    })
}

/// Kills the shim when its tree is gone. With processes left it stays as their ancestor and goes on killing
/// them, because its socket is closed.
async fn release(mut process: Child, left: usize) {
    if left > 0 {
        tracing::warn!(
            left,
            "some processes of a command have not ended yet; their shim goes on killing them"
        );
        return;
    }
    if let Err(error) = process.start_kill() {
        tracing::debug!(%error, "the shim has already ended");
    }
    reap(process).await;
}

/// Waits for a shim that exits by itself.
pub async fn reap(mut process: Child) {
    if let Err(error) = child_exit::wait(&mut process).await {
        tracing::warn!(%error, "cannot reap a shim");
    }
}

/// Ends a shim whose command has ended or that never had one. Processes that a command left run on.
pub async fn retire(Shim { process, sockets }: Shim) {
    drop(sockets);
    reap(process).await;
}
