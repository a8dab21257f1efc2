//! What is different where a guest has a kernel of its own in user space (gVisor's `runsc`)? How its agent is reached, how the
//! runtime is called, and that its memory can be kept.
//!
//! No unix socket of the host's may be open in a guest whose memory is saved, so the agent listens in the guest's own
//! network, on a port below 1024 that nobody but the guest's root can take. Only the host's end of the guest's veth pair
//! leads there: packets between guests are rejected, the world's are dropped, and of the host's users root alone may send
//! them (`rules.nft`); the token is asked for as everywhere.

mod suspend;

use std::ffi::CStr;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};

use super::command::{host_error, judge, run, run_patiently, tool};
use super::layout::{Folder, remove_if_there};
use super::runtime::Runtime;
use super::stage;
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

/// Asked of every call of `runsc`. The disk is the host's overlay, which outlives the guest's kernel, so that gVisor puts
/// none of its own above it (it would be lost with the kernel); connections that leave the guest end when memory is saved.
pub(super) const FLAGS: [&str; 4] =
    ["--platform=systrap", "--network=sandbox", "--overlay2=none", "--net-disconnect-ok"];

/// Tries at ending what is left, and the pause before each: what the kernel ends at all it ends at once; half a second in all.
const CUT_TRIES: u32 = 25;
const CUT_PAUSE: Duration = Duration::from_millis(20);

/// What `runsc` takes for the mark of the host's own network namespace. Newer kernels show it in all of them.
const HOST_MARK: &str = "/proc/sys/net";
const NOTHING: &CStr = c"size=4k,nr_inodes=1,mode=0555";

/// Keeps the executable that a boot's agent runs: memory that is saved refers to it, whatever the controller becomes.
pub(super) fn keep_agent(folder: &Folder, agent: &Path) -> EngineResult<PathBuf> {
    let kept = folder.agent();
    let failed = host_error("keep the machine's agent", &kept);
    remove_if_there(&kept).and_then(|()| fs::hard_link(agent, &kept)).map_err(failed)?;
    Ok(kept)
}

/// Boots the guest's kernel once, for a program that does nothing.
pub(super) fn try_out(runtime: &Runtime) -> EngineResult<()> {
    let mut command = runtime.call();
    command.args(["--network=none", "--ignore-cgroups", "do", "/bin/true"]);
    run("boot a kernel in user space", command).map(drop)
}

/// Runs a verb of `runsc` that gives the guest its network.
pub(super) fn run_where_networks_are_told_apart(
    step: &'static str,
    mut command: Command,
    patience: Duration,
) -> EngineResult<()> {
    stage::apart(move || {
        mount("tmpfs", HOST_MARK, "tmpfs", MountFlags::RDONLY, NOTHING)
            .map_err(|error| EngineError::failed(step, format!("hide {HOST_MARK}: {error}")))?;
        let (status, _, complaint) = run_patiently(step, &mut command, None, patience)?;
        judge(step, status, &complaint)
    })
}

/// Ends the host's connections to an agent, which nobody reaches any more. Memory that is saved while one is open does not come
/// back: its agent's listener waits for good (gVisor 20240729). The guest's kernel hears of their end when it runs.
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
    // Whoever asked before the rules held it off may still get through.
    ss(&["-Htn", "-K"], "connected")?;
    for _ in 0..CUT_TRIES {
        std::thread::sleep(CUT_PAUSE);
        // Those that only ask wait until the guest goes on.
        if ss(&["-Htn"], "synchronized")?.trim().is_empty() {
            return Ok(());
        }
        ss(&["-Htn", "-K"], "synchronized")?;
    }
    Err(EngineError::failed(STEP, "they stay, or new ones come"))
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
