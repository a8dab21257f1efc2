//! Processes of a machine that stand still because something outside of it stopped or froze them; and the freeze of all
//! its processes.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::host::cgroup::{self, limits};
use crate::host::command::host_error;
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

/// The freezer of control groups version 1, and the text that thaws it. Version 1 delivers no SIGKILL to a
/// frozen process.
const FREEZER: (&str, &str) = ("freezer.state", "THAWED");
/// The same of version 2.
const FREEZE: (&str, &str) = ("cgroup.freeze", "0");

/// The texts that freeze the groups of version 1 and 2.
const FROZEN: [&str; 2] = ["FROZEN", "1"];

/// Freezes all processes of a machine, with what they start until it is thawed. A process that is in a system call
/// stops at its end.
///
/// # Errors
/// `Failed` when the machine's groups have no freezer.
pub(crate) fn freeze(id: ComputerId) -> EngineResult<()> {
    const STEP: &str = "freeze the machine's processes";
    let folders = cgroup::folders(id);
    let mut groups = [FREEZER, FREEZE].into_iter().zip(FROZEN);
    // On a host with both versions, the first has the processes.
    let found = groups.find_map(|((name, _), text)| Some((limits::find(&folders, name)?, text)));
    let Some((file, text)) = found else {
        return Err(EngineError::failed(STEP, "its control groups have no freezer"));
    };
    fs::write(&file, text).map_err(host_error(STEP, &file))
}

/// Thaws all processes of a machine.
pub(crate) fn unfreeze(id: ComputerId) -> EngineResult<()> {
    cgroup::folders(id)
        .iter()
        .try_for_each(|folder| thaw(folder).map_err(host_error("thaw the machine's processes", folder)))
}

/// Thaws the groups of a machine and continues its stopped processes. Otherwise they handle no signal but
/// SIGKILL, and `runsc` waits for them.
pub(crate) fn resume(id: ComputerId) -> EngineResult<()> {
    const STEP: &str = "continue the machine's processes";
    unfreeze(id)?;
    for pid in cgroup::processes(id)? {
        if ProcessState::read(pid).is_some_and(|process| process.is_stopped()) {
            let pid = Pid::from_raw(pid.cast_signed());
            match pid.map_or(Ok(()), |pid| kill_process(pid, Signal::CONT)) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(host_error(STEP, Path::new("/proc"))(error.into())),
            }
        }
    }
    Ok(())
}

/// Thaws one group; one that is not frozen, or has no freezer, stays as it is.
pub(super) fn thaw(folder: &Path) -> io::Result<()> {
    for (name, thawed) in [FREEZER, FREEZE] {
        let file = folder.join(name);
        match fs::read_to_string(&file) {
            Ok(state) if state.trim() != thawed => fs::write(&file, thawed)?,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// Whether a machine stands still: its groups are frozen, or one of its topmost processes is stopped. A guest
/// cannot do that: it has no control groups, and no signal stops the first process of a pid namespace from
/// inside.
pub(crate) fn is_stopped(id: ComputerId) -> EngineResult<bool> {
    let all = cgroup::processes(id)?;
    if all.is_empty() {
        return Ok(false);
    }
    let topmost_is_stopped = all.iter().filter_map(|pid| ProcessState::read(*pid)).any(|process| {
        // A program that a guest runs under a debugger or in a shell may be stopped; its parent is in the group.
        process.is_stopped() && !all.contains(&process.parent)
    });
    Ok(topmost_is_stopped || is_frozen(id))
}

/// Whether a machine's groups are frozen.
pub(crate) fn is_frozen(id: ComputerId) -> bool {
    cgroup::folders(id).iter().any(|folder| {
        [FREEZER, FREEZE].iter().any(|(name, thawed)| {
            fs::read_to_string(folder.join(name)).is_ok_and(|state| state.trim() != *thawed)
        })
    })
}

/// State and parent of a process.
#[derive(Debug, PartialEq)]
struct ProcessState {
    state: char,
    parent: u32,
}

impl ProcessState {
    /// Reads `/proc/PID/stat`; `None` when the process is gone.
    fn read(pid: u32) -> Option<Self> {
        fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|text| Self::parse(&text))
    }

    /// The fields `state` and `ppid` of proc_pid_stat(5). The name before them may contain parentheses.
    fn parse(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        Some(Self { state: fields.next()?.chars().next()?, parent: fields.next()?.parse().ok()? })
    }

    /// Stopped by a signal. A tracer's stop (`t`) is normal under gVisor.
    fn is_stopped(&self) -> bool {
        self.state == 'T'
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_and_parent_follow_the_name() {
        for (text, expected) in [
            ("7 (exe) T 1 7 7 0", Some(ProcessState { state: 'T', parent: 1 })),
            ("7 (a) R 9) t 12 7", Some(ProcessState { state: 't', parent: 12 })),
            ("7 (cut", None),
            ("7 (cut) S", None),
        ] {
            assert_eq!(ProcessState::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn a_frozen_group_is_thawed_and_others_are_left_alone() {
        let group = tempfile::tempdir().unwrap();
        thaw(group.path()).unwrap();
        for (name, thawed) in [FREEZER, FREEZE] {
            let file = group.path().join(name);
            fs::write(&file, "FROZEN\n").unwrap();
            thaw(group.path()).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), thawed);
        }
    }
}
