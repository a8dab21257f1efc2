//! Who is process 1 of a computer? A small program that keeps an agent running and never does anything else.
//!
//! ```text
//!            dies: wait 100 ms .. 5 s
//!   Running <------------------------> Waiting
//!      | SIGTERM, SIGINT                 | SIGTERM, SIGINT
//!      v                                 v
//!   Stopping: SIGTERM to the agent (5 s), then SIGTERM and SIGKILL to all the rest, exit 0
//! ```

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

use super::exec::tree::{self, Target};
use log::BoundedLog;

/// Pieces of log copied in one round: a flood of output must not keep orphans and signals waiting.
const MOST_CHUNKS: usize = 64;
/// Pause before the first restart.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause before a restart; it is tried for ever, because a computer without an agent is of no use.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// An agent that lived this long was well: the next pause is the first again.
const WELL: Duration = Duration::from_secs(10);
/// How long the agent may take to end (its own stop takes at most 4 s).
const AGENT_GRACE: Duration = Duration::from_secs(5);
/// How long everything else may take after SIGTERM, and again after SIGKILL.
const REST_GRACE: Duration = Duration::from_secs(1);
/// Longest wait between two looks at what is due.
const TICK: Duration = Duration::from_millis(100);

/// Runs until SIGTERM or SIGINT. As process 1 it first prepares the computer's folders.
///
/// # Errors
/// Only when it cannot even begin: no signals, no pipe.
pub fn run(agent: &[OsString], log: &Path) -> Result<(), String> {
    let step = |what: &'static str| move |error: Errno| format!("{what}: {error}");
    nix::sys::prctl::set_child_subreaper(true).map_err(step("PR_SET_CHILD_SUBREAPER"))?;
    // All are blocked and none has a handler, so nothing that a guest sends ends this process by accident.
    let mask = SigSet::all();
    mask.thread_block().map_err(step("block signals"))?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let signals = SignalFd::with_flags(&mask, flags).map_err(step("signalfd"))?;
    let (reader, writer) = io::pipe().map_err(|error| format!("log pipe: {error}"))?;
    let reader = File::from(OwnedFd::from(reader));
    rustix::io::ioctl_fionbio(&reader, true).map_err(|error| format!("log pipe: {error}"))?;
    let mut log = BoundedLog::open(log);
    if nix::unistd::getpid().as_raw() == 1 {
        for complaint in prepare::prepare(Path::new("/")) {
            log.line(&complaint);
        }
    }
    let mut init =
        Init { agent, state: State::Waiting(Instant::now()), pause: FIRST_PAUSE, reader, writer, log };
    init.keep(&signals)
}

/// See the drawing above.
enum State {
    Running { pid: Pid, since: Instant },
    Waiting(Instant),
    Stopping { pid: Option<Pid>, until: Instant },
}

struct Init<'a> {
    agent: &'a [OsString],
    state: State,
    pause: Duration,
    reader: File,
    /// Kept open, so that the pipe never ends however often the agent does.
    writer: PipeWriter,
    log: BoundedLog,
}

impl Init<'_> {
    fn keep(&mut self, signals: &SignalFd) -> Result<(), String> {
        loop {
            if let State::Waiting(until) = self.state
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
            if let State::Stopping { pid, until } = self.state
                && (pid.is_none() || Instant::now() >= until)
            {
                self.end_the_rest();
                return Ok(());
            }
        }
    }

    /// Sleeps until a signal, a log line, or something is due.
    fn wait(&self, signals: &SignalFd) {
        let patience = match self.state {
            State::Running { .. } => PollTimeout::NONE,
            State::Waiting(_) | State::Stopping { .. } => {
                PollTimeout::try_from(TICK).unwrap_or(PollTimeout::ZERO)
            }
        };
        let mut ready = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.reader.as_fd(), PollFlags::POLLIN),
        ];
        // Whatever it says, the next round looks at everything.
        if let Err(error) = poll(&mut ready, patience)
            && error != Errno::EINTR
        {
            std::thread::sleep(TICK);
        }
    }

    fn start(&mut self) {
        match self.spawn() {
            Ok(pid) => self.state = State::Running { pid, since: Instant::now() },
            Err(error) => {
                self.log.line(&format!("init: the agent could not be started: {error}"));
                self.later();
            }
        }
    }

    fn spawn(&self) -> io::Result<Pid> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("hotdesk").arg("agent").args(self.agent);
        // Descriptors such as an inherited listening socket (fd:3) pass through as they are.
        command.stdin(Stdio::null()).stdout(self.writer.try_clone()?).stderr(self.writer.try_clone()?);
        // Its end is seen by `reap`, as that of every other process.
        Ok(Pid::from_raw(command.spawn()?.id().cast_signed()))
    }

    fn later(&mut self) {
        self.state = State::Waiting(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn stop(&mut self) {
        let pid = match self.state {
            State::Running { pid, .. } => Some(pid),
            State::Waiting(_) => None,
            State::Stopping { .. } => return,
        };
        if let Some(pid) = pid
            && let Err(error) = kill(pid, Signal::SIGTERM)
        {
            self.log.line(&format!("init: SIGTERM to the agent: {error}"));
        }
        self.state = State::Stopping { pid, until: Instant::now() + AGENT_GRACE };
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
                State::Running { pid, since } if *pid == ended => {
                    if since.elapsed() >= WELL {
                        self.pause = FIRST_PAUSE;
                    }
                    self.log.line(&format!("init: the agent ended: {status:?}"));
                    self.later();
                }
                State::Stopping { pid, .. } if *pid == Some(ended) => *pid = None,
                State::Running { .. } | State::Waiting(_) | State::Stopping { .. } => {}
            }
        }
    }

    /// Asks everything that is left to end, then kills it.
    fn end_the_rest(&mut self) {
        let rest = Target::below(nix::unistd::getpid().as_raw());
        tree::signal_all(&tree::alive(&rest), Signal::SIGTERM);
        let until = Instant::now() + REST_GRACE;
        while !tree::alive(&rest).is_empty() && Instant::now() < until {
            self.reap();
            self.copy_log();
            std::thread::sleep(Duration::from_millis(10));
        }
        let left = tree::end(&rest, REST_GRACE);
        self.reap();
        self.copy_log();
        if left > 0 {
            self.log.line(&format!("init: {left} processes outlived SIGKILL"));
        }
    }
}
