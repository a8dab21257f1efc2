//! Sockets of agents for a controller that is not root: links outside of the machines' private folders.
//!
//! ```text
//! <state>/              0711  root           others may traverse it, but see no names
//! <state>/sockets/      0710  root, group of the client
//! <state>/sockets/<id>  0660  root, group of the client: a hard link of machines/<id>/agent.sock
//! ```
//! A link, so that a controller that runs as root finds the socket where it always was, and so that machines that started
//! before the host had a client get their links later.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use crate::host::command::host_error;
use crate::host::files::{private_folder, remove_if_there};
use crate::state::layout::{Folder, StateDir};
use crate::{AgentClient, EngineResult};

/// Makes the folder of the links for a client, removes stale links, and makes those of machines that run.
pub(crate) fn open(state: &StateDir, client: AgentClient) -> EngineResult<()> {
    const STEP: &str = "open the agents' sockets for the controller";
    let folder = state.client_sockets();
    let failed = host_error(STEP, &folder);
    fs::set_permissions(state.root(), Permissions::from_mode(0o711)).map_err(&failed)?;
    private_folder(&folder).map_err(&failed)?;
    give(&folder, client, 0o710).map_err(&failed)?;
    for entry in fs::read_dir(&folder).map_err(&failed)? {
        remove_if_there(&entry.map_err(&failed)?.path()).map_err(&failed)?;
    }
    for id in state.list()? {
        let machine = state.folder(id);
        if machine.socket().exists() {
            publish(&machine, client)?;
        }
    }
    Ok(())
}

/// Makes the link of a machine whose agent has a socket.
pub(crate) fn publish(machine: &Folder, client: AgentClient) -> EngineResult<()> {
    let (socket, link) = (machine.socket(), machine.client_socket());
    let failed = host_error("give the agent's socket to the controller", &link);
    give(&socket, client, 0o660).map_err(&failed)?;
    remove_if_there(&link).and_then(|()| fs::hard_link(&socket, &link)).map_err(failed)
}

fn give(path: &Path, client: AgentClient, mode: u32) -> std::io::Result<()> {
    chown(path, Some(0), Some(client.gid))?;
    fs::set_permissions(path, Permissions::from_mode(mode))
}
