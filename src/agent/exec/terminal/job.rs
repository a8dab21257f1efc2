//! Does a shell on a terminal run something? A job is what is below a shell and is no shell that waits for a command.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::tree::{self, Process};

/// Programs that wait for commands, or for one that does.
const SHELLS: [&str; 8] = ["bash", "dash", "fish", "login", "sh", "su", "sudo", "zsh"];
/// Those that only stand before a shell: their arguments are no commands of their own.
const DOORS: [&str; 3] = ["login", "su", "sudo"];

/// The shells of the terminals that are open; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Shells(Arc<Mutex<BTreeSet<i32>>>);

/// A shell among them, until this is dropped.
#[derive(Debug)]
pub struct Open {
    shells: Shells,
    pid: i32,
}

impl Shells {
    /// One more shell runs.
    pub(super) fn open(&self, pid: i32) -> Open {
        self.lock().insert(pid);
        Open { shells: self.clone(), pid }
    }

    /// The name of what each shell runs that runs something. Reads the process table, if there is any shell.
    pub fn jobs(&self) -> Vec<String> {
        let shells: Vec<i32> = self.lock().iter().copied().collect();
        if shells.is_empty() {
            return Vec::new();
        }
        let table = tree::processes();
        shells.into_iter().filter_map(|shell| first_job(shell, &table, Program::read)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shells.lock().remove(&self.pid);
    }
}

/// What a process runs.
#[derive(Clone, Debug)]
struct Program {
    name: String,
    args: Vec<String>,
    /// Stopped by a signal: it does nothing until it is continued.
    stopped: bool,
}

impl Program {
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
            && (DOORS.contains(&self.name.as_str()) || self.args.iter().all(|arg| arg.starts_with('-')));
        !self.stopped && !waits
    }
}

/// The job nearest to a shell; the shell itself may have become one by `exec`.
fn first_job(shell: i32, table: &[Process], program: impl Fn(i32) -> Option<Program>) -> Option<String> {
    let mut below: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in table.iter().filter(|process| !process.ended) {
        below.entry(process.parent).or_default().push(process.pid);
    }
    let mut level = vec![shell];
    while !level.is_empty() {
        let job = level.iter().filter_map(|pid| program(*pid)).find(Program::is_job);
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
    fn what_waits_for_a_command_is_no_job() {
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
            let processes: Vec<Process> = pids
                .map(|pid| Process { pid: pid + 10, parent: pid + 9, session: 11, ended: false })
                .collect();
            let program = |pid: i32| {
                let mut words = programs.get(usize::try_from(pid - 11).ok()?)?.split(' ').map(str::to_owned);
                let name = words.next()?;
                let stopped = name.ends_with('!');
                Some(Program { name: name.replace('!', ""), args: words.collect(), stopped })
            };
            assert_eq!(first_job(11, &processes, program).as_deref(), expected, "{programs:?}");
        }
    }
}
