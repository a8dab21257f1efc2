//! Removal of folders: an atomic rename into the trash, then the deletion, which a later call finishes after
//! a crash.

use std::fs;
use std::io;
use std::path::Path;

use crate::EngineResult;
use crate::host::command::host_error;
use crate::host::files::sync_folder;
use crate::state::layout::{Folder, StateDir};
use hotdesk_base::ids::ComputerId;

/// Removes a machine's folder.
pub(crate) fn folder(state: &StateDir, folder: &Folder) -> EngineResult<()> {
    const STEP: &str = "remove the machine's folder";
    let trash = state.trash().join(format!("{}.{}", folder.id, uuid::Uuid::new_v4().simple()));
    fs::rename(&folder.path, &trash).map_err(host_error(STEP, &folder.path))?;
    if let Some(parent) = folder.path.parent() {
        sync_folder(parent).map_err(host_error(STEP, parent))?;
    }
    remove_tree(&trash)
}

/// Finishes an interrupted destroy of one machine.
pub(crate) fn of(state: &StateDir, id: ComputerId) -> EngineResult<()> {
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

/// Finishes all interrupted destroys.
pub(crate) fn empty(state: &StateDir) -> EngineResult<()> {
    let trash = state.trash();
    let failed = host_error("empty the trash", &trash);
    for entry in fs::read_dir(&trash).map_err(&failed)? {
        remove_tree(&entry.map_err(&failed)?.path())?;
    }
    Ok(())
}

/// Removes a folder with its contents; a missing one counts as removed.
pub(crate) fn remove_tree(path: &Path) -> EngineResult<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(host_error("empty the trash", path)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
