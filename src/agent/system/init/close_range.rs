//! Workaround for close_range(2) of gVisor.
//!
//! gVisor (20240729) answers EINVAL where the last descriptor is above `INT_MAX`. GLib asks for `UINT_MAX` before it executes a
//! program, and gives up on any error but ENOSYS: neither the window manager, the panel nor the file manager could start a program.
//! So process 1 has a filter for system calls (seccomp(2)) that answers ENOSYS to such a call, and GLib then closes its descriptors
//! one by one. All programs of the computer inherit it. It takes away no privilege.

use nix::errno::Errno;
use nix::libc::{self, sock_fprog};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::system::gvisor::is_under_gvisor;
use hotdesk_base::step_error::StepError;

/// Position of the last descriptor among the arguments of close_range(2).
const LAST: u8 = 1;

/// Installs the filter under gVisor. This process must have one thread, and `CAP_SYS_ADMIN` in the kernel of its guest: a process
/// without it gets a filter only when its programs may never gain privileges, and then sudo(8) would not work.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn refuse_large_ranges() -> Result<(), StepError> {
    if is_under_gvisor() { install(&filter()?) } else { Ok(()) }
}

fn filter() -> Result<BpfProgram, StepError> {
    let at = StepError::at("filter for close_range");
    let built = || -> Result<BpfProgram, seccompiler::BackendError> {
        let large = SeccompCondition::new(
            LAST,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::Gt,
            u64::from(i32::MAX.unsigned_abs()),
        )?;
        let rules = vec![SeccompRule::new(vec![large])?];
        let refusal = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        let calls = [(libc::SYS_close_range, rules)].into();
        SeccompFilter::new(calls, SeccompAction::Allow, refusal, std::env::consts::ARCH.try_into()?)?
            .try_into()
    };
    built().map_err(at)
}

#[allow(unsafe_code)]
fn install(filter: &BpfProgram) -> Result<(), StepError> {
    let at = StepError::at("PR_SET_SECCOMP");
    let len = u16::try_from(filter.len()).map_err(|_| at(Errno::E2BIG))?;
    // Both crates name the kernel's `struct sock_filter`.
    let program = sock_fprog { len, filter: filter.as_ptr().cast_mut().cast() };
    // SAFETY: `program` points at `len` instructions, which the kernel copies.
    let result =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program, 0, 0) };
    Errno::result(result).map(drop).map_err(at)
}
