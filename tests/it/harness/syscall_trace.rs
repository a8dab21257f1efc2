//! System call tracer (ptrace(2)) that kills a program just before a chosen step.
//!
//! A step is a system call that changes a disk, a mount or a process. The tracer counts the steps of all
//! threads.
//!
//! Child processes are not traced: they survive the program, like after any other death of their parent.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// System calls with a lasting effect, in this process or in another: a death before differs from a death
/// after.
#[cfg(target_arch = "x86_64")]
const STEPS: [(i64, &str); 30] = [
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_fdatasync, "fdatasync"),
    (libc::SYS_rename, "rename"),
    (libc::SYS_renameat, "rename"),
    (libc::SYS_renameat2, "rename"),
    (libc::SYS_unlink, "unlink"),
    (libc::SYS_unlinkat, "unlink"),
    (libc::SYS_rmdir, "rmdir"),
    (libc::SYS_mkdir, "mkdir"),
    (libc::SYS_mkdirat, "mkdir"),
    (libc::SYS_link, "link"),
    (libc::SYS_linkat, "link"),
    (libc::SYS_symlinkat, "symlink"),
    (libc::SYS_ftruncate, "ftruncate"),
    (libc::SYS_copy_file_range, "copy"),
    (libc::SYS_mount, "mount"),
    (libc::SYS_umount2, "umount"),
    (libc::SYS_fsopen, "fsopen"),
    (libc::SYS_fsmount, "fsmount"),
    (libc::SYS_open_tree, "open_tree"),
    (libc::SYS_move_mount, "move_mount"),
    (libc::SYS_mount_setattr, "mount_setattr"),
    (libc::SYS_unshare, "unshare"),
    (libc::SYS_kill, "signal"),
    (libc::SYS_pidfd_send_signal, "signal"),
    (libc::SYS_bind, "bind"),
    (libc::SYS_fork, "spawn"),
    (libc::SYS_vfork, "spawn"),
    (libc::SYS_clone, "spawn"),
    (libc::SYS_clone3, "spawn"),
];
/// ioctl requests with a lasting effect: on loop devices (linux/loop.h), freeze, thaw and reflink
/// (linux/fs.h).
#[cfg(target_arch = "x86_64")]
const IOCTLS: [u64; 7] = [0x4C00, 0x4C01, 0x4C07, 0x4C0A, 0xC004_5877, 0xC004_5878, 0x4004_9409];

/// A traced program.
pub struct TracedProcess {
    process: Pid,
    end: JoinHandle<Vec<&'static str>>,
    last: usize,
}

/// Result of a trace.
#[derive(Debug)]
pub struct Trace {
    /// The steps that the program took; the last is the one before which the tracer killed it.
    pub steps: Vec<&'static str>,
    /// Whether the program reached the chosen step.
    pub killed: bool,
}

impl TracedProcess {
    /// Traces a process and kills it before its `last`-th step, counted from 1.
    pub fn until(pid: u32, last: usize) -> Self {
        let (process, (attached, is_attached)) = (Pid::from_raw(pid.cast_signed()), mpsc::channel());
        // ptrace(2): only the thread that attaches can wait for events.
        let end = thread::spawn(move || {
            attached.send(attach(process)).expect("the test waits");
            follow(process, last)
        });
        is_attached.recv().expect("the thread runs").expect("the process can be traced");
        Self { process, end, last }
    }

    /// Kills the program if no step did. Its parent still has to reap it.
    pub async fn end(self) -> Trace {
        let _ended = kill(self.process, Signal::SIGKILL);
        let end = self.end;
        let steps =
            tokio::task::spawn_blocking(move || end.join()).await.expect("no panic").expect("no panic");
        let killed = steps.len() >= self.last;
        Trace { steps, killed }
    }
}

/// Attaches to every thread. The kernel attaches threads that these create (`PTRACE_O_TRACECLONE`).
fn attach(process: Pid) -> io::Result<()> {
    let mut known = Vec::new();
    loop {
        let threads = threads(process)?;
        let fresh: Vec<Pid> = threads.into_iter().filter(|thread| !known.contains(thread)).collect();
        if fresh.is_empty() {
            return Ok(());
        }
        for thread in fresh {
            known.push(thread);
            match ptrace::seize(thread, Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE) {
                // The thread has ended, or the kernel attached it with its creator.
                Err(Errno::ESRCH | Errno::EPERM) => continue,
                seized => seized?,
            }
            match ptrace::interrupt(thread) {
                // The thread has ended.
                Err(Errno::ESRCH) => {}
                interrupted => interrupted?,
            }
        }
    }
}

fn threads(process: Pid) -> io::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(PathBuf::from(format!("/proc/{process}/task")))? {
        found.extend(entry?.file_name().to_str().and_then(|name| name.parse().ok()).map(Pid::from_raw));
    }
    Ok(found)
}

/// Runs the threads from one system call to the next until all have ended, and returns their steps.
fn follow(process: Pid, last: usize) -> Vec<&'static str> {
    let mut steps = Vec::new();
    loop {
        // `__WNOTHREAD`: the test has other children, which other threads wait for.
        let seen = match waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD)) {
            Ok(seen) => seen,
            Err(Errno::EINTR) => continue,
            // ECHILD: all threads have ended.
            Err(_) => return steps,
        };
        let (thread, signal) = match seen {
            WaitStatus::PtraceSyscall(thread) => {
                if steps.len() < last
                    && let Some(step) = step(thread)
                {
                    steps.push(step);
                    if steps.len() == last {
                        let _gone = kill(process, Signal::SIGKILL);
                    }
                }
                (thread, None)
            }
            WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
            WaitStatus::PtraceEvent(thread, ..) => (thread, None),
            WaitStatus::Exited(..)
            | WaitStatus::Signaled(..)
            | WaitStatus::Continued(_)
            | WaitStatus::StillAlive => continue,
        };
        // waitpid reports a thread that was killed in the meantime.
        let _gone = ptrace::syscall(thread, signal);
    }
}

/// The step that a thread is about to take, if its system call is one.
#[cfg(target_arch = "x86_64")]
fn step(thread: Pid) -> Option<&'static str> {
    let registers = ptrace::getregs(thread).ok()?;
    // The kernel sets rax to -ENOSYS at the entry of a call; at the exit it holds the result.
    if registers.rax.cast_signed() != -i64::from(libc::ENOSYS) {
        return None;
    }
    let call = registers.orig_rax.cast_signed();
    if call == libc::SYS_ioctl {
        return IOCTLS.contains(&registers.rsi).then_some("ioctl");
    }
    let (_, name) = STEPS.into_iter().find(|(number, _)| *number == call)?;
    let flags = match call {
        libc::SYS_clone => registers.rdi,
        // `flags` is the first field of clone_args (linux/sched.h).
        libc::SYS_clone3 => ptrace::read(thread, registers.rdi as ptrace::AddressType).ok()?.cast_unsigned(),
        _ => 0,
    };
    // A new thread is not a new process.
    (flags & u64::from(libc::CLONE_THREAD.cast_unsigned()) == 0).then_some(name)
}

#[cfg(not(target_arch = "x86_64"))]
fn step(_: Pid) -> Option<&'static str> {
    None
}
