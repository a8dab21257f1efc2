//! How much memory has the computer, and how much of it is in use? What its engine gave it, where that left a note of it; else what
//! the kernel says, of the control group or of the machine.

use std::path::Path;

use rustix::fs::statfs;
use serde::Deserialize;
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use hotdesk_domain::error::{Error, Result};

/// Where an engine notes the computer's size. A container sees no control group of its own, and the whole host's memory.
const LIMITS: &str = "/run/hotdesk/limits.json";
/// Folders that are memory in a computer.
const MEMORY_FOLDERS: [&str; 2] = ["/dev/shm", "/run"];
/// What the kernel calls a file system in memory (`TMPFS_MAGIC`).
const TMPFS: u64 = 0x0102_1994;

/// The part of the note that is read.
#[derive(Deserialize)]
struct Limits {
    memory_bytes: u64,
}

/// Bytes in all and in use. May block.
///
/// # Errors
/// When the kernel does not tell.
pub fn look() -> Result<(u64, u64)> {
    let kinds = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let failed = |error| Error::internal(format!("reading the memory: {error}"));
    let system = System::new_with_specifics(kinds).map_err(failed)?;
    let machine = (system.total_memory(), system.used_memory());
    if let Some(given) = given(Path::new(LIMITS)).filter(|given| *given < machine.0) {
        return Ok((given, held().min(given)));
    }
    Ok(match system.cgroup_limits() {
        Some(limits) if limits.total_memory < machine.0 => {
            (limits.total_memory, limits.total_memory.saturating_sub(limits.free_memory))
        }
        _ => machine,
    })
}

fn given(limits: &Path) -> Option<u64> {
    let note: Limits = serde_json::from_slice(&std::fs::read(limits).ok()?).ok()?;
    Some(note.memory_bytes)
}

/// What the processes here hold that is in no file, and what lies in memory's folders. Less than the limit counts, which
/// includes caches; these make room when it is needed.
fn held() -> u64 {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let anonymous: u64 = processes
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok())
        .filter_map(|status| anonymous(&status))
        .sum();
    let files: u64 = MEMORY_FOLDERS
        .iter()
        .filter_map(|folder| statfs(*folder).ok())
        .filter(|facts| u64::try_from(facts.f_type) == Ok(TMPFS))
        .map(|facts| (facts.f_blocks - facts.f_bfree) * u64::try_from(facts.f_bsize).unwrap_or(0))
        .sum();
    anonymous + files
}

/// The bytes of `RssAnon` (proc(5)).
fn anonymous(status: &str) -> Option<u64> {
    let (_, rest) = status.split_once("\nRssAnon:")?;
    rest.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_and_processes_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("limits.json");
        assert_eq!(given(&note), None);
        std::fs::write(&note, r#"{"cpu": 1.5, "memory_bytes": 4294967296, "disk_bytes": 1}"#).unwrap();
        assert_eq!(given(&note), Some(4 << 30));
        assert_eq!(
            anonymous("Name:\tx\nVmRSS:\t  99 kB\nRssAnon:\t  12 kB\nRssFile:\t 3 kB\n"),
            Some(12 * 1024)
        );
        assert_eq!(anonymous("Name:\tkthreadd\n"), None);
        let own = anonymous(&std::fs::read_to_string("/proc/self/status").unwrap()).unwrap();
        assert!(own > 0 && held() >= own);
    }
}
