//! System calls of a tool in the sandbox. To all others the kernel answers that it does not have them.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use crate::{EngineError, EngineResult};

/// Calls with any arguments: the start of a program, one file, memory, and threads.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_execve,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_prctl,
    libc::SYS_pread64,
    libc::SYS_prlimit64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_tgkill,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
];
/// Calls that only this architecture has.
#[cfg(target_arch = "x86_64")]
const ALSO_ALLOWED: &[libc::c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const ALSO_ALLOWED: &[libc::c_long] = &[];

/// The filter. Its default answer makes libraries start threads by `clone`, whose flags a filter can read.
pub(super) fn filter(step: &'static str) -> EngineResult<BpfProgram> {
    let failed = |error: seccompiler::BackendError| {
        EngineError::failed(step, format!("the filter of system calls: {error}"))
    };
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    let is_thread = SeccompCmpOp::MaskedEq(thread);
    let starts_thread = SeccompCondition::new(0, SeccompCmpArgLen::Qword, is_thread, thread)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(failed)?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().chain(ALSO_ALLOWED).map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_clone, vec![starts_thread]);
    let unknown = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(failed)?;
    SeccompFilter::new(rules, unknown, SeccompAction::Allow, architecture)
        .and_then(BpfProgram::try_from)
        .map_err(failed)
}
