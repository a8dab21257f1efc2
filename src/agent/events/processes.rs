//! Which processes start and end? Those in `/proc` that were not there at the last look, and those that are not any
//! more.
//!
//! The kernel's process connector (netlink) would tell at once, but only processes of the first pid and user namespace
//! are let in (`drivers/connector/cn_proc.c`), which is no process of a container. A look at all pids costs 0.1 ms, so
//! it is taken eight times as often as the specification has it.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use super::keep::Watcher;
use crate::domain::event::Kind;
use crate::http::feed::Feed;
use crate::wire::event::{Data, Event};

/// How often it is looked. A process that lives shorter may not be seen at all.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Most processes that are kept apart: more than a computer's limit lets run.
const MAX_PROCESSES: usize = 32_768;
/// Flag of kernel threads in `/proc/PID/stat` (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Longest name that the kernel keeps of a program (`TASK_COMM_LEN` without its end).
const SHORT_NAME: usize = 15;
/// Most that is read of a command line.
const MAX_COMMAND_LINE: u64 = 4096;

/// What is known of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// It was there before, or was told: its end is told too.
    Told(String),
    /// It may be about to become another program: it was forked just now, or runs this very program, as the agent and
    /// its helpers do.
    Waits,
    /// A thread of the kernel.
    Kernel,
}

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    parent: u32,
    flags: u64,
}

/// Watches the processes.
#[derive(Debug)]
pub(super) struct Processes {
    feed: Feed,
    known: HashMap<u32, Seen>,
    /// Device and inode of this program.
    own: Option<(u64, u64)>,
}

impl Processes {
    pub(super) fn new(feed: Feed) -> Self {
        Self { feed, known: HashMap::new(), own: program(std::process::id()).ok() }
    }

    /// Looks; tells what is different unless it is the first look.
    fn look(&mut self, first: bool) -> std::io::Result<()> {
        let mut before = std::mem::take(&mut self.known);
        for pid in pids()? {
            let seen = match before.remove(&pid) {
                Some(seen @ (Seen::Told(_) | Seen::Kernel)) => Some(seen),
                known => self.meet(pid, known, first),
            };
            if let Some(seen) = seen {
                self.known.insert(pid, seen);
            }
        }
        for (pid, seen) in before {
            if let Seen::Told(name) = seen {
                self.feed.publish(Event::now(Data::ProcessStop { pid, name }));
            }
        }
        Ok(())
    }

    /// What a process is that is new, or waits; `None` when it has ended already.
    fn meet(&self, pid: u32, known: Option<Seen>, first: bool) -> Option<Seen> {
        let stat = stat(pid)?;
        if stat.flags & KERNEL_THREAD != 0 {
            return Some(Seen::Kernel);
        }
        if self.is_own(pid, stat.parent) {
            return Some(Seen::Waits);
        }
        let name = full_name(pid, stat.name);
        if first {
            return Some(Seen::Told(name));
        }
        // A fork has its parent's name until it becomes a program of its own, mostly within a millisecond.
        if known.is_none() && self::stat(stat.parent).is_some_and(|parent| name.starts_with(&parent.name)) {
            return Some(Seen::Waits);
        }
        self.feed.publish(Event::now(Data::ProcessStart { pid, name: name.clone() }));
        Some(Seen::Told(name))
    }

    /// Whether a process runs this program. The forks of a process without core dumps cannot be asked; those of this
    /// one are about to become something else.
    fn is_own(&self, pid: u32, parent: u32) -> bool {
        match program(pid) {
            Ok(program) => Some(program) == self.own,
            Err(_) => parent == std::process::id(),
        }
    }
}

impl Watcher for Processes {
    const NAME: &'static str = "processes";
    const KINDS: &'static [Kind] = &[Kind::ProcessStart, Kind::ProcessStop];

    async fn run(&mut self, begun: &(dyn Fn() + Send + Sync)) -> String {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut first = self.known.is_empty();
        loop {
            looks.tick().await;
            if let Err(error) = self.look(first) {
                return format!("/proc: {error}");
            }
            if first {
                begun();
            }
            first = false;
        }
    }
}

/// The processes that there are.
fn pids() -> std::io::Result<impl Iterator<Item = u32>> {
    let names = fs::read_dir("/proc")?.flatten();
    Ok(names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(MAX_PROCESSES))
}

/// Device and inode of the program of a process.
fn program(pid: u32) -> std::io::Result<(u64, u64)> {
    fs::metadata(format!("/proc/{pid}/exe")).map(|facts| (facts.dev(), facts.ino()))
}

fn stat(pid: u32) -> Option<Stat> {
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&bytes))
}

/// Reads `PID (NAME) STATE PPID PGRP SESSION TTY TPGID FLAGS ...` (proc(5)); the name may hold brackets and spaces.
fn parse_stat(line: &str) -> Option<Stat> {
    let (head, tail) = line.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut fields = tail.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let flags = fields.nth(4)?.parse().ok()?;
    Some(Stat { name: name.to_owned(), parent, flags })
}

/// The name of a program whose kernel name may have been cut: its command line has the whole.
fn full_name(pid: u32, name: String) -> String {
    use std::io::Read;
    if name.len() < SHORT_NAME {
        return name;
    }
    let mut line = Vec::new();
    let opened = fs::File::open(format!("/proc/{pid}/cmdline"));
    if opened.and_then(|file| file.take(MAX_COMMAND_LINE).read_to_end(&mut line)).is_err() {
        return name;
    }
    let program =
        String::from_utf8_lossy(line.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
    let program = Path::new(&program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if program.starts_with(&name) { program.to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_whatever_is_in_them() {
        let line = |name: &str| format!("12 ({name}) S 7 12 12 0 -1 4194560 100 0");
        for name in ["bash", "a b", "x) S 1 (y", "", "))"] {
            let wanted = Stat { name: name.into(), parent: 7, flags: 4_194_560 };
            assert_eq!(parse_stat(&line(name)), Some(wanted), "{name}");
        }
        for bad in ["", "12", "12 (x", "12 (x) S", "12 (x) S 7 12 12 0 -1 many"] {
            assert_eq!(parse_stat(bad), None, "{bad}");
        }
        let own = stat(std::process::id()).unwrap();
        assert_eq!((own.parent, own.flags & KERNEL_THREAD), (nix::unistd::getppid().as_raw() as u32, 0));
    }
}
