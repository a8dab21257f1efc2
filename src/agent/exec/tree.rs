//! How is a whole process tree ended, daemons, `setsid` children and fork bombs included?
//!
//! Every command runs below a shim that is a child subreaper, so whatever it starts stays a descendant of that shim:
//! a double fork changes the parent, never the ancestor. The tree is read from `/proc`. All of it is stopped first,
//! because a stopped process forks no more, and then killed, again and again until nothing is left.

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Rounds of stopping before killing all the same: each round halves at least what a fork bomb has left, and 2^20
/// processes are more than any guest may have.
const FREEZE_ROUNDS: usize = 20;
/// Pause between two looks while killed processes go away; death takes the kernel microseconds to milliseconds.
const LOOK_AGAIN: Duration = Duration::from_millis(3);
/// How long those that were killed last may take to be gone before they count as left.
const DYING: Duration = Duration::from_millis(100);

/// One row of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its parent's id.
    pub parent: i32,
    /// Its session's id.
    pub session: i32,
    /// True when it has ended and only waits to be reaped.
    pub ended: bool,
}

/// Which processes are meant.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// All descendants of this process, not itself.
    pub below: i32,
    /// Also the members of this session and their descendants. For a command that killed its own shim.
    pub session: Option<i32>,
    /// Also those whose environment holds this text, and their descendants. For a command that killed its own shim;
    /// reading every environment is slow.
    pub marker: Option<String>,
}

impl Target {
    /// The descendants of a process.
    pub fn below(pid: i32) -> Self {
        Self { below: pid, ..Self::default() }
    }
}

/// Reads `pid`, parent, session and state from the text of `/proc/PID/stat` (proc_pid_stat(5)). The command name may
/// hold anything, parentheses included, so the fields are counted from the last one.
fn parse_stat(text: &str) -> Option<Process> {
    let (head, tail) = text.rsplit_once(')')?;
    let pid = head.split_once(' ')?.0.parse().ok()?;
    let mut fields = tail.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let _group = fields.next()?;
    let session = fields.next()?.parse().ok()?;
    Some(Process { pid, parent, session, ended: matches!(state, "Z" | "X" | "x") })
}

/// The process table. Processes that end while it is read are left out.
pub fn processes() -> Vec<Process> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    let names = folder.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|name| fs::read(format!("/proc/{name}/stat")).ok())
        .filter_map(|bytes| parse_stat(&String::from_utf8_lossy(&bytes)))
        .collect()
}

/// The ids of a table's processes that are meant, without those that have ended, process 1 and `own`.
fn members(table: &[Process], target: &Target, marked: &HashSet<i32>, own: i32) -> Vec<i32> {
    let mut inside: HashSet<i32> = HashSet::from([target.below]);
    loop {
        let before = inside.len();
        for process in table {
            let meant = inside.contains(&process.parent)
                || target.session == Some(process.session)
                || marked.contains(&process.pid);
            if meant && process.pid > 1 && process.pid != own {
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

fn marked(table: &[Process], marker: Option<&str>) -> HashSet<i32> {
    let Some(marker) = marker else { return HashSet::new() };
    let holds = |pid: i32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|entry| entry == marker.as_bytes()))
    };
    table.iter().map(|process| process.pid).filter(|pid| holds(*pid)).collect()
}

/// Who is meant now and still alive.
pub fn alive(target: &Target) -> Vec<i32> {
    let table = processes();
    let marked = marked(&table, target.marker.as_deref());
    members(&table, target, &marked, nix::unistd::getpid().as_raw())
}

/// Sends a signal to each. One that has ended meanwhile is what was wanted; ids come round again only after
/// `pid_max` further processes, far longer than the time since the table was read.
pub fn signal_all(pids: &[i32], signal: Signal) {
    for pid in pids {
        if let Err(error) = kill(Pid::from_raw(*pid), signal)
            && error != nix::errno::Errno::ESRCH
        {
            tracing::warn!(pid, %signal, %error, "could not signal a process");
        }
    }
}

/// Stops, kills and looks again until nothing that is meant is alive, for little more than `patience` at most. Returns how many are
/// left: above 0 only for processes that the kernel itself holds (state D) or that may not be signalled. Blocks.
pub fn end(target: &Target, patience: Duration) -> usize {
    let deadline = Instant::now() + patience;
    loop {
        let doomed = freeze(target, deadline);
        if doomed.is_empty() {
            return 0;
        }
        signal_all(&doomed, Signal::SIGKILL);
        if Instant::now() >= deadline {
            return left(target);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// How many of those that were just killed are left once they had a moment to be gone.
fn left(target: &Target) -> usize {
    let deadline = Instant::now() + DYING;
    loop {
        let left = alive(target).len();
        if left == 0 || Instant::now() >= deadline {
            return left;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Stops all that is meant until a look finds no new one; returns all that were stopped, also those that a look no
/// longer finds: when the process they are below dies meanwhile, they are still the ones to kill.
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
        let process = |pid, parent, session| Process { pid, parent, session, ended: false };
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
            Process { ended: true, ..process(13, 11, 11) },
        ];
        let plain = Target::below(10);
        assert_eq!(members(&table, &plain, &HashSet::new(), 5), [11, 12]);
        let wide = Target { session: Some(11), ..plain };
        assert_eq!(members(&table, &wide, &HashSet::from([30]), 5), [11, 12, 20, 30, 31]);
        let all = Target::below(1);
        assert!(!members(&table, &all, &HashSet::new(), 5).contains(&5));
    }
}
