//! Data of a process from `/proc`: name, parent, kernel thread, exited.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Most tracked processes: more than a computer's limit allows.
const MAX_PROCESSES: usize = 32_768;
/// Flag of kernel threads in `/proc/PID/stat` (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Longest name that the kernel stores of a program (`TASK_COMM_LEN` without its NUL).
const SHORT_NAME: usize = 15;
/// Bytes read of a command line.
const MAX_COMMAND_LINE: u64 = 4096;

/// Fields of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) name: String,
    pub(super) parent: u32,
    state: u8,
    flags: u64,
}

impl Stat {
    /// Reads the fields; `None` when there is no such process.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    /// Parses `PID (NAME) STATE PPID PGRP SESSION TTY TPGID FLAGS ...` (proc_pid_stat(5)); the name may
    /// contain parentheses and spaces.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (head, tail) = line.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let mut fields = tail.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        let flags = fields.nth(4)?.parse().ok()?;
        Some(Self { name: name.to_owned(), parent, state, flags })
    }

    /// Whether it is a kernel thread.
    pub(super) fn is_kernel(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// Whether it has ended and waits to be reaped.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// Full name of the program from its command line, because the kernel cuts names.
    pub(super) fn full_name(self, pid: u32) -> String {
        use std::io::Read;
        if self.name.len() < SHORT_NAME {
            return self.name;
        }
        let mut line = Vec::new();
        let opened = fs::File::open(format!("/proc/{pid}/cmdline"));
        if opened.and_then(|file| file.take(MAX_COMMAND_LINE).read_to_end(&mut line)).is_err() {
            return self.name;
        }
        let program =
            String::from_utf8_lossy(line.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
        let program = Path::new(&program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if program.starts_with(&self.name) { program.to_owned() } else { self.name }
    }
}

/// Ids of all processes.
pub(super) fn pids() -> std::io::Result<impl Iterator<Item = u32>> {
    let names = fs::read_dir("/proc")?.flatten();
    Ok(names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(MAX_PROCESSES))
}

/// Device and inode of the program of a process.
pub(super) fn program(pid: u32) -> std::io::Result<(u64, u64)> {
    fs::metadata(format!("/proc/{pid}/exe")).map(|facts| (facts.dev(), facts.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_contain_any_character() {
        let line = |name: &str| format!("12 ({name}) S 7 12 12 0 -1 4194560 100 0");
        for name in ["bash", "a b", "x) S 1 (y", "", "))"] {
            let wanted = Stat { name: name.into(), parent: 7, state: b'S', flags: 4_194_560 };
            assert_eq!(Stat::parse(&line(name)), Some(wanted), "{name}");
        }
        for bad in ["", "12", "12 (x", "12 (x)", "12 (x) S", "12 (x) S 7 12 12 0 -1 many"] {
            assert_eq!(Stat::parse(bad), None, "{bad}");
        }
        let own = Stat::of(std::process::id()).unwrap();
        assert_eq!((own.parent, own.is_kernel()), (nix::unistd::getppid().as_raw() as u32, false));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while !Stat::of(child.id()).unwrap().has_ended() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(Stat::of(child.id()).is_none());
    }
}
