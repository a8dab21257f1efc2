//! How are a screen's processes started, found and ended?
//!
//! Each is started by a thread of its own that waits for it: the kernel then kills it should this program die
//! (`PR_SET_PDEATHSIG` follows the thread), and its id cannot pass to a stranger between its end and a signal.

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

use hotdesk_base::tasks::Tasks;

/// How long one sweep goes on: a process may start another while it is being ended, and one that was killed may take a while to
/// be gone; each round leaves fewer.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two rounds; death takes the kernel microseconds to milliseconds.
const SWEEP_PAUSE: Duration = Duration::from_millis(5);

/// Bytes of standard error that are looked at together: also the longest line that is logged as one.
const PIECE: usize = 1024;

/// A process that leads a group. When it ends, or this value goes, the rest of its group is killed.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Its id, and its group's.
    pub(crate) pid: u32,
    /// What it writes to standard error, when that was piped.
    pub(crate) stderr: Option<ChildStderr>,
    ended: oneshot::Receiver<String>,
    /// How it ended, once that was heard.
    how: Option<String>,
    /// True once the id may be anybody's.
    over: Arc<Mutex<bool>>,
}

/// Starts a process at the head of a group of its own.
pub(crate) async fn keep(what: &'static str, mut command: Command) -> Result<Kept, String> {
    let (started, has_started) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let over = Arc::<Mutex<bool>>::default();
    let is_over = Arc::clone(&over);
    command.process_group(0);
    // SAFETY: between fork and exec only the one system call is made, which is async-signal-safe.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| {
            Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
        });
    }
    let thread = std::thread::Builder::new().name(format!("keep {what}"));
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
        // Nobody may care any more.
        let _ = end.send(format!("{what} ended ({})", wait_out(&mut child, &is_over)));
    });
    spawned.map_err(|error| format!("could not start a thread for {what}: {error}"))?;
    match has_started.await {
        Ok(Ok((pid, stderr))) => Ok(Kept { pid, stderr, ended, how: None, over }),
        Ok(Err(error)) => Err(format!("could not start {what}: {error}")),
        Err(_) => Err(format!("the thread of {what} panicked")),
    }
}

/// Waits for the end, kills what is left of the group, and only then lets the id go.
fn wait_out(child: &mut Child, over: &Mutex<bool>) -> String {
    let pid = child.id();
    let id = || Id::Pid(Pid::from_raw(pid.cast_signed()));
    while waitid(id(), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {}
    let mut over = over.lock().unwrap_or_else(PoisonError::into_inner);
    signal_group(pid, Signal::SIGKILL);
    *over = true;
    match child.wait() {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}

impl Kept {
    /// Waits until it has ended; the text says how.
    pub(crate) async fn ended(&mut self) -> String {
        if self.how.is_none() {
            let heard = (&mut self.ended).await;
            self.how = Some(heard.unwrap_or_else(|_| String::from("its thread panicked")));
        }
        self.how.clone().unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        if !*over {
            signal_group(self.pid, signal);
        }
    }

    /// Asks it to end and kills its group after `patience`; on return it is gone.
    pub(crate) async fn end(mut self, patience: Duration) {
        self.signal(Signal::SIGTERM);
        if tokio::time::timeout(patience, self.ended()).await.is_err() {
            self.signal(Signal::SIGKILL);
            let how = self.ended().await;
            tracing::info!(pid = self.pid, how, "did not end when asked, was killed");
        }
    }
}

impl Drop for Kept {
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
        Err(error) => tracing::warn!(%error, pid = raw, %signal, "could not signal"),
    }
}

/// Logs what a process says on standard error, and keeps its last words for when it ends.
pub(crate) fn listen(
    tasks: &Tasks,
    what: &'static str,
    screen: String,
    stderr: ChildStderr,
    last_words: Arc<Mutex<String>>,
) -> Result<(), String> {
    let stderr = tokio::process::ChildStderr::from_std(stderr);
    let mut stderr = stderr.map_err(|error| format!("standard error of the {what}: {error}"))?;
    let stop = tasks.stopping();
    let _listener = tasks.spawn("standard error", async move {
        let mut piece = [0; PIECE];
        loop {
            // Whatever inherited the pipe may outlive this program.
            let read = tokio::select! {
                read = stderr.read(&mut piece) => read,
                () = stop.cancelled() => break,
            };
            let Ok(read @ 1..) = read else { break };
            let text = String::from_utf8_lossy(&piece[..read]);
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
                tracing::debug!(screen, line, "{what}");
                line.clone_into(&mut last_words.lock().unwrap_or_else(PoisonError::into_inner));
            }
        }
    });
    Ok(())
}

/// When a process started, in clock ticks since boot: with its id it names one process for ever.
fn start_time(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Fields after the name, which is in parentheses and may hold anything; the 22nd field is the 20th after it.
    stat.rsplit_once(") ")?.1.split(' ').nth(19).map(str::to_owned)
}

/// Notes a process, so that the next agent can end it should this one die.
pub(super) fn note(file: &Path, pid: u32) {
    let text = format!("{pid} {}", start_time(pid).unwrap_or_default());
    if let Err(error) = std::fs::write(file, text) {
        tracing::warn!(%error, file = %file.display(), "could not note a process");
    }
}

/// Ends the process of a note that an earlier agent left, if it still is that process.
pub(super) fn end_noted(file: &Path) {
    let Ok(text) = std::fs::read_to_string(file) else { return };
    if let Some((pid, started)) = text.trim().split_once(' ')
        && let Ok(pid) = pid.parse::<u32>()
        && start_time(pid).is_some_and(|now| now == started)
    {
        tracing::info!(pid, "ending what an earlier agent left running");
        signal_group(pid, Signal::SIGKILL);
    }
    forget(file);
}

/// Removes a note.
pub(super) fn forget(file: &Path) {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, file = %file.display(), "could not remove a note");
        }
        Ok(()) | Err(_) => {}
    }
}

/// Kills every process whose environment holds all of `marks` (`KEY=VALUE`): also those that left their group.
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
    // A zombie's environment is empty; another user's cannot be read, and is not ours.
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    let lines: Vec<&[u8]> = environment.split(|byte| *byte == 0).collect();
    marks.iter().all(|mark| lines.contains(&mark.as_bytes()))
}
