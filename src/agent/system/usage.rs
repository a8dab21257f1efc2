//! Processor time and disk that the computer has used.
//!
//! The kernel's own sums (`/proc/stat`) are those of the host in a container, and zero under gVisor. The
//! processes are the computer's own everywhere.

use procfs::process::all_processes;
use rustix::fs::statvfs;

use hotdesk_domain::error::{Error, Result};

/// Returns the processor time of all processes since the boot, in milliseconds: of those that run, and of
/// those that ended, as their parents count it. It falls when a process ends for which nobody waits. May block.
///
/// # Errors
/// `Internal` when `/proc` cannot be read.
pub fn processor_ms() -> Result<u64> {
    let failed = |error| Error::internal(format!("reading the processes: {error}"));
    let processes = all_processes().map_err(failed)?;
    // A process that ends meanwhile is counted by its parent.
    let ticks: u64 = processes
        .filter_map(|process| process.ok()?.stat().ok())
        .map(|it| {
            it.utime
                + it.stime
                + u64::try_from(it.cutime).unwrap_or(0)
                + u64::try_from(it.cstime).unwrap_or(0)
        })
        .sum();
    Ok(ticks.saturating_mul(1000) / procfs::ticks_per_second().max(1))
}

/// Returns the total and the used bytes of the disk. May block.
///
/// # Errors
/// `Internal` when the kernel does not tell them.
pub fn disk() -> Result<(u64, u64)> {
    let facts = statvfs("/").map_err(|error| Error::internal(format!("reading the disk: {error}")))?;
    let bytes = |blocks: u64| blocks.saturating_mul(facts.f_frsize);
    Ok((bytes(facts.f_blocks), bytes(facts.f_blocks.saturating_sub(facts.f_bfree))))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn work_of_this_process_counts() {
        let own = || {
            let stat = procfs::process::Process::myself().unwrap().stat().unwrap();
            (stat.utime + stat.stime) * 1000 / procfs::ticks_per_second()
        };
        let began = own();
        let end = Instant::now() + Duration::from_secs(60);
        while own() < began + 50 {
            assert!(Instant::now() < end, "a loop uses no processor time");
        }
        assert!(processor_ms().unwrap() >= own() - began);
    }

    #[test]
    fn the_disk_has_room_and_content() {
        let (total, used) = disk().unwrap();
        assert!(total > 0 && used <= total, "{used} of {total}");
    }
}
