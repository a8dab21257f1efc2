//! CPU and memory limits of a running machine, in the files of its control groups (version 1 or 2). A failed
//! change leaves the earlier limits.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::host::cgroup;
use crate::host::command::host_error;
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

/// The period of the CPU quota, in microseconds: the kernel's default.
pub(crate) const CPU_PERIOD: u64 = 100_000;

/// Version 1 counts the buffers of TCP connections apart from memory, so a guest's get a limit of their own: this part of
/// its memory. All sockets of the host together may take 9 % of the host's memory (`tcp_mem`, tcp(7)); guests that have all
/// of that memory take a third of those.
const TCP_PART: u64 = 32;

/// A file of a control group and its new content.
#[derive(Debug)]
struct Setting {
    file: PathBuf,
    text: String,
}

/// Sets the CPU limit of a running machine, in cores.
pub(crate) fn set_cpu(id: ComputerId, cpu: f64) -> EngineResult<()> {
    set_cpu_in(&cgroup::folders(id), cpu)
}

/// Limits the open files of gVisor's own processes. The guest's kernel opens files of the host for its programs, so this
/// is a limit of the whole guest on the host's table of open files.
pub(crate) fn limit_open_files(id: ComputerId, most: u64) -> EngineResult<()> {
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    for pid in cgroup::processes(id)? {
        let Some(process) = Pid::from_raw(pid.cast_signed()) else { continue };
        match prlimit(Some(process), Resource::Nofile, limit) {
            // It has ended.
            Ok(_) | Err(Errno::SRCH) => {}
            Err(error) => return Err(EngineError::failed("limit the guest's open files", error)),
        }
    }
    Ok(())
}

/// Sets the memory limit of a running machine.
///
/// # Errors
/// `MemoryInUse` when the machine uses more even after the kernel has reclaimed; no process of the guest is
/// killed.
pub(crate) fn set_memory(id: ComputerId, bytes: u64) -> EngineResult<()> {
    set_memory_in(&cgroup::folders(id), bytes)
}

/// The lines of `memory.stat` with dirty pages and pages under writeback, of version 2 and of version 1.
const UNWRITTEN: [[&str; 2]; 2] = [["file_dirty", "file_writeback"], ["total_dirty", "total_writeback"]];
/// Those with pages that belong to no file on a disk.
const RESIDENT: [[&str; 2]; 2] = [["anon", "shmem"], ["total_rss", "total_shmem"]];

/// Bytes of a running machine's file pages that are not written back yet; 0 where the kernel does not say.
pub(crate) fn unwritten(id: ComputerId) -> u64 {
    memory(id, UNWRITTEN)
}

/// Bytes of a running machine's memory without file pages; 0 where the kernel does not say.
pub(crate) fn resident(id: ComputerId) -> u64 {
    memory(id, RESIDENT)
}

fn memory(id: ComputerId, names: [[&str; 2]; 2]) -> u64 {
    let stat = find(&cgroup::folders(id), "memory.stat");
    stat.and_then(|file| fs::read_to_string(file).ok()).map_or(0, |text| sum_of(&text, names))
}

/// The sum of the named lines of a `memory.stat`. Only version 1 has lines that count the groups below as well.
fn sum_of(stat: &str, [v2, v1]: [[&str; 2]; 2]) -> u64 {
    let names = if stat.contains("\ntotal_") { v1 } else { v2 };
    let lines = stat.lines().filter_map(|line| line.split_once(' '));
    lines.filter(|(name, _)| names.contains(name)).filter_map(|(_, bytes)| bytes.parse::<u64>().ok()).sum()
}

/// The quota in microseconds of every [`CPU_PERIOD`], and the shares (2 to 262144), of a number of cores.
pub(crate) fn cpu_limits(cpu: f64) -> (u64, u64) {
    // The kernel takes no less than a hundredth of a core. Both clamps keep the casts exact.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    ((cpu * 100_000.0).round().clamp(1000.0, 1e9) as u64, (cpu * 1024.0).round().clamp(2.0, 262_144.0) as u64)
}

fn set_cpu_in(groups: &[PathBuf], cpu: f64) -> EngineResult<()> {
    const STEP: &str = "change the CPU quota";
    let (quota, shares) = cpu_limits(cpu);
    let settings = if let Some(file) = find(groups, "cpu.max") {
        let weight = Setting { file: file.with_file_name("cpu.weight"), text: weight(shares).to_string() };
        [Setting { file, text: format!("{quota} {}", CPU_PERIOD) }, weight]
    } else {
        let file = find(groups, "cpu.cfs_quota_us").ok_or_else(|| lacking(STEP))?;
        let shares = Setting { file: file.with_file_name("cpu.shares"), text: shares.to_string() };
        [Setting { file, text: quota.to_string() }, shares]
    };
    set(&settings).map_err(|(file, error)| host_error(STEP, &file)(error))
}

fn set_memory_in(groups: &[PathBuf], bytes: u64) -> EngineResult<()> {
    const STEP: &str = "change the memory limit";
    let text = bytes.to_string();
    if let Some(file) = find(groups, "memory.max") {
        return reclaim_first(STEP, &file, bytes, || {
            set(&[Setting { file: file.clone(), text }])
                .map_err(|(file, error)| host_error(STEP, &file)(error))
        });
    }
    let limit = find(groups, "memory.limit_in_bytes").ok_or_else(|| lacking(STEP))?;
    let before = number(&limit).map_err(host_error(STEP, &limit))?;
    let usage = limit.with_file_name("memory.usage_in_bytes");
    // Memory with swap may never be less than memory alone; kernels without swap accounting lack the file.
    let both = find(groups, "memory.memsw.limit_in_bytes");
    let mut files = vec![limit];
    files.extend(both);
    if bytes > before {
        files.reverse();
    }
    let settings: Vec<_> = files.into_iter().map(|file| Setting { file, text: text.clone() }).collect();
    set(&settings).map_err(|(file, error)| {
        // Version 1 reclaims first, then refuses.
        if error.kind() != io::ErrorKind::ResourceBusy {
            return host_error(STEP, &file)(error);
        }
        match number(&usage) {
            Ok(used) => EngineError::MemoryInUse { used, limit: bytes },
            Err(error) => host_error(STEP, &usage)(error),
        }
    })?;
    set_tcp_memory_in(groups, bytes)
}

/// Limits the buffers of TCP connections of a machine with this memory, where the kernel counts them apart (version 1).
pub(crate) fn set_tcp_memory(id: ComputerId, memory_bytes: u64) -> EngineResult<()> {
    set_tcp_memory_in(&cgroup::folders(id), memory_bytes)
}

fn set_tcp_memory_in(groups: &[PathBuf], memory_bytes: u64) -> EngineResult<()> {
    const STEP: &str = "limit the buffers of TCP connections";
    let Some(file) = find(groups, "memory.kmem.tcp.limit_in_bytes") else { return Ok(()) };
    match fs::write(&file, (memory_bytes / TCP_PART).to_string()) {
        // The machine uses more at the moment: it keeps the limit of its larger memory.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(()),
        written => written.map_err(host_error(STEP, &file)),
    }
}

/// Version 2 kills processes above a new `memory.max`. So `memory.high` is set first, which reclaims, and
/// `then` runs only if the guest fits.
fn reclaim_first(
    step: &'static str,
    max: &Path,
    bytes: u64,
    then: impl FnOnce() -> EngineResult<()>,
) -> EngineResult<()> {
    let (high, current) = (max.with_file_name("memory.high"), max.with_file_name("memory.current"));
    let failed = host_error(step, &high);
    let before = fs::read_to_string(&high).map_err(&failed)?;
    fs::write(&high, bytes.to_string()).map_err(&failed)?;
    let outcome = match number(&current) {
        Ok(used) if used > bytes => Err(EngineError::MemoryInUse { used, limit: bytes }),
        Ok(_) => then(),
        Err(error) => Err(host_error(step, &current)(error)),
    };
    fs::write(&high, before.trim()).map_err(&failed).and(outcome)
}

fn lacking(step: &'static str) -> EngineError {
    EngineError::failed(step, "the machine has no control group with this controller")
}

/// Writes the settings in order. When the kernel refuses one, restores those before it.
fn set(settings: &[Setting]) -> Result<(), (PathBuf, io::Error)> {
    let Some((first, rest)) = settings.split_first() else { return Ok(()) };
    let failed = |error| (first.file.clone(), error);
    let before = fs::read_to_string(&first.file).map_err(failed)?;
    fs::write(&first.file, &first.text).map_err(failed)?;
    set(rest).inspect_err(|_| {
        if let Err(error) = fs::write(&first.file, before.trim()) {
            tracing::warn!(%error, file = %first.file.display(), "could not restore a control group after a failed change");
        }
    })
}

/// The file of that name in the group that has it.
pub(crate) fn find(groups: &[PathBuf], name: &str) -> Option<PathBuf> {
    groups.iter().map(|group| group.join(name)).find(|file| file.exists())
}

fn number(file: &Path) -> io::Result<u64> {
    fs::read_to_string(file)?.trim().parse().map_err(io::Error::other)
}

/// Shares of v1 (2 to 262144) as a weight of v2 (1 to 10000), as OCI runtimes convert them.
fn weight(shares: u64) -> u64 {
    1 + shares.saturating_sub(2) * 9999 / 262_142
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Group(tempfile::TempDir);

    impl Group {
        fn with(files: &[(&str, &str)]) -> Self {
            let this = Self(tempfile::tempdir().unwrap());
            for (name, text) in files {
                fs::write(this.0.path().join(name), text).unwrap();
            }
            this
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.0.path().join(name)).unwrap()
        }

        fn folders(&self) -> Vec<PathBuf> {
            vec![self.0.path().join("elsewhere"), self.0.path().to_owned()]
        }
    }

    #[test]
    fn pages_are_summed_for_both_versions() {
        for (stat, unwritten, resident) in [
            ("anon 9\nfile 8\nshmem 5\nfile_dirty 4096\nfile_writeback 8192\n", 12288, 14),
            (
                "rss 1\nshmem 1\ndirty 1\ntotal_rss 7\ntotal_shmem 3\ntotal_dirty 4096\ntotal_writeback 0\n",
                4096,
                10,
            ),
            ("", 0, 0),
        ] {
            assert_eq!((sum_of(stat, UNWRITTEN), sum_of(stat, RESIDENT)), (unwritten, resident), "{stat}");
        }
    }

    #[test]
    fn cpu_limits_are_written_for_both_versions() {
        let group = Group::with(&[("cpu.max", "max 100000\n"), ("cpu.weight", "100\n")]);
        set_cpu_in(&group.folders(), 2.0).unwrap();
        assert_eq!((group.read("cpu.max"), group.read("cpu.weight")), ("200000 100000".into(), "79".into()));
        let group = Group::with(&[("cpu.cfs_quota_us", "-1\n"), ("cpu.shares", "1024\n")]);
        set_cpu_in(&group.folders(), 0.5).unwrap();
        assert_eq!(
            (group.read("cpu.cfs_quota_us"), group.read("cpu.shares")),
            ("50000".into(), "512".into())
        );
        set_cpu_in(&[], 1.0).unwrap_err();
    }

    #[test]
    fn a_refused_setting_restores_those_before_it() {
        let group = Group::with(&[("cpu.max", "max 100000\n")]);
        set_cpu_in(&group.folders(), 2.0).unwrap_err();
        assert_eq!(group.read("cpu.max"), "max 100000");
    }

    #[test]
    fn v2_is_not_bounded_below_what_is_used() {
        let files = [("memory.max", "4096\n"), ("memory.high", "max\n"), ("memory.current", "2000\n")];
        let group = Group::with(&files);
        let refused = set_memory_in(&group.folders(), 1000).unwrap_err();
        assert!(matches!(refused, EngineError::MemoryInUse { used: 2000, limit: 1000 }), "{refused}");
        assert_eq!((group.read("memory.max"), group.read("memory.high")), ("4096\n".into(), "max".into()));
        set_memory_in(&group.folders(), 3000).unwrap();
        assert_eq!((group.read("memory.max"), group.read("memory.high")), ("3000".into(), "max".into()));
    }

    #[test]
    fn v1_limits_are_written_with_and_without_swap_accounting() {
        let group = Group::with(&[("memory.limit_in_bytes", "4096\n")]);
        set_memory_in(&group.folders(), 8192).unwrap();
        assert_eq!(group.read("memory.limit_in_bytes"), "8192");
        let group =
            Group::with(&[("memory.limit_in_bytes", "4096\n"), ("memory.memsw.limit_in_bytes", "4096\n")]);
        set_memory_in(&group.folders(), 8192).unwrap();
        assert_eq!(group.read("memory.memsw.limit_in_bytes"), "8192");
    }

    #[test]
    fn v1_buffers_of_connections_follow_the_memory() {
        let group = Group::with(&[
            ("memory.limit_in_bytes", "4096\n"),
            ("memory.kmem.tcp.limit_in_bytes", "9223372036854771712\n"),
        ]);
        set_tcp_memory_in(&group.folders(), 64 << 20).unwrap();
        assert_eq!(group.read("memory.kmem.tcp.limit_in_bytes"), (2 << 20).to_string());
        set_memory_in(&group.folders(), 128 << 20).unwrap();
        assert_eq!(group.read("memory.kmem.tcp.limit_in_bytes"), (4 << 20).to_string());
        set_tcp_memory_in(&[], 64 << 20).unwrap();
    }
}
