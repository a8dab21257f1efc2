//! Foreground and background jobs of the shells on terminals.
//!
//! A job is a process below a shell that is not itself a shell waiting for a command.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::tree::{self, ProcessEntry};

/// Shells, and programs that start one.
const SHELLS: [&str; 8] = ["bash", "dash", "fish", "login", "sh", "su", "sudo", "zsh"];
/// Programs that start a shell: their arguments are not commands of their own.
const LOGIN_PROGRAMS: [&str; 3] = ["login", "su", "sudo"];

/// Shells of the open terminals; clones share the set.
#[derive(Clone, Debug, Default)]
pub struct Shells(Arc<Mutex<BTreeSet<i32>>>);

/// Registration of a shell, until this is dropped.
#[derive(Debug)]
pub struct ShellEntry {
    shells: Shells,
    pid: i32,
}

impl Shells {
    /// Registers a shell.
    pub(super) fn register(&self, pid: i32) -> ShellEntry {
        self.lock().insert(pid);
        ShellEntry { shells: self.clone(), pid }
    }

    /// Names of the jobs, one per shell that has any. Reads the process table if there is a shell.
    pub fn jobs(&self) -> Vec<String> {
        let shells: Vec<i32> = self.lock().iter().copied().collect();
        if shells.is_empty() {
            return Vec::new();
        }
        let table = tree::processes();
        shells.into_iter().filter_map(|shell| first_job(shell, &table, JobProgram::read)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ShellEntry {
    fn drop(&mut self) {
        self.shells.lock().remove(&self.pid);
    }
}

/// Program of a process.
#[derive(Clone, Debug)]
struct JobProgram {
    name: String,
    args: Vec<String>,
    /// Stopped by a signal, so idle until it is continued.
    stopped: bool,
}

impl JobProgram {
    fn read(pid: i32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        let (head, tail) = stat.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let args = line.split(|byte| *byte == 0).skip(1).filter(|arg| !arg.is_empty());
        Some(Self {
            name: name.to_owned(),
            args: args.map(|arg| String::from_utf8_lossy(arg).into_owned()).collect(),
            stopped: tail.trim_start().starts_with(['T', 't']),
        })
    }

    fn is_job(&self) -> bool {
        let waits = SHELLS.contains(&self.name.as_str())
            && (LOGIN_PROGRAMS.contains(&self.name.as_str())
                || self.args.iter().all(|arg| arg.starts_with('-')));
        !self.stopped && !waits
    }
}

/// The job nearest to a shell. The shell itself may have become one by `exec`.
fn first_job(
    shell: i32,
    table: &[ProcessEntry],
    program: impl Fn(i32) -> Option<JobProgram>,
) -> Option<String> {
    let mut below: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in table.iter().filter(|process| !process.ended) {
        below.entry(process.parent).or_default().push(process.pid);
    }
    let mut level = vec![shell];
    while !level.is_empty() {
        let job = level.iter().filter_map(|pid| program(*pid)).find(JobProgram::is_job);
        if let Some(job) = job {
            return Some(job.name);
        }
        level = level.iter().filter_map(|pid| below.remove(pid)).flatten().collect();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_that_wait_for_a_command_are_no_jobs() {
        // Each program below the one before; a stopped one with a `!`.
        let table = [
            (&["bash --login"][..], None),
            (&["bash --login", "make -j2", "cc x.c"], Some("make")),
            (&["bash --login", "vim! x"], None),
            (&["bash --login", "vim x"], Some("vim")),
            (&["bash --login", "sudo -i", "bash"], None),
            (&["bash --login", "su - user", "bash", "sleep 9"], Some("sleep")),
            (&["bash --login", "bash build"], Some("bash")),
            (&["top"], Some("top")),
        ];
        for (programs, expected) in table {
            let pids = 1..=programs.len() as i32;
            let processes: Vec<ProcessEntry> = pids
                .map(|pid| ProcessEntry { pid: pid + 10, parent: pid + 9, session: 11, ended: false })
                .collect();
            let program = |pid: i32| {
                let mut words = programs.get(usize::try_from(pid - 11).ok()?)?.split(' ').map(str::to_owned);
                let name = words.next()?;
                let stopped = name.ends_with('!');
                Some(JobProgram { name: name.replace('!', ""), args: words.collect(), stopped })
            };
            assert_eq!(first_job(11, &processes, program).as_deref(), expected, "{programs:?}");
        }
    }
}
