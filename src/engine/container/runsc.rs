//! Particulars of `runsc`, gVisor's OCI runtime: flags, the guest's network, and removal of records.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};
use serde::Deserialize;

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

/// How late the kernel may wake gVisor's threads whose timer is up, so that it wakes them less often. One of them sleeps for 0.4 ms
/// all the time (`systrap.controlFastPath` of version 20240729), which costs 3.5 % of a processor for an idle guest; so it costs 1 %.
/// Timers of guests that are due in less time than this come late by at most as much.
const TIMER_SLACK: Duration = Duration::from_millis(5);

/// Sets [`TIMER_SLACK`] for what this thread starts from now on, and for all that those processes start (`PR_SET_TIMERSLACK`,
/// prctl(2)).
pub(super) fn coalesce_timers_of_children(step: &'static str) -> EngineResult<()> {
    let nanoseconds = u64::try_from(TIMER_SLACK.as_nanos()).unwrap_or(u64::MAX);
    nix::sys::prctl::set_timerslack(nanoseconds)
        .map_err(|error| EngineError::failed(step, format!("let its timers be late: {error}")))
}

/// Runs a command of `runsc` that sets up the guest's network, with [`HOST_NETWORK_SIGN`] hidden.
pub(crate) fn run_with_guest_network(
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

/// `runsc`'s record of a container, as far as it is read here. Version 20240729 writes it.
#[derive(Debug, Deserialize)]
pub(crate) struct ContainerRecord {
    pub(crate) status: String,
    pub(super) spec: RecordedSpec,
    pub(crate) sandbox: RecordedSandbox,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RecordedSpec {
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RecordedSandbox {
    pub(crate) pid: u32,
}

/// `runsc`'s record of a machine, read without a question to the guest's kernel; `None` when there is none that
/// can be read.
pub(crate) fn record(root: &Path, id: ComputerId) -> io::Result<Option<ContainerRecord>> {
    let record = records(root, id)?.into_iter().find(|path| path.extension().is_some_and(|it| it == "state"));
    let Some(text) = record.map(fs::read).transpose()? else { return Ok(None) };
    Ok(serde_json::from_slice(&text).ok())
}

/// Removes `runsc`'s record of a machine and its control socket.
pub(super) fn remove_record(root: &Path, id: ComputerId) -> io::Result<()> {
    records(root, id)?.iter().try_for_each(|path| remove_if_there(path))
}

/// The files that `runsc` has for a machine.
fn records(root: &Path, id: ComputerId) -> io::Result<Vec<PathBuf>> {
    let id = id.to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() && entry.file_name().to_string_lossy().contains(&id) {
            found.push(entry.path());
        }
    }
    Ok(found)
}
