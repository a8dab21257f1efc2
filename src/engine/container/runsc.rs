//! Particulars of `runsc`, gVisor's OCI runtime: flags, the guest's network, and removal of records.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};

use crate::container::stage;
use crate::host::command::{check_status, run_with_timeout};
use crate::host::files::remove_if_there;
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

/// Flags of every call of `runsc`. The host's overlay outlives the guest's kernel; an overlay of gVisor would
/// be lost with it. Outgoing connections of the guest end when memory is saved.
pub(super) const FLAGS: [&str; 4] =
    ["--platform=systrap", "--network=sandbox", "--overlay2=none", "--net-disconnect-ok"];

/// `runsc` takes this path as the sign of the host's own network namespace. Newer kernels show it in every
/// namespace.
const HOST_NETWORK_SIGN: &str = "/proc/sys/net";
const EMPTY_TMPFS: &CStr = c"size=4k,nr_inodes=1,mode=0555";

/// Runs a command of `runsc` that sets up the guest's network, with [`HOST_NETWORK_SIGN`] hidden.
pub(super) fn run_with_guest_network(
    step: &'static str,
    mut command: Command,
    timeout: Duration,
) -> EngineResult<()> {
    stage::in_mount_namespace(move || {
        mount("tmpfs", HOST_NETWORK_SIGN, "tmpfs", MountFlags::RDONLY, EMPTY_TMPFS)
            .map_err(|error| EngineError::failed(step, format!("hide {HOST_NETWORK_SIGN}: {error}")))?;
        let (status, _, complaint) = run_with_timeout(step, &mut command, None, timeout)?;
        check_status(step, status, &complaint)
    })
}

/// Removes `runsc`'s record of a machine and its control socket.
pub(super) fn remove_record(root: &Path, id: ComputerId) -> io::Result<()> {
    let id = id.to_string();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() || !entry.file_name().to_string_lossy().contains(&id) {
            continue;
        }
        remove_if_there(&entry.path())?;
    }
    Ok(())
}
