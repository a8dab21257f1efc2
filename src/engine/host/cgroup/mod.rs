//! Control groups of machines, version 1, hybrid and 2: membership, and the end of all processes in them.

pub(crate) mod balance;
pub(crate) mod cpuset;
pub(crate) mod create;
pub(crate) mod limits;
pub(crate) mod stopped;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::host::command::host_error;
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::wait;

const MOUNTS: &str = "/sys/fs/cgroup";
/// The file with the processes of a group, which every group has.
const MEMBERS: &str = "cgroup.procs";
/// The group of all machines on a host.
const PARENT: &str = "hotdesk";
/// For killed processes to end: one in an uninterruptible read of a slow disk ends after that read.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);
/// The step of [`check_controllers`].
const FIND: &str = "find the control groups";

/// A machine's group below the root of every hierarchy, for the OCI runtime.
pub(crate) fn path(id: ComputerId) -> String {
    format!("/{PARENT}/{id}")
}

/// The hierarchies' roots: one under v2, one per controller under v1, with `unified` beside them when hybrid.
pub(crate) fn roots() -> Vec<PathBuf> {
    let mounts = Path::new(MOUNTS);
    if mounts.join("cgroup.controllers").exists() {
        return vec![mounts.to_owned()];
    }
    let Ok(entries) = fs::read_dir(mounts) else { return Vec::new() };
    // Controllers mounted together appear as links to one folder; the folder alone counts. systemd leaves an empty folder where it
    // could not mount a hierarchy.
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .filter(|path| path.join(MEMBERS).exists())
        .collect()
}

/// Whether the host has version 2 alone.
pub(crate) fn is_unified() -> bool {
    Path::new(MOUNTS).join("cgroup.controllers").exists()
}

/// The pids of a machine's processes.
pub(crate) fn processes(id: ComputerId) -> EngineResult<Vec<u32>> {
    let Some(folder) = folders(id).into_iter().next() else { return Ok(Vec::new()) };
    let found = members(&folder).map_err(host_error("list the machine's processes", &folder))?;
    Ok(found.into_iter().map(|pid| pid.as_raw_nonzero().get().cast_unsigned()).collect())
}

/// Whether a machine has processes. One that ends at this moment may have none.
pub(crate) fn has_processes(id: ComputerId) -> bool {
    folders(id).iter().any(|folder| members(folder).is_ok_and(|found| !found.is_empty()))
}

/// The machine's group folders that exist, one per hierarchy.
pub(crate) fn folders(id: ComputerId) -> Vec<PathBuf> {
    let own = format!("{PARENT}/{id}");
    roots().into_iter().map(|root| root.join(&own)).filter(|folder| folder.is_dir()).collect()
}

/// Every machine that has a group on this host, whichever controller made it.
pub(crate) fn machines() -> io::Result<BTreeSet<ComputerId>> {
    let mut found = BTreeSet::new();
    for root in roots() {
        for folder in children(&root.join(PARENT))? {
            found.extend(folder.file_name().and_then(|name| name.to_str()?.parse::<ComputerId>().ok()));
        }
    }
    Ok(found)
}

/// Whether a process belongs to the machine. A guest cannot leave its group: it has no cgroup file system.
pub(crate) fn contains(id: ComputerId, pid: u32) -> bool {
    let own = path(id);
    fs::read_to_string(format!("/proc/{pid}/cgroup"))
        .is_ok_and(|text| text.lines().any(|line| line.ends_with(&own) || line.contains(&format!("{own}/"))))
}

/// Kills all processes of a machine, without waiting for their end.
pub(crate) fn kill(id: ComputerId) -> EngineResult<()> {
    folders(id)
        .iter()
        .try_for_each(|folder| kill_all(folder).map_err(host_error("kill the machine's processes", folder)))
}

/// Kills all processes of a machine and removes its groups.
///
/// # Errors
/// `Failed`, naming the groups whose processes do not end in 30 seconds.
pub(crate) async fn clear(id: ComputerId) -> EngineResult<()> {
    const STEP: &str = "clear the control groups";
    let cleared = wait::until(KILL_TIMEOUT, || async {
        let left = folders(id);
        for folder in &left {
            if let Err(error) = kill_all(folder).and_then(|()| remove(folder)) {
                let busy = [io::ErrorKind::ResourceBusy, io::ErrorKind::DirectoryNotEmpty];
                if !busy.contains(&error.kind()) {
                    return Some(Err(host_error(STEP, folder)(error)));
                }
            }
        }
        folders(id).is_empty().then_some(Ok(()))
    });
    cleared.await.unwrap_or_else(|| {
        let named: Vec<String> = folders(id).iter().map(|folder| folder.display().to_string()).collect();
        Err(EngineError::failed(
            STEP,
            format!("processes do not end after SIGKILL in {}; look for ones in state D", named.join(", ")),
        ))
    })
}

/// Sends SIGKILL to everything in a group and below, and thaws what is frozen: it ends only then.
fn kill_all(folder: &Path) -> io::Result<()> {
    for child in children(folder)? {
        kill_all(&child)?;
    }
    let at_once = folder.join("cgroup.kill");
    if at_once.exists() {
        return fs::write(at_once, "1");
    }
    for pid in members(folder)? {
        match kill_process(pid, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    stopped::thaw(folder)
}

fn members(folder: &Path) -> io::Result<Vec<Pid>> {
    let text = match fs::read_to_string(folder.join(MEMBERS)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    Ok(text.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw).collect())
}

fn children(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    Ok(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
}

fn remove(folder: &Path) -> io::Result<()> {
    for child in children(folder)? {
        remove(&child)?;
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Describes the host's control groups if they have all controllers in `needed`.
///
/// # Errors
/// `Failed`, naming the missing controllers.
pub(crate) fn check_controllers(needed: &[&str]) -> EngineResult<String> {
    if is_unified() {
        let path = Path::new(MOUNTS).join("cgroup.controllers");
        let listed = fs::read_to_string(&path).map_err(host_error(FIND, &path))?;
        describe_controllers("v2", needed, |name| listed.split_whitespace().any(|it| it == name))
    } else {
        describe_controllers("v1", needed, |name| Path::new(MOUNTS).join(name).join("cgroup.procs").exists())
    }
}

/// The controllers of a version; an error with the missing ones.
fn describe_controllers(version: &str, needed: &[&str], has: impl Fn(&str) -> bool) -> EngineResult<String> {
    let missing: Vec<&str> = needed.iter().copied().filter(|name| !has(name)).collect();
    if missing.is_empty() {
        Ok(format!("{version} with {}", needed.join(", ")))
    } else {
        Err(EngineError::failed(FIND, format!("{version} without {}", missing.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_controllers_are_named() {
        for (available, expected) in [
            ("cpuset cpu io memory hugetlb pids rdma misc", Ok("v2 with cpu, memory, pids")),
            ("cpuset cpu io pids", Err("v2 without memory")),
            ("cpuset cpuacct memory_recursiveprot", Err("v2 without cpu, memory, pids")),
            ("", Err("v2 without cpu, memory, pids")),
        ] {
            let has = |name: &str| available.split_whitespace().any(|it| it == name);
            let found = describe_controllers("v2", &["cpu", "memory", "pids"], has);
            let expected =
                expected.map_err(|lack: &str| format!("could not find the control groups: {lack}"));
            assert_eq!(
                found.map_err(|error| format!("{error:#}")),
                expected.map(str::to_owned),
                "{available:?}"
            );
        }
    }
}
