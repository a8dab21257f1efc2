//! Supervisor processes between the agent and a command.
//!
//! ```text
//! agent -- shim (subreaper, reports) -- waiter (parent) -- command (own session)
//! ```
//!
//! The shim inherits every orphan of the command, so the agent finds all processes below it. The waiter is
//! the command's parent: a command that kills its parent kills only the waiter and becomes the shim's child.
//! When the agent ends for any reason, the shim's socket closes and the shim kills the whole tree.
//!
//! ```text
//! fork waiter and command --request--> command runs --exit--> Ended is reported
//!        ^                                                    | no process is left
//!        +----------------------------------------------------+ some are left: exit, or with `stay`: wait
//! ```
//! Waiter and command process are made before the request comes. The request goes directly to the command
//! process, which executes the program: shim and waiter never hold anything of a command. When a command
//! leaves processes behind, the shim exits, and they become children of process 1; or, when the request says
//! so, the shim stays until none is left.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid};

pub(super) mod descriptors;
pub(super) mod launch;
pub(super) mod shim_protocol;
pub(super) mod stock;
mod waiter;

use self::shim_protocol::{ProcessExit, Report};
use self::waiter::WaiterMessage;
use crate::exec::tree::{self, Target};

/// Name of the process, as of a thread: `/proc/PID/comm` (proc_pid_comm(5)).
pub const PROCESS_NAME: &CStr = c"hotdesk-shim";
/// How long the shim tries to kill the tree after its agent has ended.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs a shim. Its standard input is the socket for reports to the agent, its standard output the socket of
/// the requests.
///
/// # Errors
/// When a process cannot be set up or killed; the agent sees the sockets close.
pub fn run() -> io::Result<()> {
    // Ctrl+C in the terminal of a manually started agent must not end the shim before the agent has ended the
    // command. It fails only for a process group leader, which a shim is not.
    let _session = nix::unistd::setsid();
    nix::sys::prctl::set_name(PROCESS_NAME)?;
    nix::sys::prctl::set_child_subreaper(true)?;
    let mut agent = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let requests = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
    nix::unistd::dup2_stdout(OwnedFd::from(File::options().write(true).open("/dev/null")?))?;
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    let children = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    loop {
        let (messages, messages_out) = io::pipe()?;
        let (executed, unexecuted) = io::pipe()?;
        // SAFETY: this process has one thread, so the child may use everything that it could use before.
        #[allow(unsafe_code)]
        let forked = unsafe { nix::unistd::fork() }?;
        let ForkResult::Parent { child: waiter } = forked else {
            drop((agent, children, messages, executed));
            return waiter::run(requests, messages_out, unexecuted);
        };
        drop((messages_out, unexecuted));
        let mut watch = CommandWatch::new(waiter, messages, executed);
        let outcome = watch.run(&mut agent, &children);
        match &outcome {
            // Nothing of the command is left: the next one may use this shim.
            Ok(RoundEnd::Clean) => {}
            Ok(RoundEnd::ProcessesLeft) => return Ok(()),
            // The agent has ended, or the supervision failed: nobody supervises this command any more.
            Ok(RoundEnd::AgentGone) | Err(_) => {
                let left = tree::end(&Target::below(nix::unistd::getpid().as_raw()), END_TIMEOUT);
                if left > 0 {
                    return Err(io::Error::other(format!("{left} processes are left")));
                }
                return outcome.map(|_| ());
            }
        }
    }
}

/// How the supervision of one command ended.
#[derive(Clone, Copy)]
enum RoundEnd {
    /// The command was reported, and no process of it is left.
    Clean,
    /// The command was reported; processes that it started run on, or it killed its waiter.
    ProcessesLeft,
    /// The agent has closed its socket.
    AgentGone,
}

/// The shim's view of its command.
struct CommandWatch {
    command: Option<Pid>,
    waiter: Pid,
    /// The shim has reaped the waiter.
    waiter_reaped: bool,
    /// Some child is not reaped yet.
    children: bool,
    /// The command process has its request.
    received: bool,
    ended: Option<ProcessExit>,
    /// `ended` was sent to the agent.
    reported: bool,
    /// Whether to stay until no child is left.
    stay: bool,
    /// Messages of the waiter and the command process; ends with both.
    messages: Option<PipeReader>,
    /// Ends when the command process executes its program, or exits.
    executed: Option<PipeReader>,
}

/// What a wait has found.
#[derive(Default)]
struct ReadySources {
    agent_gone: bool,
    child_died: bool,
    message: bool,
    executed: bool,
}

impl CommandWatch {
    fn new(waiter: Pid, messages: PipeReader, executed: PipeReader) -> Self {
        Self {
            command: None,
            waiter,
            waiter_reaped: false,
            children: true,
            received: false,
            ended: None,
            reported: false,
            stay: false,
            messages: Some(messages),
            executed: Some(executed),
        }
    }

    /// Supervises one command until it has ended and the agent was informed, or the agent has ended. With
    /// `stay`, until all its processes have ended as well.
    fn run(&mut self, agent: &mut UnixStream, children: &SignalFd) -> io::Result<RoundEnd> {
        loop {
            let ready = self.wait(agent, children)?;
            if ready.message {
                self.read_note(agent)?;
                if self.ended.is_none() {
                    // Signals count only after everything that was written before them.
                    continue;
                }
            }
            if ready.executed {
                self.executed = None;
                if self.received && self.ended.is_none() {
                    shim_protocol::send(agent, &Report::Running)?;
                }
            }
            if ready.child_died {
                while children.read_signal()?.is_some() {}
                self.reap();
            }
            if let Some(how) = self.ended {
                self.report_end(agent, how)?;
                if !self.children {
                    // With `stay` the agent waits for the shim's exit.
                    return Ok(if self.stay { RoundEnd::ProcessesLeft } else { RoundEnd::Clean });
                }
                if self.waiter_reaped && !self.stay {
                    return Ok(RoundEnd::ProcessesLeft);
                }
            }
            if ready.agent_gone {
                return Ok(RoundEnd::AgentGone);
            }
        }
    }

    /// Waits until there is something to do.
    fn wait(&self, agent: &UnixStream, children: &SignalFd) -> io::Result<ReadySources> {
        let watch = |source| PollFd::new(source, PollFlags::POLLIN);
        let mut sources = vec![watch(children.as_fd())];
        let mut add = |source: Option<_>| {
            source.map(|source| {
                sources.push(watch(source));
                sources.len() - 1
            })
        };
        let message = add(self.messages.as_ref().map(AsFd::as_fd));
        let executed = add(self.executed.as_ref().map(AsFd::as_fd));
        // Processes that a reported command left behind do not end with the agent.
        let agent = add((self.stay || !self.reported).then(|| agent.as_fd()));
        match poll(&mut sources, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |index: Option<usize>| index.is_some_and(|at| sources[at].any().unwrap_or(false));
        Ok(ReadySources {
            agent_gone: is_ready(agent),
            child_died: is_ready(Some(0)),
            message: is_ready(message),
            executed: is_ready(executed),
        })
    }

    /// Reports the end of the command, once.
    fn report_end(&mut self, agent: &mut UnixStream, how: ProcessExit) -> io::Result<()> {
        if !self.received {
            let why = "its process was killed before it began";
            shim_protocol::send(agent, &Report::Failed(why.to_owned()))?;
            return Err(io::Error::other(why));
        }
        if !self.reported {
            shim_protocol::send(agent, &Report::Ended { how })?;
            self.reported = true;
        }
        Ok(())
    }

    fn read_note(&mut self, agent: &mut UnixStream) -> io::Result<()> {
        let mut message = [0; WaiterMessage::BYTES];
        let Some(messages) = &mut self.messages else { return Ok(()) };
        if messages.read_exact(&mut message).is_err() {
            self.messages = None;
            self.reap();
            return Ok(());
        }
        match WaiterMessage::decode(message) {
            WaiterMessage::Started(pid) => {
                self.command = Some(Pid::from_raw(pid));
                shim_protocol::send(agent, &Report::Started { command: pid, waiter: self.waiter.as_raw() })
            }
            WaiterMessage::Received { stay } => {
                (self.received, self.stay) = (true, stay);
                Ok(())
            }
            WaiterMessage::Ended(raw) => {
                self.ended = Some(how(ExitStatus::from_raw(raw)));
                Ok(())
            }
            WaiterMessage::Failed(errno) => {
                let error = io::Error::from_raw_os_error(errno);
                shim_protocol::send(agent, &Report::Failed(error.to_string()))?;
                Err(error)
            }
        }
    }

    /// Reaps all ended children; the command is among them when it has killed its waiter.
    fn reap(&mut self) {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, status)) if Some(pid) == self.command => {
                    self.ended = Some(ProcessExit::Status(status));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if Some(pid) == self.command => {
                    self.ended = Some(ProcessExit::Signal(signal as i32));
                }
                Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) if pid == self.waiter => {
                    self.waiter_reaped = true;
                }
                Err(Errno::ECHILD) => {
                    self.children = false;
                    break;
                }
                Ok(WaitStatus::StillAlive) | Err(_) => break,
                Ok(_) => {}
            }
        }
        // The waiter may have been killed before the command began, or after it had reaped the command and
        // before it could report.
        let vanished = |pid: Pid| nix::sys::signal::kill(pid, None) == Err(Errno::ESRCH);
        if self.ended.is_none()
            && self.waiter_reaped
            && (!self.received || self.messages.is_none() && self.command.is_none_or(vanished))
        {
            self.ended = Some(ProcessExit::Signal(Signal::SIGKILL as i32));
        }
    }
}

fn how(status: ExitStatus) -> ProcessExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProcessExit::Status(code),
        (None, Some(signal)) => ProcessExit::Signal(signal),
        (None, None) => ProcessExit::Signal(Signal::SIGKILL as i32),
    }
}
