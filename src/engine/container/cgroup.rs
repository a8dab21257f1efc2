//! What of a machine is in the host's control groups, and how does all of it end? Speaks v1, hybrid and v2.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::command::host_error;
use crate::base::ids::ComputerId;
use crate::base::wait;
use crate::engine::{EngineError, EngineResult};

const MOUNTS: &str = "/sys/fs/cgroup";
/// The group of all machines on a host.
const PARENT: &str = "hotdesk";
/// How long killed processes may take to be gone: one in an uninterruptible read of a slow disk ends after it.
const KILL_PATIENCE: Duration = Duration::from_secs(30);

/// A machine's group as the OCI runtime is told, under every hierarchy.
pub(super) fn path(id: ComputerId) -> String {
    format!("/{PARENT}/{id}")
}

/// The hierarchies' roots: one under v2, one per controller under v1, with `unified` beside them when hybrid.
pub(super) fn roots() -> Vec<PathBuf> {
    let mounts = Path::new(MOUNTS);
    if mounts.join("cgroup.controllers").exists() {
        return vec![mounts.to_owned()];
    }
    let Ok(entries) = fs::read_dir(mounts) else { return Vec::new() };
    // Controllers mounted together appear as links to one folder; the folder alone counts.
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Whether the host speaks v2 alone.
pub(super) fn is_unified() -> bool {
    Path::new(MOUNTS).join("cgroup.controllers").exists()
}

/// The machine's folders that exist.
pub(super) fn folders(id: ComputerId) -> Vec<PathBuf> {
    let own = format!("{PARENT}/{id}");
    roots().into_iter().map(|root| root.join(&own)).filter(|folder| folder.is_dir()).collect()
}

/// Every machine that has a group on this host, whichever controller made it.
pub(super) fn machines() -> io::Result<BTreeSet<ComputerId>> {
    let mut found = BTreeSet::new();
    for root in roots() {
        for folder in children(&root.join(PARENT))? {
            found.extend(folder.file_name().and_then(|name| name.to_str()?.parse::<ComputerId>().ok()));
        }
    }
    Ok(found)
}

/// Whether a process is the machine's. A guest cannot leave its group: it has no cgroup file system.
pub(super) fn holds(id: ComputerId, pid: u32) -> bool {
    let own = path(id);
    fs::read_to_string(format!("/proc/{pid}/cgroup"))
        .is_ok_and(|text| text.lines().any(|line| line.ends_with(&own) || line.contains(&format!("{own}/"))))
}

/// Kills whatever is left of a machine and removes its groups.
pub(super) async fn clear(id: ComputerId) -> EngineResult<()> {
    const STEP: &str = "clear the control groups";
    let cleared = wait::until(KILL_PATIENCE, || async {
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
        Err(EngineError::failed(STEP, format!("processes do not end in {}", named.join(", "))))
    })
}

/// Sends SIGKILL to everything in a group and below.
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
    Ok(())
}

fn members(folder: &Path) -> io::Result<Vec<Pid>> {
    let text = match fs::read_to_string(folder.join("cgroup.procs")) {
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
