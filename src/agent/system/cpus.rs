//! CPUs that the programs of a gVisor computer see and count.
//!
//! gVisor's kernel has every CPU of the host and schedules nothing itself. A CPU affinity there changes only what
//! programs read, and programs inherit it (docs/engines/gvisor.md).

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use procfs::process::all_processes;

use hotdesk_base::step_error::StepError;

/// Most passes over all threads. A thread that starts during a pass may still have the earlier CPUs; a pass that finds
/// no such thread is the last one.
const MAX_PASSES: usize = 10;

/// Lets this process and those that it starts see the first `count` CPUs.
///
/// # Errors
/// When the kernel refuses.
pub fn limit_own(count: usize) -> Result<(), StepError> {
    sched_setaffinity(Pid::from_raw(0), &first(count)?).map_err(StepError::at("sched_setaffinity"))
}

/// Lets all processes of this computer see the first `count` CPUs.
///
/// # Errors
/// When `/proc` cannot be read, the kernel refuses, or processes start faster than they are found.
pub fn limit_all(count: usize) -> Result<(), StepError> {
    // Also this process, so that it shows which of the CPUs the kernel has.
    limit_own(count)?;
    let wanted = sched_getaffinity(Pid::from_raw(0)).map_err(StepError::at("sched_getaffinity"))?;
    for _ in 0..MAX_PASSES {
        if !limit_once(&wanted)? {
            return Ok(());
        }
    }
    Err(StepError::new("processes start faster than their CPUs can be set"))
}

/// Sets the CPUs of each thread that has others; returns whether there was one.
fn limit_once(wanted: &CpuSet) -> Result<bool, StepError> {
    let mut changed = false;
    let processes = all_processes().map_err(StepError::at("/proc"))?;
    // A process or thread that ends meanwhile needs nothing.
    for task in processes.filter_map(|it| it.ok()?.tasks().ok()).flatten().flatten() {
        let thread = Pid::from_raw(task.tid);
        if sched_getaffinity(thread).is_ok_and(|cpus| cpus != *wanted) {
            changed |= sched_setaffinity(thread, wanted).is_ok();
        }
    }
    Ok(changed)
}

/// The first CPUs, at least one. The kernel leaves out those that it does not have.
fn first(count: usize) -> Result<CpuSet, StepError> {
    let mut cpus = CpuSet::new();
    for cpu in 0..count.clamp(1, CpuSet::count()) {
        cpus.set(cpu).map_err(StepError::at("the set of CPUs"))?;
    }
    Ok(cpus)
}
