//! Detection of gVisor, whose kernel needs workarounds.

use std::ffi::CStr;
use std::sync::OnceLock;

use nix::libc;

/// The kernel version (`uname -v`) that every gVisor reports, whatever the host's kernel is.
const GVISOR_VERSION: &CStr = c"#1 SMP Sun Jan 10 15:06:54 PST 2016";

/// Whether this program runs under gVisor. Memory that gVisor saved is only restored under gVisor, so the answer never changes.
pub(super) fn is_under_gvisor() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(kernel_is_gvisor)
}

#[allow(unsafe_code)]
fn kernel_is_gvisor() -> bool {
    // SAFETY: all fields are arrays of characters, for which zeros are valid.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `names` is writable and lives until the call returns.
    let failed = unsafe { libc::uname(&raw mut names) } != 0;
    // SAFETY: uname(2) ends each name with a zero byte within its array.
    !failed && unsafe { CStr::from_ptr(names.version.as_ptr()) } == GVISOR_VERSION
}
