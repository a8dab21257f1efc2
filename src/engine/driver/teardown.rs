//! What is taken back when a machine stops? Each step is content to find nothing, so that whatever a crash left
//! half made is swept by the same code.

use std::fs;
use std::io;
use std::time::Duration;

use super::addresses::NetworkConfig;
use super::command::host_error;
use super::layout::{Folder, remove_if_there};
use super::{memory, network, slots};
use crate::EngineResult;

/// How long a killed first process may take with all of its namespace: as long as one read of a slow disk takes.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// Takes back a boot whose processes are gone, and brings its disk to the host's. `listed` is the network in which the packet
/// rules know its guest, if they do.
pub(super) fn boot(folder: &Folder, listed: Option<&NetworkConfig>) -> EngineResult<()> {
    if let Some(slot) = slots::held(folder)? {
        network::detach(slot)?;
        // An address that nobody has harms nobody; a stop that fails would.
        if let Some(network) = listed
            && let Err(error) = network::unlist(network, slot)
        {
            tracing::warn!(computer = %folder.id, %error, "the packet rules know a guest that is gone");
        }
    }
    slots::release(folder)?;
    let disk = folder.disk();
    match fs::File::open(&disk).and_then(|file| file.sync_all()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(host_error("flush the disk", &disk)(error));
        }
        Ok(()) | Err(_) => {}
    }
    let left = [folder.socket(), folder.runtime_log(), folder.boot_config(), folder.monitor()];
    for path in left.into_iter().chain([folder.seed(), folder.line_in(), folder.line_out()]) {
        remove_if_there(&path).map_err(host_error("remove what a boot left", &path))?;
    }
    memory::drop_leftovers(folder)
}
