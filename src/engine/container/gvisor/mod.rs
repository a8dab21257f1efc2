//! gVisor (`runsc`), whose guests have a kernel of their own in user space and can be suspended.
//!
//! gVisor cannot save a guest that has a unix socket of the host open. So the agent listens in the guest's
//! own network, on a port below 1024 that only the guest's root can take. Only the host's root reaches it,
//! through the guest's veth pair: the packet rules (`host/network/rules.nft`) reject packets from guests and drop
//! those from outside. The agent requires its token as everywhere.

mod hangup;
mod suspend;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::container::runtime::Runtime;
use crate::host::command::{run, tool};
use crate::state::disk_copy::link_or_copy;
use crate::state::layout::Folder;
use crate::{EngineError, EngineResult};

/// Attempts to end the remaining connections, and the pause before each: half a second in all. The kernel
/// ends most at once.
const CUT_TRIES: u32 = 25;
const CUT_PAUSE: Duration = Duration::from_millis(20);

/// Links the agent's executable of a boot, because saved memory refers to it after the controller was
/// upgraded.
pub(super) fn pin_agent(folder: &Folder, agent: &Path) -> EngineResult<PathBuf> {
    let path = folder.agent();
    link_or_copy(agent, &path)?;
    Ok(path)
}

/// Boots gVisor's kernel once, for a program that does nothing.
pub(super) fn try_boot(runtime: &Runtime) -> EngineResult<()> {
    let mut command = runtime.call();
    command.args(["--network=none", "--ignore-cgroups", "do", "/bin/true"]);
    run("boot a kernel in user space", command).map(drop)
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
