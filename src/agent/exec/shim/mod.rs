//! Who stands between the agent and a command? Two small processes that nobody's daemon can slip past.
//!
//! ```text
//! agent -- shim (subreaper, tells the agent) -- nurse (waits) -- command (own session)
//! ```
//!
//! The shim collects every orphan of the command, so the agent finds them all below it. The nurse is the command's
//! parent: a command that kills its parent kills only the nurse, and becomes the shim's child. When the agent goes
//! away, however it went, the shim's socket ends and the shim ends the whole tree. When the command ends by itself,
//! the shim tells and leaves, and what still runs in the background passes to process 1 and lives on; or, when the
//! order says so, it stays until nothing is left.

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

use super::handover;
use super::talk::{self, How, Order, Report};
use super::tree::{self, Target};

/// How readily the kernel's out-of-memory killer takes commands before the agent and the desktop (0 is neutral, 1000
/// is first).
const OOM_SCORE: &str = "500";
/// How long the shim tries to end the tree after its agent is gone.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The most that is read of a result: the capacity of the pipe it waits in.
const MAX_RESULT: u64 = 64 * 1024;

/// What the nurse tells the shim: the command's id, its wait status, or the error number of a failed start.
#[derive(Clone, Copy)]
enum Note {
    Started(i32),
    Running,
    Ended(i32),
    Failed(i32),
}

impl Note {
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

/// The whole life of a shim. Its standard input is the socket to the agent; standard output and standard error are
/// where the command's go.
///
/// # Errors
/// When the agent's order does not arrive or the process cannot be set up; the agent sees the socket end.
pub fn run() -> io::Result<()> {
    // A terminal's ctrl+c for an agent that was started by hand must not reach the shim before the agent has ended
    // the command. It fails only for a group leader, which nothing started here is.
    let _session = nix::unistd::setsid();
    nix::sys::prctl::set_name(c"hotdesk-shim")?;
    nix::sys::prctl::set_child_subreaper(true)?;
    let mut agent = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    let children = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let handed = handover::receive(&agent)?;
    let mut order: Order = talk::receive(&mut agent)?;
    let control = hand_control(&mut order, handed.control)?;
    let result = hand_text(&mut order)?;
    let (notes, notebook) = io::pipe()?;
    // SAFETY: this process has one thread, so the child may use everything that it could use before.
    #[allow(unsafe_code)]
    let forked = unsafe { nix::unistd::fork() }?;
    let ForkResult::Parent { child: nurse } = forked else {
        drop((agent, children, notes, result));
        return self::nurse(order, notebook, handed.stdin);
    };
    let stay = order.stay;
    drop((order, notebook, handed.stdin, control));
    close_output()?;
    let mut watch = Watch { command: None, nurse, nursed: true, children: true, ended: None, stay, notes };
    let told = watch.keep(&mut agent, &children, result);
    if matches!(told, Ok(true)) {
        return Ok(());
    }
    // The agent is gone, or something broke here: either way nobody will answer for this command.
    let left = tree::end(&Target::below(nix::unistd::getpid().as_raw()), END_TIMEOUT);
    if left > 0 { Err(io::Error::other(format!("{left} processes are left"))) } else { told.map(drop) }
}

/// Puts the order's text where the program can read it and returns the end of the result's pipe to read.
fn hand_text(order: &mut Order) -> io::Result<Option<File>> {
    let Some(text) = order.text.take() else { return Ok(None) };
    // Not close-on-exec, as they are for the program; the shim executes nothing else.
    let mut memory = File::from(memfd_create(c"hotdesk-text", MFdFlags::empty())?);
    memory.write_all(text.as_bytes())?;
    io::Seek::rewind(&mut memory)?;
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_NONBLOCK)?;
    rustix::io::fcntl_setfd(&reader, rustix::io::FdFlags::CLOEXEC)?;
    for arg in &mut order.args {
        *arg = arg
            .replace("{text}", &memory.as_raw_fd().to_string())
            .replace("{result}", &writer.as_raw_fd().to_string());
    }
    // Both stay open on purpose until the shim and the nurse end: the program inherits them.
    let _kept = (std::mem::ManuallyDrop::new(memory), std::mem::ManuallyDrop::new(writer));
    Ok(Some(File::from(reader)))
}

/// Tells the program where its control socket is; like the text it is inherited.
fn hand_control(order: &mut Order, control: Option<OwnedFd>) -> io::Result<Option<OwnedFd>> {
    if let Some(control) = &control {
        rustix::io::fcntl_setfd(control, rustix::io::FdFlags::empty())?;
        for arg in &mut order.args {
            *arg = arg.replace("{control}", &control.as_raw_fd().to_string());
        }
    }
    Ok(control)
}

/// Lets go of the command's output, so that its end shows when the last of the command's own processes lets go.
fn close_output() -> io::Result<()> {
    let null = OwnedFd::from(File::options().write(true).open("/dev/null")?);
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    Ok(())
}

/// The nurse: starts the command in a session of its own and waits for it.
fn nurse(order: Order, mut notebook: PipeWriter, stdin: Option<OwnedFd>) -> io::Result<()> {
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE) {
        tracing::debug!(%error, "oom_score_adj stays as it is");
    }
    let mut command = Command::new(&order.program);
    command.args(&order.args).env_clear().envs(order.environment).current_dir(&order.directory);
    let terminal = if order.terminal { stdin.as_ref().map(OwnedFd::try_clone).transpose()? } else { None };
    if let Some(terminal) = &terminal {
        command.stdout(terminal.try_clone()?).stderr(terminal.try_clone()?);
    }
    command.stdin(stdin.map_or_else(Stdio::null, Stdio::from));
    // The shim's own mask is not the command's.
    SigSet::empty().thread_set_mask()?;
    let teller = notebook.try_clone()?;
    let introduce = move || {
        nix::unistd::setsid()?;
        if let Some(terminal) = &terminal {
            rustix::process::ioctl_tiocsctty(terminal)?;
        }
        // Told by the command itself before its program begins, so that a program whose first act is to kill its
        // parent is known all the same.
        (&teller).write_all(&Note::Started(nix::unistd::getpid().as_raw()).encode())
    };
    // SAFETY: setsid, ioctl, getpid and a write from the stack are async-signal-safe and allocate nothing.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(introduce);
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return notebook.write_all(&Note::Failed(error.raw_os_error().unwrap_or(0)).encode());
        }
    };
    drop(command);
    notebook.write_all(&Note::Running.encode())?;
    close_output()?;
    let status = child.wait()?;
    notebook.write_all(&Note::Ended(status.into_raw()).encode())
}

/// What the shim knows of the command.
struct Watch<N> {
    command: Option<Pid>,
    nurse: Pid,
    /// The nurse still holds its end of the notes.
    nursed: bool,
    /// Something that was started here is not reaped yet.
    children: bool,
    ended: Option<How>,
    /// Whether to watch on until no children are left.
    stay: bool,
    notes: N,
}

impl<N: Read + AsFd> Watch<N> {
    /// Watches until the command has ended and the agent was told so (true), or the agent is gone. Staying, until the
    /// rest has ended as well.
    fn keep(
        &mut self,
        agent: &mut UnixStream,
        children: &SignalFd,
        result: Option<File>,
    ) -> io::Result<bool> {
        let mut result = Some(result);
        loop {
            let mut ready = [
                PollFd::new(agent.as_fd(), PollFlags::POLLIN),
                PollFd::new(children.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.notes.as_fd(), PollFlags::POLLIN),
            ];
            // The nurse's death closes its notes for good: from then on only signals and the agent count.
            let watched = if self.nursed { &mut ready[..] } else { &mut ready[..2] };
            match poll(watched, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let [gone, died, noted] = ready.map(|fd| fd.any().unwrap_or(false));
            if noted && self.nursed {
                self.read_note(agent)?;
            }
            if died {
                while children.read_signal()?.is_some() {}
                self.reap();
            }
            if let Some(how) = self.ended {
                if let Some(result) = result.take() {
                    talk::send(agent, &Report::Ended { how, result: read_result(result)? })?;
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
        let mut note = [0; Note::BYTES];
        if self.notes.read_exact(&mut note).is_err() {
            self.nursed = false;
            // Without a command the nurse died before it could start one.
            if self.command.is_none() {
                talk::send(agent, &Report::Failed("its parent was killed".to_owned()))?;
                return Err(io::Error::other("the nurse is gone"));
            }
            self.reap();
            // Killed by the command before it could say so; said twice it does no harm.
            return talk::send(agent, &Report::Running);
        }
        match Note::decode(note) {
            Note::Started(pid) => {
                self.command = Some(Pid::from_raw(pid));
                talk::send(agent, &Report::Started { command: pid, nurse: self.nurse.as_raw() })
            }
            Note::Running => talk::send(agent, &Report::Running),
            Note::Ended(raw) => {
                self.ended = Some(how(ExitStatus::from_raw(raw)));
                Ok(())
            }
            Note::Failed(errno) => {
                let error = io::Error::from_raw_os_error(errno);
                talk::send(agent, &Report::Failed(error.to_string()))?;
                Err(error)
            }
        }
    }

    /// Reaps every orphan; among them is the command itself when it has killed its nurse.
    fn reap(&mut self) {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, status)) if Some(pid) == self.command => {
                    self.ended = Some(How::Status(status));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if Some(pid) == self.command => {
                    self.ended = Some(How::Signal(signal as i32));
                }
                Err(Errno::ECHILD) => {
                    self.children = false;
                    break;
                }
                Ok(WaitStatus::StillAlive) | Err(_) => break,
                Ok(_) => {}
            }
        }
        // Between the nurse's reaping the command and its telling so, it may have been killed.
        let vanished = |pid: Pid| nix::sys::signal::kill(pid, None) == Err(Errno::ESRCH);
        if self.ended.is_none() && !self.nursed && self.command.is_some_and(vanished) {
            self.ended = Some(How::Signal(Signal::SIGKILL as i32));
        }
    }
}

fn how(status: ExitStatus) -> How {
    match (status.code(), status.signal()) {
        (Some(code), _) => How::Status(code),
        (None, Some(signal)) => How::Signal(signal),
        (None, None) => How::Signal(Signal::SIGKILL as i32),
    }
}

/// What waits in the result's pipe, without waiting for more.
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
