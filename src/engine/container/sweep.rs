//! What is taken back when a machine stops or goes? Each step is content to find nothing, so that whatever a crash left
//! half made is swept by the same code.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::command::host_error;
use super::layout::{Folder, StateDir, remove_if_there, sync_folder};
use super::runtime::Kind;
use super::{Inner, gvisor, network, slots};
use crate::base::ids::ComputerId;
use crate::engine::EngineResult;

/// How long a killed first process may take with all of its namespace: as long as one read of a slow disk takes.
pub(super) const KILL_PATIENCE: Duration = Duration::from_secs(30);

/// Takes back a boot whose processes and container are gone, and brings its disk to the host's.
pub(super) fn boot(inner: &Inner, folder: &Folder) -> EngineResult<()> {
    if let Some(slot) = slots::held(folder)? {
        network::detach(slot)?;
        let network = &inner.config.network;
        // An address that nobody has harms nobody; a stop that fails would.
        if (network.enabled || inner.runtime.kind() == Kind::Gvisor)
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
    for path in [folder.socket(), folder.runtime_log(), folder.boot_config()] {
        remove_if_there(&path).map_err(host_error("remove what a boot left", &path))?;
    }
    gvisor::drop_leftovers(folder)
}

/// Removes a machine's folder. It leaves the machines' folder at once and whole; the rest is trash with its name.
pub(super) fn folder(state: &StateDir, folder: &Folder) -> EngineResult<()> {
    const STEP: &str = "remove the machine's folder";
    let trash = state.trash().join(format!("{}.{}", folder.id, uuid::Uuid::new_v4().simple()));
    fs::rename(&folder.path, &trash).map_err(host_error(STEP, &folder.path))?;
    if let Some(parent) = folder.path.parent() {
        sync_folder(parent).map_err(host_error(STEP, parent))?;
    }
    remove_tree(&trash)
}

/// Finishes a destroy of the machine that a crash cut short.
pub(super) fn trash_of(state: &StateDir, id: ComputerId) -> EngineResult<()> {
    let trash = state.trash();
    let failed = host_error("empty the trash", &trash);
    for entry in fs::read_dir(&trash).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        if entry.file_name().to_string_lossy().starts_with(&id.to_string()) {
            remove_tree(&entry.path())?;
        }
    }
    Ok(())
}

/// Finishes the destroys that a crash cut short.
pub(super) fn empty_trash(state: &StateDir) -> EngineResult<()> {
    let trash = state.trash();
    let failed = host_error("empty the trash", &trash);
    for entry in fs::read_dir(&trash).map_err(&failed)? {
        remove_tree(&entry.map_err(&failed)?.path())?;
    }
    Ok(())
}

/// Removes a folder with all that is in it.
pub(super) fn remove_tree(path: &Path) -> EngineResult<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(host_error("empty the trash", path)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
