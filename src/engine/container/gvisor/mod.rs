//! gVisor (`runsc`), whose guests have a kernel of their own in user space and can be suspended.
//!
//! gVisor cannot save a guest that has a unix socket of the host open. So the agent listens in the guest's
//! own network, on a port below 1024 that only the guest's root can take. Only the host's root reaches it,
//! through the guest's veth pair: the packet rules (`host/network/rules.nft`) reject packets from guests
//! and drop those from outside. The agent requires its token as everywhere.

mod hangup;
mod suspend;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use self::hangup::await_hangup;
pub(crate) use self::suspend::{load_memory, pause, save_memory, unpause};
use crate::container::runtime::Runtime;
use crate::host::command::run;
use crate::host::network::connections::{ConnectionStates, ConnectionTable};
use crate::state::disk::copy::link_or_copy;
use crate::state::layout::Folder;
use crate::{EngineError, EngineResult};

/// Attempts to end the remaining connections, and the pause between two: half a second in all. The kernel
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

/// Whether this host's kernel ends connections to agents, which a save of memory needs.
pub(super) fn try_connections() -> EngineResult<String> {
    let supported = ConnectionTable::open().and_then(|mut table| table.check_support());
    supported.map_err(|error| EngineError::failed("end connections by sock_diag(7)", error))?;
    Ok("the kernel ends connections to agents before memory is saved".to_owned())
}

/// Ends the host's connections to an agent whose clients are blocked. Memory that is saved with an open
/// connection cannot be resumed: the agent's listener then blocks forever (gVisor 20240729). The guest's
/// kernel learns of the end when it runs.
fn cut_connections(agent: SocketAddr) -> EngineResult<()> {
    const STEP: &str = "end the connections to the agent";
    let failed = |error: io::Error| EngineError::failed(STEP, error);
    let mut table = ConnectionTable::open().map_err(failed)?;
    let mut cut = |states| {
        let found = table.list(agent, states)?;
        found.iter().try_for_each(|connection| table.destroy(connection)).map(|()| found.is_empty())
    };
    if cut(ConnectionStates::Connected).map_err(failed)? {
        return Ok(());
    }
    for attempt in 0..CUT_TRIES {
        if attempt > 0 {
            std::thread::sleep(CUT_PAUSE);
        }
        // One that began before the rules blocked it may still be established. Connections in SYN-SENT
        // stay: their packets are dropped until the guest continues.
        if cut(ConnectionStates::Synchronized).map_err(failed)? {
            return Ok(());
        }
    }
    Err(EngineError::failed(STEP, "some remain or are new after half a second"))
}
