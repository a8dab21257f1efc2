//! Release of what a boot took from the host. Every step accepts that there is nothing to do, so the same
//! code cleans up after a crash.

use std::fs;
use std::io;
use std::time::Duration;

use crate::EngineResult;
use crate::host::addresses::NetworkConfig;
use crate::host::command::host_error;
use crate::host::files::remove_if_there;
use crate::host::network::name_proxy;
use crate::host::{cgroup, network, slots};
use crate::state::layout::Folder;
use crate::state::memory;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks::both;

/// For a killed first process to end with its namespace: one read of a slow disk may delay it.
pub(crate) const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// Lets a machine that something outside stopped or froze react to its end. A failure is only logged: what
/// does not react is killed.
pub(crate) fn continue_stopped(id: ComputerId) {
    if let Err(error) = cgroup::stopped::resume(id) {
        tracing::warn!(computer = %id, error = format_args!("{error:#}"), "could not continue the stopped processes of a machine that ends; they are killed");
    }
}

fn flush_disk(folder: &Folder) -> EngineResult<()> {
    let disk = folder.disk();
    match fs::File::open(&disk).and_then(|file| file.sync_all()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(host_error("flush the disk", &disk)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn release_network(folder: &Folder, listed: Option<&NetworkConfig>) -> EngineResult<()> {
    name_proxy::remove(&folder.name_proxy())?;
    if let Some(slot) = slots::of_machine(&folder.path)? {
        network::detach(slot)?;
        // A stale entry for an unused address is harmless; a failed stop is not.
        if let Some(network) = listed
            && let Err(error) = network::remove_from_sets(network, slot)
        {
            tracing::warn!(computer = %folder.id, error = format_args!("{error:#}"), "could not remove the stopped guest from the packet rules; the next start in its slot replaces it");
        }
    }
    slots::release(&folder.path)
}

/// Releases the boot of a machine whose processes are gone, and syncs its disk. `listed` is the network if
/// the packet rules have entries for its guest.
pub(crate) fn release_boot(folder: &Folder, listed: Option<&NetworkConfig>) -> EngineResult<()> {
    // Each takes tens of milliseconds, of a suspend too.
    let (flushed, released) = both(|| flush_disk(folder), || release_network(folder, listed))
        .map_err(host_error("flush the disk", &folder.path))?;
    released?;
    flushed?;
    let left = [folder.socket(), folder.runtime_log(), folder.boot_config(), folder.monitor()];
    let more = [
        folder.lxcfs_pid(),
        folder.seed(),
        folder.line_in(),
        folder.line_out(),
        folder.frozen(),
        folder.client_socket(),
    ];
    for path in left.into_iter().chain(more) {
        remove_if_there(&path).map_err(host_error("remove a file of the boot", &path))?;
    }
    memory::drop_leftovers(folder)
}
