//! How does a machine's folder go? It leaves the machines' folder at once and whole; what a crash leaves half removed is trash
//! that the next one removes.

use std::fs;
use std::io;
use std::path::Path;

use super::EngineResult;
use super::command::host_error;
use super::layout::{Folder, StateDir, sync_folder};
use hotdesk_base::ids::ComputerId;

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
pub(super) fn of(state: &StateDir, id: ComputerId) -> EngineResult<()> {
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
pub(super) fn empty(state: &StateDir) -> EngineResult<()> {
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
