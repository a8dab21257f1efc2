//! Start, supervision and end of the processes of a screen.
//!
//! A thread of its own starts each process and waits for it. The kernel kills the process when the agent
//! dies, because `PR_SET_PDEATHSIG` follows that thread. The process id is not reused between the end of the
//! process and a signal, because the thread reaps it.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::sync::oneshot;

use hotdesk_base::step_error::StepError;
use hotdesk_base::tasks::Tasks;

/// Time of one sweep. A process may start another meanwhile, and a killed one takes a while to disappear;
/// each round leaves fewer.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two rounds; the kernel takes microseconds to milliseconds to end a process.
const SWEEP_PAUSE: Duration = Duration::from_millis(5);

/// Bytes of standard error per read: also the longest line that is logged as one.
const PIECE: usize = 1024;

/// A process that leads a group. The group is killed when the process ends or this value is dropped.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    /// Process id, which is also the group's id.
    pub(crate) pid: u32,
    /// Standard error, when it was piped.
    pub(crate) stderr: Option<ChildStderr>,
    ended: oneshot::Receiver<String>,
    /// Exit description, once received.
    exit: Option<String>,
    /// Whether the process is reaped, so that its id may belong to another process.
    reaped: Arc<Mutex<bool>>,
}

/// Starts a process in a new process group.
pub(crate) async fn spawn_group(what: &'static str, mut command: Command) -> Result<ProcessGroup, StepError> {
    let (started, has_started) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let reaped = Arc::<Mutex<bool>>::default();
    let is_reaped = Arc::clone(&reaped);
    command.process_group(0);
    // SAFETY: between fork and exec this makes one system call, which is async-signal-safe.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| {
            Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
        });
    }
    let thread = std::thread::Builder::new().name(format!("start {what}"));
    let spawned = thread.spawn(move || {
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                // The starter always waits for this.
                let _ = started.send(Err(error));
                return;
            }
        };
        let _ = started.send(Ok((child.id(), child.stderr.take())));
        // The receiver is gone when the group was dropped.
        let _ = end.send(format!("{what} ended ({})", wait_and_reap(&mut child, &is_reaped)));
    });
    spawned.map_err(StepError::at(format!("could not start a thread for {what}")))?;
    match has_started.await {
        Ok(Ok((pid, stderr))) => Ok(ProcessGroup { pid, stderr, ended, exit: None, reaped }),
        Ok(Err(error)) => Err(StepError::at(format!("could not start {what}"))(error)),
        Err(_) => Err(StepError::new(format!("the thread of {what} panicked"))),
    }
}

/// Waits for the end of the process, kills the remaining group, and reaps the process last.
fn wait_and_reap(child: &mut Child, reaped: &Mutex<bool>) -> String {
    let pid = child.id();
    let id = || Id::Pid(Pid::from_raw(pid.cast_signed()));
    while waitid(id(), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {}
    let mut reaped = reaped.lock().unwrap_or_else(PoisonError::into_inner);
    signal_group(pid, Signal::SIGKILL);
    *reaped = true;
    match child.wait() {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}

impl ProcessGroup {
    /// Waits until the process has ended; returns how.
    pub(crate) async fn ended(&mut self) -> String {
        if self.exit.is_none() {
            let received = (&mut self.ended).await;
            self.exit = Some(received.unwrap_or_else(|_| String::from("its thread panicked")));
        }
        self.exit.clone().unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped {
            signal_group(self.pid, signal);
        }
    }

    /// Terminates the process and kills its group after `timeout`; on return the process is gone.
    pub(crate) async fn end(mut self, timeout: Duration) {
        self.signal(Signal::SIGTERM);
        if tokio::time::timeout(timeout, self.ended()).await.is_err() {
            self.signal(Signal::SIGKILL);
            let exit = self.ended().await;
            tracing::info!(pid = self.pid, exit, "a process did not terminate in time and was killed");
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

fn signal_group(leader: u32, signal: Signal) {
    send(-i64::from(leader), signal);
}

fn send(target: i64, signal: Signal) {
    let Ok(raw) = i32::try_from(target) else { return };
    match kill(Pid::from_raw(raw), signal) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => tracing::warn!(%error, pid = raw, %signal, "could not signal a process"),
    }
}

/// Logs the standard error of a process, and stores its last line in `last_line`.
pub(crate) fn log_stderr(
    tasks: &Tasks,
    what: &'static str,
    screen: String,
    stderr: ChildStderr,
    last_line: Arc<Mutex<String>>,
) -> Result<(), StepError> {
    let stderr = tokio::process::ChildStderr::from_std(stderr);
    let mut stderr = stderr.map_err(StepError::at(format!("standard error of the {what}")))?;
    let stop = tasks.stopping();
    let _listener = tasks.spawn("standard error", async move {
        let mut piece = [0; PIECE];
        loop {
            // A process that inherited the pipe may outlive the agent.
            let read = tokio::select! {
                read = stderr.read(&mut piece) => read,
                () = stop.cancelled() => break,
            };
            let Ok(read @ 1..) = read else { break };
            let text = String::from_utf8_lossy(&piece[..read]);
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
                tracing::debug!(screen, line, "{what}");
                line.clone_into(&mut last_line.lock().unwrap_or_else(PoisonError::into_inner));
            }
        }
    });
    Ok(())
}

/// Start time of a process in clock ticks since boot. Together with the id it identifies a process.
fn start_time(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything. The 22nd field is the 20th after it.
    stat.rsplit_once(") ")?.1.split(' ').nth(19).map(str::to_owned)
}

/// Records a process id and start time, so that the next agent can kill the process if this one dies.
pub(super) fn write_pid_file(file: &Path, pid: u32) {
    let text = format!("{pid} {}", start_time(pid).unwrap_or_default());
    if let Err(error) = std::fs::write(file, text) {
        tracing::warn!(%error, file = %file.display(), "could not write a pid file; a later agent cannot end this process");
    }
}

/// Kills the recorded process of an earlier agent if it still runs, and removes the file.
pub(super) fn kill_recorded(file: &Path) {
    let Ok(text) = std::fs::read_to_string(file) else { return };
    if let Some((pid, started)) = text.trim().split_once(' ')
        && let Ok(pid) = pid.parse::<u32>()
        && start_time(pid).is_some_and(|now| now == started)
    {
        tracing::info!(pid, "killing a process of an earlier agent");
        signal_group(pid, Signal::SIGKILL);
    }
    remove_pid_file(file);
}

/// Removes a pid file.
pub(super) fn remove_pid_file(file: &Path) {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, file = %file.display(), "could not remove a pid file");
        }
        Ok(()) | Err(_) => {}
    }
}

/// Kills every process whose environment has all of `marks` (`KEY=VALUE`), also outside of the process group.
pub(super) fn sweep(marks: &[String]) {
    let until = Instant::now() + SWEEP_TIMEOUT;
    while Instant::now() < until {
        let found: Vec<u32> = marked(marks);
        if found.is_empty() {
            return;
        }
        for pid in found {
            send(pid.into(), Signal::SIGKILL);
        }
        std::thread::sleep(SWEEP_PAUSE);
    }
}

fn marked(marks: &[String]) -> Vec<u32> {
    let Ok(folder) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id() && has_marks(*pid, marks)).collect()
}

fn has_marks(pid: u32, marks: &[String]) -> bool {
    // A zombie's environment is empty. Another user's cannot be read, and is not the agent's.
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    let lines: Vec<&[u8]> = environment.split(|byte| *byte == 0).collect();
    marks.iter().all(|mark| lines.contains(&mark.as_bytes()))
}
