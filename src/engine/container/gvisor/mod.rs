//! gVisor (`runsc`), whose guests have a kernel of their own in user space and can be suspended.
//!
//! gVisor cannot save a guest that has a unix socket of the host open. So the agent listens in the guest's
//! own network, on a port below 1024 that only the guest's root can take. Only the host's root reaches it,
//! through the guest's veth pair: the packet rules (`host/rules.nft`) reject packets from guests and drop
//! those from outside. The agent requires its token as everywhere.

mod suspend;

use std::ffi::CStr;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};

use crate::container::runtime::Runtime;
use crate::container::stage;
use crate::host::command::{check_status, host_error, run, run_with_timeout, tool};
use crate::state::layout::{Folder, remove_if_there};
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

/// Flags of every call of `runsc`. The host's overlay outlives the guest's kernel; an overlay of gVisor would
/// be lost with it. Outgoing connections of the guest end when memory is saved.
pub(super) const FLAGS: [&str; 4] =
    ["--platform=systrap", "--network=sandbox", "--overlay2=none", "--net-disconnect-ok"];

/// Attempts to end the remaining connections, and the pause before each: half a second in all. The kernel
/// ends most at once.
const CUT_TRIES: u32 = 25;
const CUT_PAUSE: Duration = Duration::from_millis(20);

/// `runsc` takes this path as the sign of the host's own network namespace. Newer kernels show it in every
/// namespace.
const HOST_NETWORK_SIGN: &str = "/proc/sys/net";
const EMPTY_TMPFS: &CStr = c"size=4k,nr_inodes=1,mode=0555";

/// Hard-links the agent's executable of a boot, because saved memory refers to it after the controller was
/// upgraded.
pub(super) fn pin_agent(folder: &Folder, agent: &Path) -> EngineResult<PathBuf> {
    let path = folder.agent();
    let failed = host_error("link the machine's agent", &path);
    remove_if_there(&path).and_then(|()| fs::hard_link(agent, &path)).map_err(failed)?;
    Ok(path)
}

/// Boots gVisor's kernel once, for a program that does nothing.
pub(super) fn try_boot(runtime: &Runtime) -> EngineResult<()> {
    let mut command = runtime.call();
    command.args(["--network=none", "--ignore-cgroups", "do", "/bin/true"]);
    run("boot a kernel in user space", command).map(drop)
}

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

/// Ends the host's connections to an agent whose clients are blocked. Memory that is saved with an open
/// connection cannot be resumed: the agent's listener then blocks forever (gVisor 20240729). The guest's
/// kernel learns of the end when it runs.
fn cut_connections(agent: SocketAddr) -> EngineResult<()> {
    const STEP: &str = "end the connections to the agent";
    let ss = |options: &[&str], states: &str| {
        let (ip, port) = (agent.ip().to_string(), format!(":{}", agent.port()));
        let mut ss = tool("ss");
        ss.args(options).args(["state", states, "exclude", "time-wait"]);
        ss.args(["dst", ip.as_str(), "dport", "=", port.as_str()]);
        run(STEP, ss)
    };
    if ss(&["-Htn"], "connected")?.trim().is_empty() {
        return Ok(());
    }
    // A connection that began before the rules blocked it may still be established.
    ss(&["-Htn", "-K"], "connected")?;
    for _ in 0..CUT_TRIES {
        std::thread::sleep(CUT_PAUSE);
        // Connections in SYN-SENT stay: their packets are dropped until the guest continues.
        if ss(&["-Htn"], "synchronized")?.trim().is_empty() {
            return Ok(());
        }
        ss(&["-Htn", "-K"], "synchronized")?;
    }
    Err(EngineError::failed(STEP, "some remain or are new after half a second"))
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
