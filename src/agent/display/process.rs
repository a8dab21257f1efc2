//! How are a screen's processes found and ended? By process group, by a note of who was started, by their environment.

use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Rounds of one sweep: a process may start another while it is being ended; each round leaves fewer.
const SWEEP_ROUNDS: usize = 10;

/// Sends a signal to one process; one that is gone already is fine.
pub(super) fn signal(pid: u32, signal: Signal) {
    send(i64::from(pid), signal);
}

/// Sends a signal to a process group.
pub(super) fn signal_group(leader: u32, signal: Signal) {
    send(-i64::from(leader), signal);
}

fn send(target: i64, signal: Signal) {
    let Ok(raw) = i32::try_from(target) else { return };
    match kill(Pid::from_raw(raw), signal) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => tracing::warn!(%error, pid = raw, %signal, "could not signal"),
    }
}

/// When a process started, in clock ticks since boot: with its id it names one process for ever.
fn start_time(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Fields after the name, which is in parentheses and may hold anything; the 22nd field is the 20th after it.
    stat.rsplit_once(") ")?.1.split(' ').nth(19).map(str::to_owned)
}

/// Notes a process, so that the next agent can end it should this one die.
pub(super) fn note(file: &Path, pid: u32) {
    let text = format!("{pid} {}", start_time(pid).unwrap_or_default());
    if let Err(error) = std::fs::write(file, text) {
        tracing::warn!(%error, file = %file.display(), "could not note a process");
    }
}

/// Ends the process of a note that an earlier agent left, if it still is that process.
pub(super) fn end_noted(file: &Path) {
    let Ok(text) = std::fs::read_to_string(file) else { return };
    if let Some((pid, started)) = text.trim().split_once(' ')
        && let Ok(pid) = pid.parse::<u32>()
        && start_time(pid).is_some_and(|now| now == started)
    {
        tracing::info!(pid, "ending what an earlier agent left running");
        signal_group(pid, Signal::SIGKILL);
    }
    forget(file);
}

/// Removes a note.
pub(super) fn forget(file: &Path) {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, file = %file.display(), "could not remove a note");
        }
        Ok(()) | Err(_) => {}
    }
}

/// Kills every process whose environment holds all of `marks` (`KEY=VALUE`): also those that left their group.
pub(super) fn sweep(marks: &[String]) {
    for _ in 0..SWEEP_ROUNDS {
        let found: Vec<u32> = marked(marks);
        if found.is_empty() {
            return;
        }
        for pid in found {
            signal(pid, Signal::SIGKILL);
        }
    }
}

fn marked(marks: &[String]) -> Vec<u32> {
    let Ok(folder) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id() && has_marks(*pid, marks)).collect()
}

fn has_marks(pid: u32, marks: &[String]) -> bool {
    // A zombie's environment is empty; another user's cannot be read, and is not ours.
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    let lines: Vec<&[u8]> = environment.split(|byte| *byte == 0).collect();
    marks.iter().all(|mark| lines.contains(&mark.as_bytes()))
}
