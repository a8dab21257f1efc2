//! End of a whole process tree, including daemons, `setsid` children and fork bombs.
//!
//! Every command runs below a shim that is a child subreaper, so all its processes stay descendants of the
//! shim: a double fork changes the parent but not the ancestor. The tree is read from `/proc`. All processes
//! are stopped first, because a stopped process cannot fork, and then killed; this repeats until none is
//! left.

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Rounds of stopping before the kill: each round halves at least what a fork bomb has left, and no guest may
/// have 2^20 processes.
const FREEZE_ROUNDS: usize = 20;
/// Pause between two reads of `/proc` while killed processes disappear, which takes microseconds to
/// milliseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(3);
/// How long the last killed processes may take to disappear before they count as left.
const EXIT_TIMEOUT: Duration = Duration::from_millis(100);

/// Entry of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessEntry {
    /// Process id.
    pub pid: i32,
    /// Process id of its parent.
    pub parent: i32,
    /// Session id.
    pub session: i32,
    /// Whether it has ended and waits to be reaped.
    pub ended: bool,
}

/// Selection of processes.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// Selects all descendants of this process, but not the process itself.
    pub below: i32,
    /// Selects also the members of this session and their descendants, for a command that killed its own
    /// shim.
    pub session: Option<i32>,
    /// Selects also processes whose environment contains this entry, and their descendants, for a command
    /// that killed its own shim. Slow, because it reads every environment.
    pub marker: Option<String>,
}

impl Target {
    /// Selects the descendants of a process.
    pub fn below(pid: i32) -> Self {
        Self { below: pid, ..Self::default() }
    }
}

/// Parses process id, parent, session and state of `/proc/PID/stat` (proc_pid_stat(5)). The command name may
/// contain anything, parentheses included, so the fields are counted from the last parenthesis.
fn parse_stat(text: &str) -> Option<ProcessEntry> {
    let (head, tail) = text.rsplit_once(')')?;
    let pid = head.split_once(' ')?.0.parse().ok()?;
    let mut fields = tail.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let _group = fields.next()?;
    let session = fields.next()?.parse().ok()?;
    Some(ProcessEntry { pid, parent, session, ended: matches!(state, "Z" | "X" | "x") })
}

/// Reads the process table. Processes that end meanwhile are left out.
pub fn processes() -> Vec<ProcessEntry> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    let names = folder.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|name| fs::read(format!("/proc/{name}/stat")).ok())
        .filter_map(|bytes| parse_stat(&String::from_utf8_lossy(&bytes)))
        .collect()
}

/// Ids of the selected processes of a table, without ended ones, process 1 and `own`.
fn members(table: &[ProcessEntry], target: &Target, marked: &HashSet<i32>, own: i32) -> Vec<i32> {
    let mut inside: HashSet<i32> = HashSet::from([target.below]);
    loop {
        let before = inside.len();
        for process in table {
            let selected = inside.contains(&process.parent)
                || target.session == Some(process.session)
                || marked.contains(&process.pid);
            if selected && process.pid > 1 && process.pid != own {
                inside.insert(process.pid);
            }
        }
        if inside.len() == before {
            break;
        }
    }
    inside.remove(&target.below);
    table.iter().filter(|process| !process.ended && inside.contains(&process.pid)).map(|p| p.pid).collect()
}

fn marked(table: &[ProcessEntry], marker: Option<&str>) -> HashSet<i32> {
    let Some(marker) = marker else { return HashSet::new() };
    let holds = |pid: i32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|entry| entry == marker.as_bytes()))
    };
    table.iter().map(|process| process.pid).filter(|pid| holds(*pid)).collect()
}

/// Ids of the selected processes that are alive now.
pub fn alive(target: &Target) -> Vec<i32> {
    let table = processes();
    let marked = marked(&table, target.marker.as_deref());
    members(&table, target, &marked, nix::unistd::getpid().as_raw())
}

/// Sends a signal to each process; one that has ended meanwhile is skipped. A process id is reused only after
/// `pid_max` further processes, long after the table was read.
pub fn signal_all(pids: &[i32], signal: Signal) {
    for pid in pids {
        if let Err(error) = kill(Pid::from_raw(*pid), signal)
            && error != nix::errno::Errno::ESRCH
        {
            tracing::warn!(pid, %signal, %error, "cannot signal a process");
        }
    }
}

/// Stops and kills until no selected process is alive, for little longer than `timeout` at most. Returns how
/// many are left: above 0 only for processes in uninterruptible sleep (state D) or that may not be signalled.
/// Blocks.
pub fn end(target: &Target, timeout: Duration) -> usize {
    let deadline = Instant::now() + timeout;
    loop {
        let stopped = freeze(target, deadline);
        if stopped.is_empty() {
            return 0;
        }
        signal_all(&stopped, Signal::SIGKILL);
        if Instant::now() >= deadline {
            return left(target);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Number of killed processes that are left after a short wait.
fn left(target: &Target) -> usize {
    let deadline = Instant::now() + EXIT_TIMEOUT;
    loop {
        let left = alive(target).len();
        if left == 0 || Instant::now() >= deadline {
            return left;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Stops all selected processes until no new one appears. Returns all that were stopped, also those that are
/// no longer selected because their ancestor died meanwhile: they must be killed as well.
fn freeze(target: &Target, deadline: Instant) -> Vec<i32> {
    let mut stopped = HashSet::new();
    for _ in 0..FREEZE_ROUNDS {
        let fresh: Vec<i32> = alive(target).into_iter().filter(|pid| stopped.insert(*pid)).collect();
        signal_all(&fresh, Signal::SIGSTOP);
        if fresh.is_empty() || Instant::now() >= deadline {
            break;
        }
    }
    stopped.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_are_read_whatever_the_name_holds() {
        let read = |text| parse_stat(text).map(|p| (p.pid, p.parent, p.session, p.ended));
        assert_eq!(read("12 (bash) S 3 12 9 0 -1"), Some((12, 3, 9, false)));
        assert_eq!(read("12 (a) R 1 (b) Z 3 12 9 0 -1"), Some((12, 3, 9, true)));
        assert_eq!(read("12 (\n) ) X 3 12 9"), Some((12, 3, 9, true)));
        for bad in ["", "12", "12 (x)", "x (y) S 1 2 3", "12 (x) S 1 2"] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_tree_is_its_descendants_and_what_shares_its_session_or_mark() {
        let process = |pid, parent, session| ProcessEntry { pid, parent, session, ended: false };
        let table = [
            process(1, 0, 1),
            process(5, 1, 5),   // the agent: own
            process(10, 5, 10), // the shim
            process(11, 10, 11),
            process(12, 11, 12),
            process(20, 1, 11), // reparented, same session
            process(30, 1, 30), // reparented, new session, marked
            process(31, 30, 31),
            process(40, 1, 40), // somebody else
            ProcessEntry { ended: true, ..process(13, 11, 11) },
        ];
        let plain = Target::below(10);
        assert_eq!(members(&table, &plain, &HashSet::new(), 5), [11, 12]);
        let wide = Target { session: Some(11), ..plain };
        assert_eq!(members(&table, &wide, &HashSet::from([30]), 5), [11, 12, 20, 30, 31]);
        let all = Target::below(1);
        assert!(!members(&table, &all, &HashSet::new(), 5).contains(&5));
    }
}
