//! At which of its steps does a program die? Its threads are followed as a debugger follows them (ptrace(2)), what it does to
//! disks, mounts and processes is counted, and it is killed just before the step that a test names.
//!
//! The programs that it starts are not followed: they live on as they would after any death of the one that started them.

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

/// What lasts, or has others do what lasts: what a death before and after it leaves differs.
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
/// Requests to devices that change them: to loop devices (linux/loop.h), and what freezes, thaws and shares (linux/fs.h).
#[cfg(target_arch = "x86_64")]
const DEVICES: [u64; 7] = [0x4C00, 0x4C01, 0x4C07, 0x4C0A, 0xC004_5877, 0xC004_5878, 0x4004_9409];

/// A program that is followed.
pub struct Followed {
    process: Pid,
    end: JoinHandle<Vec<&'static str>>,
    last: usize,
}

/// What became of it.
#[derive(Debug)]
pub struct Path {
    /// The steps that it took, and the one before which it was killed.
    pub steps: Vec<&'static str>,
    /// Whether it got as far as that.
    pub struck: bool,
}

impl Followed {
    /// Follows a process from now on, and kills it before its `last`-th step, counted from 1.
    pub fn until(pid: u32, last: usize) -> Self {
        let (process, (attached, is_attached)) = (Pid::from_raw(pid.cast_signed()), mpsc::channel());
        // Whoever attaches is the one who waits.
        let end = thread::spawn(move || {
            attached.send(attach(process)).expect("the test waits");
            follow(process, last)
        });
        is_attached.recv().expect("the thread lives").expect("it can be followed");
        Self { process, end, last }
    }

    /// Kills the program where no step has. Whose child it is has yet to wait for it.
    pub async fn end(self) -> Path {
        let _dead = kill(self.process, Signal::SIGKILL);
        let end = self.end;
        let steps =
            tokio::task::spawn_blocking(move || end.join()).await.expect("no panic").expect("no panic");
        let struck = steps.len() >= self.last;
        Path { steps, struck }
    }
}

/// Attaches to every thread; those that come later are attached with their makers.
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
                // It is gone, or its maker was attached to before it was made.
                Err(Errno::ESRCH | Errno::EPERM) => continue,
                seized => seized?,
            }
            match ptrace::interrupt(thread) {
                // It has ended since.
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

/// Lets the threads run from one system call to the next until none is left. The steps that they took.
fn follow(process: Pid, last: usize) -> Vec<&'static str> {
    let mut steps = Vec::new();
    loop {
        // This thread's alone: the test has other children.
        let seen = match waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD)) {
            Ok(seen) => seen,
            Err(Errno::EINTR) => continue,
            // All have ended.
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
        // One that was killed meanwhile is told of as such.
        let _gone = ptrace::syscall(thread, signal);
    }
}

/// What a thread is about to do, if it is a step.
#[cfg(target_arch = "x86_64")]
fn step(thread: Pid) -> Option<&'static str> {
    let registers = ptrace::getregs(thread).ok()?;
    // The kernel puts this there before the call; afterwards it is the result.
    if registers.rax.cast_signed() != -i64::from(libc::ENOSYS) {
        return None;
    }
    let call = registers.orig_rax.cast_signed();
    if call == libc::SYS_ioctl {
        return DEVICES.contains(&registers.rsi).then_some("ioctl");
    }
    let (_, name) = STEPS.into_iter().find(|(number, _)| *number == call)?;
    let flags = match call {
        libc::SYS_clone => registers.rdi,
        // Its flags come first (clone_args in linux/sched.h).
        libc::SYS_clone3 => ptrace::read(thread, registers.rdi as ptrace::AddressType).ok()?.cast_unsigned(),
        _ => 0,
    };
    // A thread of its own is no process.
    (flags & u64::from(libc::CLONE_THREAD.cast_unsigned()) == 0).then_some(name)
}

#[cfg(not(target_arch = "x86_64"))]
fn step(_: Pid) -> Option<&'static str> {
    None
}
