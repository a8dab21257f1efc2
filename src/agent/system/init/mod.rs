//! Process 1 of a computer: starts the agent and restarts it when it exits.
//!
//! ```text
//!            dies: wait 100 ms .. 5 s
//!   Running <------------------------> Waiting
//!      | SIGTERM, SIGINT                 | SIGTERM, SIGINT
//!      v                                 v
//!   Stopping: SIGTERM to the agent (5 s), then SIGTERM and SIGKILL to all other processes, exit 0
//! ```

mod close_range;
mod log;
pub(super) mod prepare;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeWriter, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::exec::tree::{self, Target};
use hotdesk_base::step_error::StepError;
use log::BoundedLog;

/// Log chunks copied per loop, so that a flood of output delays neither reaping nor signals.
const MOST_CHUNKS: usize = 64;
/// Delay before the first restart.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest delay before a restart. Restarts never stop, because a computer without an agent is useless.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Lifetime after which the restart delay starts again at [`FIRST_PAUSE`].
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// How long the agent may take to exit after SIGTERM (its own stop takes at most 4 s).
const AGENT_GRACE: Duration = Duration::from_secs(5);
/// How long all other processes may take to exit after SIGTERM, and again after SIGKILL.
const PROCESS_GRACE: Duration = Duration::from_secs(1);
/// Poll interval while a restart or the stop is due.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs until SIGTERM or SIGINT. With process id 1 it first creates the computer's folders.
///
/// # Errors
/// When signals or the log pipe cannot be set up.
pub fn run(agent: &[OsString], log: &Path) -> Result<(), StepError> {
    nix::sys::prctl::set_child_subreaper(true).map_err(StepError::at("PR_SET_CHILD_SUBREAPER"))?;
    // Signals are blocked and read from a descriptor, so no signal from the guest ends this process.
    let mask = SigSet::all();
    mask.thread_block().map_err(StepError::at("block signals"))?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let signals = SignalFd::with_flags(&mask, flags).map_err(StepError::at("signalfd"))?;
    let (reader, writer) = io::pipe().map_err(StepError::at("log pipe"))?;
    let reader = File::from(OwnedFd::from(reader));
    rustix::io::ioctl_fionbio(&reader, true).map_err(StepError::at("log pipe"))?;
    let mut log = BoundedLog::open(log);
    if nix::unistd::getpid().as_raw() == 1 {
        for complaint in prepare::prepare(Path::new("/")) {
            log.line(&complaint);
        }
        if let Err(error) = close_range::refuse_large_ranges() {
            log.line(&format!("init: programs that use GLib will not start others: {error:#}"));
        }
    }
    let mut init =
        Init { agent, state: InitState::Waiting(Instant::now()), pause: FIRST_PAUSE, reader, writer, log };
    init.supervise(&signals);
    Ok(())
}

/// States of the drawing above.
enum InitState {
    Running { pid: Pid, since: Instant },
    Waiting(Instant),
    Stopping { pid: Option<Pid>, until: Instant },
}

struct Init<'a> {
    agent: &'a [OsString],
    state: InitState,
    pause: Duration,
    reader: File,
    /// Held open so that the pipe does not end when the agent exits.
    writer: PipeWriter,
    log: BoundedLog,
}

impl Init<'_> {
    fn supervise(&mut self, signals: &SignalFd) {
        loop {
            if let InitState::Waiting(until) = self.state
                && Instant::now() >= until
            {
                self.start();
            }
            self.wait(signals);
            while let Ok(Some(signal)) = signals.read_signal() {
                let number = signal.ssi_signo.cast_signed();
                if number == Signal::SIGTERM as i32 || number == Signal::SIGINT as i32 {
                    self.stop();
                }
            }
            self.copy_log();
            self.reap();
            if let InitState::Stopping { pid, until } = self.state
                && (pid.is_none() || Instant::now() >= until)
            {
                return self.end_remaining_processes();
            }
        }
    }

    /// Waits for a signal, a log line or a deadline.
    fn wait(&self, signals: &SignalFd) {
        let timeout = match self.state {
            InitState::Running { .. } => PollTimeout::NONE,
            InitState::Waiting(_) | InitState::Stopping { .. } => {
                PollTimeout::try_from(POLL_INTERVAL).unwrap_or(PollTimeout::ZERO)
            }
        };
        let mut ready = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.reader.as_fd(), PollFlags::POLLIN),
        ];
        // The result is ignored: the caller checks every source.
        if let Err(error) = poll(&mut ready, timeout)
            && error != Errno::EINTR
        {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn start(&mut self) {
        match self.spawn() {
            Ok(pid) => self.state = InitState::Running { pid, since: Instant::now() },
            Err(error) => {
                self.log.line(&format!("init: cannot start the agent: {error}; retrying"));
                self.schedule_restart();
            }
        }
    }

    fn spawn(&self) -> io::Result<Pid> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("hotdesk").arg("agent").args(self.agent);
        // Descriptors such as an inherited listening socket (fd:3) pass through as they are.
        command.stdin(Stdio::null()).stdout(self.writer.try_clone()?).stderr(self.writer.try_clone()?);
        // `reap` collects its exit status.
        Ok(Pid::from_raw(command.spawn()?.id().cast_signed()))
    }

    fn schedule_restart(&mut self) {
        self.state = InitState::Waiting(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn stop(&mut self) {
        let pid = match self.state {
            InitState::Running { pid, .. } => Some(pid),
            InitState::Waiting(_) => None,
            InitState::Stopping { .. } => return,
        };
        if let Some(pid) = pid
            && let Err(error) = kill(pid, Signal::SIGTERM)
        {
            self.log.line(&format!("init: SIGTERM to the agent: {error}"));
        }
        self.state = InitState::Stopping { pid, until: Instant::now() + AGENT_GRACE };
    }

    fn copy_log(&mut self) {
        let mut chunk = [0; 16 * 1024];
        for _ in 0..MOST_CHUNKS {
            let Ok(length @ 1..) = self.reader.read(&mut chunk) else { return };
            self.log.write(&chunk[..length]);
        }
    }

    fn reap(&mut self) {
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            let Some(ended) = status.pid().filter(|_| status != WaitStatus::StillAlive) else { return };
            match &mut self.state {
                InitState::Running { pid, since } if *pid == ended => {
                    if since.elapsed() >= STABLE_AFTER {
                        self.pause = FIRST_PAUSE;
                    }
                    self.log.line(&format!("init: the agent ended: {status:?}"));
                    self.schedule_restart();
                }
                InitState::Stopping { pid, .. } if *pid == Some(ended) => *pid = None,
                InitState::Running { .. } | InitState::Waiting(_) | InitState::Stopping { .. } => {}
            }
        }
    }

    /// Sends SIGTERM to all remaining processes, then SIGKILL.
    fn end_remaining_processes(&mut self) {
        let remaining = Target::below(nix::unistd::getpid().as_raw());
        tree::signal_all(&tree::alive(&remaining), Signal::SIGTERM);
        let until = Instant::now() + PROCESS_GRACE;
        while !tree::alive(&remaining).is_empty() && Instant::now() < until {
            self.reap();
            self.copy_log();
            std::thread::sleep(Duration::from_millis(10));
        }
        let left = tree::end(&remaining, PROCESS_GRACE);
        self.reap();
        self.copy_log();
        if left > 0 {
            self.log.line(&format!("init: {left} processes still run after SIGKILL"));
        }
    }
}
