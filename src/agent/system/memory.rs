//! Total and used memory of the computer.
//!
//! Sources in this order: the kernel's file when lxcfs serves it with the computer's own figures, the limit that the
//! engine wrote to a file, the control group, the machine.

use std::path::Path;

use rustix::fs::statfs;
use serde::Deserialize;
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use hotdesk_domain::error::{Error, Result};

/// File in which an engine writes the computer's size: a container sees no control group and the memory of
/// its host.
const LIMITS: &str = "/run/hotdesk/limits.json";
/// Folders whose file systems are in memory.
const MEMORY_FOLDERS: [&str; 2] = ["/dev/shm", "/run"];
/// `TMPFS_MAGIC` (statfs(2)).
pub(super) const TMPFS: u64 = 0x0102_1994;
/// `FUSE_SUPER_MAGIC` (statfs(2)).
const FUSE: u64 = 0x6573_5546;
/// The kernel's memory figures. lxcfs serves this file where the engine uses it; it follows a live resize, unlike
/// [`LIMITS`].
const MEMINFO: &str = "/proc/meminfo";

/// The part of the engine's file that is read.
#[derive(Deserialize)]
struct EngineLimits {
    memory_bytes: u64,
}

/// Returns the total and the used bytes. May block.
///
/// # Errors
/// `Internal` when the kernel's memory figures cannot be read.
pub fn read() -> Result<(u64, u64)> {
    let kinds = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let failed = |error| Error::internal(format!("reading the memory: {error}"));
    let system = System::new_with_specifics(kinds).map_err(failed)?;
    let machine = (system.total_memory(), system.used_memory());
    if is_on(MEMINFO, FUSE) {
        return Ok(machine);
    }
    if let Some(limit) = bounding_limit(engine_limit(Path::new(LIMITS)), machine.0) {
        return Ok((limit, used_bytes().min(limit)));
    }
    Ok(match system.cgroup_limits() {
        Some(limits) if limits.total_memory < machine.0 => {
            (limits.total_memory, limits.total_memory.saturating_sub(limits.free_memory))
        }
        _ => machine,
    })
}

/// The engine's limit, if the machine has more than it. A machine without a figure (0) has an lxcfs that has ended.
fn bounding_limit(engine_limit: Option<u64>, machine: u64) -> Option<u64> {
    engine_limit.filter(|limit| machine == 0 || *limit < machine)
}

/// Whether a path is on a file system of this type.
fn is_on(path: &str, kind: u64) -> bool {
    statfs(path).is_ok_and(|facts| u64::try_from(facts.f_type) == Ok(kind))
}

fn engine_limit(limits: &Path) -> Option<u64> {
    let note: EngineLimits = serde_json::from_slice(&std::fs::read(limits).ok()?).ok()?;
    Some(note.memory_bytes)
}

/// Anonymous memory of all processes and the files in memory, in bytes. The engine's limit also counts
/// caches; they are left out here, because the kernel frees them on demand.
fn used_bytes() -> u64 {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let anonymous_bytes: u64 = processes
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok())
        .filter_map(|status| anonymous_bytes(&status))
        .sum();
    let files: u64 = MEMORY_FOLDERS
        .iter()
        .filter(|folder| is_on(folder, TMPFS))
        .filter_map(|folder| statfs(*folder).ok())
        .map(|facts| (facts.f_blocks - facts.f_bfree) * u64::try_from(facts.f_bsize).unwrap_or(0))
        .sum();
    anonymous_bytes + files
}

/// `RssAnon` of a process status file in bytes (proc_pid_status(5)).
fn anonymous_bytes(status: &str) -> Option<u64> {
    let (_, rest) = status.split_once("\nRssAnon:")?;
    rest.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_s_limit_counts_below_the_machine_s_memory_and_without_it() {
        for (limit, machine, expected) in [
            (Some(4), 24, Some(4)),
            (Some(4), 4, None),
            (Some(8), 4, None),
            (Some(4), 0, Some(4)),
            (None, 4, None),
        ] {
            assert_eq!(bounding_limit(limit, machine), expected, "{limit:?} of {machine}");
        }
    }

    #[test]
    fn notes_and_processes_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("limits.json");
        assert_eq!(engine_limit(&note), None);
        std::fs::write(&note, r#"{"cpu": 1.5, "memory_bytes": 4294967296, "disk_bytes": 1}"#).unwrap();
        assert_eq!(engine_limit(&note), Some(4 << 30));
        assert_eq!(
            anonymous_bytes("Name:\tx\nVmRSS:\t  99 kB\nRssAnon:\t  12 kB\nRssFile:\t 3 kB\n"),
            Some(12 * 1024)
        );
        assert_eq!(anonymous_bytes("Name:\tkthreadd\n"), None);
        let own = anonymous_bytes(&std::fs::read_to_string("/proc/self/status").unwrap()).unwrap();
        assert!(own > 0 && used_bytes() >= own);
    }
}
