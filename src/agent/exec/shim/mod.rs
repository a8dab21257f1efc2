//! Supervisor processes between the agent and a command.
//!
//! ```text
//! agent -- shim (subreaper, reports) -- waiter (parent) -- command (own session)
//! ```
//!
//! The shim inherits every orphan of the command, so the agent finds all processes below it. The waiter is
//! the command's parent: a command that kills its parent kills only the waiter and becomes the shim's child.
//! When the agent ends for any reason, the shim's socket closes and the shim kills the whole tree. When the
//! command exits, the shim reports it and exits, and background processes become children of process 1; or,
//! when the request says so, it stays until none is left.

use std::fs::File;
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid};

pub(super) mod descriptors;
pub(super) mod launch;
pub(super) mod shim_protocol;

use self::shim_protocol::{CommandSpec, ProcessExit, Report};
use crate::exec::tree::{self, Target};

/// `oom_score_adj` of commands: the kernel kills them before the agent and the desktop (0 is neutral, 1000 is
/// first).
const OOM_SCORE: &str = "500";
/// How long the shim tries to kill the tree after its agent has ended.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes read of a result: the capacity of its pipe.
const MAX_RESULT: u64 = 64 * 1024;

/// Message of the waiter to the shim: the command's process id, its wait status, or the errno of a failed
/// start.
#[derive(Clone, Copy)]
enum WaiterMessage {
    Started(i32),
    Running,
    Ended(i32),
    Failed(i32),
}

impl WaiterMessage {
    const BYTES: usize = 5;

    fn encode(self) -> [u8; Self::BYTES] {
        let (tag, value) = match self {
            Self::Started(pid) => (0, pid),
            Self::Ended(status) => (1, status),
            Self::Failed(errno) => (2, errno),
            Self::Running => (3, 0),
        };
        let [a, b, c, d] = value.to_le_bytes();
        [tag, a, b, c, d]
    }

    fn decode([tag, value @ ..]: [u8; Self::BYTES]) -> Self {
        let value = i32::from_le_bytes(value);
        match tag {
            0 => Self::Started(value),
            1 => Self::Ended(value),
            3 => Self::Running,
            _ => Self::Failed(value),
        }
    }
}

/// Runs a shim. Its standard input is the socket to the agent; its standard output and standard error are
/// those of the command.
///
/// # Errors
/// When the request does not arrive or a process cannot be set up; the agent sees the socket close.
pub fn run() -> io::Result<()> {
    // Ctrl+C in the terminal of a manually started agent must not end the shim before the agent has ended the
    // command. It fails only for a process group leader, which a shim is not.
    let _session = nix::unistd::setsid();
    nix::sys::prctl::set_name(c"hotdesk-shim")?;
    nix::sys::prctl::set_child_subreaper(true)?;
    let mut agent = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    let children = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let descriptors = descriptors::receive(&agent)?;
    let mut spec: CommandSpec = shim_protocol::receive(&mut agent)?;
    let control = pass_control(&mut spec, descriptors.control)?;
    let result = pass_text(&mut spec)?;
    let (messages, messages_out) = io::pipe()?;
    // SAFETY: this process has one thread, so the child may use everything that it could use before.
    #[allow(unsafe_code)]
    let forked = unsafe { nix::unistd::fork() }?;
    let ForkResult::Parent { child: waiter } = forked else {
        drop((agent, children, messages, result));
        return self::run_waiter(spec, messages_out, descriptors.stdin);
    };
    let stay = spec.stay;
    drop((spec, messages_out, descriptors.stdin, control));
    close_output()?;
    let mut watch = CommandWatch {
        command: None,
        waiter,
        waiter_alive: true,
        children: true,
        ended: None,
        stay,
        messages,
    };
    let outcome = watch.run(&mut agent, &children, result);
    if matches!(outcome, Ok(true)) {
        return Ok(());
    }
    // The agent has ended, or the supervision failed: nobody supervises this command any more.
    let left = tree::end(&Target::below(nix::unistd::getpid().as_raw()), END_TIMEOUT);
    if left > 0 { Err(io::Error::other(format!("{left} processes are left"))) } else { outcome.map(drop) }
}

/// Puts the text into a descriptor for the program; returns the read end of the result's pipe.
fn pass_text(spec: &mut CommandSpec) -> io::Result<Option<File>> {
    let Some(text) = spec.text.take() else { return Ok(None) };
    // Not close-on-exec: the program inherits it. The shim executes nothing else.
    let mut memory = File::from(memfd_create(c"hotdesk-text", MFdFlags::empty())?);
    memory.write_all(text.as_bytes())?;
    io::Seek::rewind(&mut memory)?;
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_NONBLOCK)?;
    rustix::io::fcntl_setfd(&reader, rustix::io::FdFlags::CLOEXEC)?;
    for arg in &mut spec.args {
        *arg = arg
            .replace("{text}", &memory.as_raw_fd().to_string())
            .replace("{result}", &writer.as_raw_fd().to_string());
    }
    // Both stay open until the shim and the waiter end: the program inherits them.
    let _inherited = (std::mem::ManuallyDrop::new(memory), std::mem::ManuallyDrop::new(writer));
    Ok(Some(File::from(reader)))
}

/// Puts the number of the control socket into the arguments; the program inherits the socket.
fn pass_control(spec: &mut CommandSpec, control: Option<OwnedFd>) -> io::Result<Option<OwnedFd>> {
    if let Some(control) = &control {
        rustix::io::fcntl_setfd(control, rustix::io::FdFlags::empty())?;
        for arg in &mut spec.args {
            *arg = arg.replace("{control}", &control.as_raw_fd().to_string());
        }
    }
    Ok(control)
}

/// Closes the command's output in this process, so that the pipe ends when the command's own processes close
/// it.
fn close_output() -> io::Result<()> {
    let null = OwnedFd::from(File::options().write(true).open("/dev/null")?);
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    Ok(())
}

/// The waiter: starts the command in its own session and waits for it.
fn run_waiter(spec: CommandSpec, mut messages_out: PipeWriter, stdin: Option<OwnedFd>) -> io::Result<()> {
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE) {
        tracing::debug!(%error, "cannot set oom_score_adj");
    }
    let mut command = Command::new(&spec.program);
    command.args(&spec.args).env_clear().envs(spec.environment).current_dir(&spec.directory);
    let terminal = if spec.terminal { stdin.as_ref().map(OwnedFd::try_clone).transpose()? } else { None };
    if let Some(terminal) = &terminal {
        command.stdout(terminal.try_clone()?).stderr(terminal.try_clone()?);
    }
    command.stdin(stdin.map_or_else(Stdio::null, Stdio::from));
    // The command must not inherit the shim's signal mask.
    SigSet::empty().thread_set_mask()?;
    let reporter = messages_out.try_clone()?;
    let before_exec = move || {
        nix::unistd::setsid()?;
        if let Some(terminal) = &terminal {
            rustix::process::ioctl_tiocsctty(terminal)?;
        }
        // The command's process reports itself before it executes the program, so that the shim knows also a
        // program that kills its parent at once.
        (&reporter).write_all(&WaiterMessage::Started(nix::unistd::getpid().as_raw()).encode())
    };
    // SAFETY: setsid, ioctl, getpid and a write from the stack are async-signal-safe and allocate nothing.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(before_exec);
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return messages_out
                .write_all(&WaiterMessage::Failed(error.raw_os_error().unwrap_or(0)).encode());
        }
    };
    drop(command);
    messages_out.write_all(&WaiterMessage::Running.encode())?;
    close_output()?;
    let status = child.wait()?;
    messages_out.write_all(&WaiterMessage::Ended(status.into_raw()).encode())
}

/// The shim's view of its command.
struct CommandWatch<N> {
    command: Option<Pid>,
    waiter: Pid,
    /// The waiter still has its end of the pipe open.
    waiter_alive: bool,
    /// Some child is not reaped yet.
    children: bool,
    ended: Option<ProcessExit>,
    /// Whether to stay until no child is left.
    stay: bool,
    messages: N,
}

impl<N: Read + AsFd> CommandWatch<N> {
    /// Supervises until the command has ended and the agent was informed (true), or the agent has ended
    /// (false). With `stay`, until all other processes have ended as well.
    fn run(&mut self, agent: &mut UnixStream, children: &SignalFd, result: Option<File>) -> io::Result<bool> {
        let mut result = Some(result);
        loop {
            let mut ready = [
                PollFd::new(agent.as_fd(), PollFlags::POLLIN),
                PollFd::new(children.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.messages.as_fd(), PollFlags::POLLIN),
            ];
            // The waiter's end closes its pipe: from then on only signals and the agent count.
            let watched = if self.waiter_alive { &mut ready[..] } else { &mut ready[..2] };
            match poll(watched, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let [gone, died, noted] = ready.map(|fd| fd.any().unwrap_or(false));
            if noted && self.waiter_alive {
                self.read_note(agent)?;
            }
            if died {
                while children.read_signal()?.is_some() {}
                self.reap();
            }
            if let Some(how) = self.ended {
                if let Some(result) = result.take() {
                    shim_protocol::send(agent, &Report::Ended { how, result: read_result(result)? })?;
                }
                if !self.stay || !self.children {
                    return Ok(true);
                }
            }
            if gone {
                return Ok(false);
            }
        }
    }

    fn read_note(&mut self, agent: &mut UnixStream) -> io::Result<()> {
        let mut message = [0; WaiterMessage::BYTES];
        if self.messages.read_exact(&mut message).is_err() {
            self.waiter_alive = false;
            // Without a command the waiter was killed before it could start one.
            if self.command.is_none() {
                shim_protocol::send(agent, &Report::Failed("its parent was killed".to_owned()))?;
                return Err(io::Error::other("the waiter was killed"));
            }
            self.reap();
            // The command may have killed the waiter before its message; a repeated report does no harm.
            return shim_protocol::send(agent, &Report::Running);
        }
        match WaiterMessage::decode(message) {
            WaiterMessage::Started(pid) => {
                self.command = Some(Pid::from_raw(pid));
                shim_protocol::send(agent, &Report::Started { command: pid, waiter: self.waiter.as_raw() })
            }
            WaiterMessage::Running => shim_protocol::send(agent, &Report::Running),
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
                Err(Errno::ECHILD) => {
                    self.children = false;
                    break;
                }
                Ok(WaitStatus::StillAlive) | Err(_) => break,
                Ok(_) => {}
            }
        }
        // The waiter may have been killed after it had reaped the command and before it could report.
        let vanished = |pid: Pid| nix::sys::signal::kill(pid, None) == Err(Errno::ESRCH);
        if self.ended.is_none() && !self.waiter_alive && self.command.is_some_and(vanished) {
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

/// Reads the result's pipe without blocking.
fn read_result(pipe: Option<File>) -> io::Result<String> {
    let Some(pipe) = pipe else { return Ok(String::new()) };
    let mut bytes = Vec::new();
    match pipe.take(MAX_RESULT).read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(error) => return Err(error),
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
