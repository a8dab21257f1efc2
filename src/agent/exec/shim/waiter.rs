//! Parent of a command: makes the command's process, which waits for its request, and reports its end.

use std::io::{self, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::signal::SigSet;
use nix::unistd::{ForkResult, Pid};
use rustix::io::FdFlags;
use rustix::process::WaitOptions;

use super::descriptors::{self, CommandDescriptors};
use super::shim_protocol::{self, CommandSpec};
use crate::exec::output::streams::PipeWriters;

/// `oom_score_adj` of commands: the kernel kills them before the agent and the desktop (0 is neutral, 1000 is
/// first).
const OOM_SCORE: &str = "500";

/// Message of the waiter or the command process to the shim.
#[derive(Clone, Copy)]
pub(super) enum WaiterMessage {
    /// The command process exists and waits for its request: its process id.
    Started(i32),
    /// It has its request and is about to execute the program.
    Received {
        /// [`CommandSpec::stay`].
        stay: bool,
    },
    /// It has ended with this wait status.
    Ended(i32),
    /// It cannot be started: errno.
    Failed(i32),
}

impl WaiterMessage {
    pub(super) const BYTES: usize = 5;

    /// Fewer bytes than `PIPE_BUF`, so that messages of two writers do not mix.
    fn encode(self) -> [u8; Self::BYTES] {
        let (tag, value) = match self {
            Self::Started(pid) => (0, pid),
            Self::Ended(status) => (1, status),
            Self::Failed(errno) => (2, errno),
            Self::Received { stay } => (3, stay.into()),
        };
        let [a, b, c, d] = value.to_le_bytes();
        [tag, a, b, c, d]
    }

    pub(super) fn decode([tag, value @ ..]: [u8; Self::BYTES]) -> Self {
        let value = i32::from_le_bytes(value);
        match tag {
            0 => Self::Started(value),
            1 => Self::Ended(value),
            3 => Self::Received { stay: value != 0 },
            _ => Self::Failed(value),
        }
    }
}

/// The waiter: makes the command process and waits for its end. `unexecuted` closes when the program is
/// executed.
///
/// # Errors
/// When a system call fails; the shim sees the pipe of the messages end.
pub(super) fn run(requests: UnixStream, mut messages: PipeWriter, unexecuted: PipeWriter) -> io::Result<()> {
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE) {
        tracing::debug!(%error, "cannot set oom_score_adj");
    }
    // The command must not inherit the shim's signal mask.
    SigSet::empty().thread_set_mask()?;
    // SAFETY: this process has one thread, so the child may use everything that it could use before.
    #[allow(unsafe_code)]
    let forked = match unsafe { nix::unistd::fork() } {
        Ok(forked) => forked,
        Err(error) => return messages.write_all(&WaiterMessage::Failed(error as i32).encode()),
    };
    let ForkResult::Parent { child } = forked else {
        return run_command(requests, messages);
    };
    drop((requests, unexecuted));
    messages.write_all(&WaiterMessage::Started(child.as_raw()).encode())?;
    let raw = wait_for(child)?;
    messages.write_all(&WaiterMessage::Ended(raw).encode())
}

/// Waits for a child; returns its raw wait status.
fn wait_for(child: Pid) -> io::Result<i32> {
    let child = rustix::process::Pid::from_raw(child.as_raw());
    loop {
        match rustix::process::waitpid(child, WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status.as_raw()),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The command's process: waits for the request and becomes the program.
fn run_command(mut requests: UnixStream, mut messages: PipeWriter) -> io::Result<()> {
    nix::unistd::setsid()?;
    let Some(output) = descriptors::receive(&requests)? else {
        // The agent has ended, or does not need this process.
        return Ok(());
    };
    let spec: CommandSpec = shim_protocol::receive(&mut requests)?;
    drop(requests);
    messages.write_all(&WaiterMessage::Received { stay: spec.stay }.encode())?;
    let error = execute(spec, output);
    messages.write_all(&WaiterMessage::Failed(error.raw_os_error().unwrap_or(0)).encode())
}

/// Executes the program; returns only when that fails.
fn execute(mut spec: CommandSpec, passed: (PipeWriters, CommandDescriptors)) -> io::Error {
    let (output, descriptors) = passed;
    let CommandDescriptors { stdin, control, text, result } = descriptors;
    let inherited = [("{control}", control), ("{text}", text), ("{result}", result)];
    for (name, descriptor) in &inherited {
        let Some(descriptor) = descriptor else { continue };
        if let Err(error) = rustix::io::fcntl_setfd(descriptor, FdFlags::empty()) {
            return error.into();
        }
        let number = descriptor.as_raw_fd().to_string();
        spec.args.iter_mut().for_each(|arg| *arg = arg.replace(name, &number));
    }
    let PipeWriters { mut out, mut err } = output;
    if spec.terminal
        && let Some(terminal) = &stdin
    {
        let opened = rustix::process::ioctl_tiocsctty(terminal)
            .map_err(io::Error::from)
            .and_then(|()| Ok((terminal.try_clone()?, terminal.try_clone()?)));
        match opened {
            Ok(clones) => (out, err) = clones,
            Err(error) => return error,
        }
    }
    let mut command = Command::new(&spec.program);
    command.args(&spec.args).env_clear().envs(spec.environment).current_dir(&spec.directory);
    command.stdin(stdin.map_or_else(Stdio::null, Stdio::from)).stdout(out).stderr(err);
    command.exec()
}
