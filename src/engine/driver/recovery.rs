//! Recovery of machines after a controller was killed: frozen disks, blocked agent clients, unfinished files.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::EngineResult;
use crate::driver::{GuestDriver, disk_guard};
use crate::host::command::host_error;
use crate::host::files::remove_if_there;
use crate::host::freeze;
use crate::state::layout::Folder;
use crate::state::machine_lock::MachineLock;
use crate::state::memory;

/// Extension of a file that is renamed once it is complete.
const UNFINISHED: &str = "new";

/// Thaws frozen machines and frozen disks, whose guests wait at this moment, unblocks agents, and removes unfinished files. A
/// locked machine is left alone: a tool of the killed controller still works on it. Blocks.
pub(crate) fn recover_interrupted(engine: &impl GuestDriver) -> EngineResult<()> {
    for id in engine.state().list()? {
        recover_machine(engine, &engine.state().folder(id))?;
    }
    Ok(())
}

/// [`recover_interrupted`] of one machine. One whose folder is encrypted is left alone while its key is missing: nothing of it
/// can run then. Blocks.
pub(super) fn recover_machine(engine: &impl GuestDriver, folder: &Folder) -> EngineResult<()> {
    let id = folder.id;
    disk_guard::thaw_abandoned(folder);
    let Some(_guard) = MachineLock::try_acquire(folder)? else { return Ok(()) };
    freeze::thaw_abandoned(&folder.disk());
    // One failure must not keep the others from recovery.
    if let Err(error) = engine.allow_agent_clients(folder) {
        tracing::warn!(computer = %id, error = format_args!("{error:#}"), "could not unblock the clients of its agent; a stop and start of the computer repairs it");
    }
    // An unfinished file costs only space.
    if let Err(error) = remove_unfinished(engine, folder) {
        tracing::warn!(computer = %id, error = format_args!("{error:#}"), "could not remove its unfinished files");
    }
    Ok(())
}

fn remove_unfinished(engine: &impl GuestDriver, folder: &Folder) -> EngineResult<()> {
    for path in unfinished_files(folder)? {
        remove_if_there(&path).map_err(host_error("remove an unfinished file", &path))?;
    }
    if !folder.fresh_memory().exists() && !folder.used_memory().exists() {
        return Ok(());
    }
    // The memory of a paused guest is still needed: `wait_ended` unpauses it, or its resume takes it up.
    if engine.is_executing(folder)? { memory::drop_leftovers(folder) } else { Ok(()) }
}

/// The unfinished files of a machine, sorted. Needs the machine's lock: otherwise they may still be written.
pub(crate) fn unfinished_files(folder: &Folder) -> EngineResult<Vec<PathBuf>> {
    let mut found = Vec::new();
    for place in [folder.path.clone(), folder.bundle(), folder.snapshots()] {
        collect(&place, &mut found).map_err(host_error("look for unfinished files", &place))?;
    }
    found.sort();
    Ok(found)
}

fn collect(place: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = match fs::read_dir(place) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        // Saved memory is a folder, and may be complete under that name (`state/memory.rs`).
        if path.extension() == Some(OsStr::new(UNFINISHED)) && entry.file_type()?.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::{ContainerEngine, ContainerSettings};
    use crate::host::files::private_folder;
    use crate::{HostSettings, OpenMode};
    use hotdesk_base::ids::ComputerId;

    #[test]
    fn unfinished_files_are_removed_unless_the_machine_is_locked() {
        let temp = tempfile::tempdir().unwrap();
        let host = HostSettings::new(temp.path(), "/nowhere", "/nowhere");
        let settings = ContainerSettings { runtime: "runc".to_owned() };
        let engine = ContainerEngine::open(host, &settings, OpenMode::ReadOnly).unwrap();
        let folder = engine.state().folder(ComputerId::random());
        private_folder(&folder.snapshots()).unwrap();
        private_folder(&folder.fresh_memory()).unwrap();
        let half =
            [folder.fresh_disk(), folder.record().with_extension("new"), folder.snapshots().join("1.new")];
        for path in half.iter().chain([&folder.disk(), &folder.snapshots().join("1.img")]) {
            fs::write(path, "x").unwrap();
        }
        let guard = MachineLock::try_acquire(&folder).unwrap().unwrap();
        recover_interrupted(&engine).unwrap();
        assert_eq!(unfinished_files(&folder).unwrap().len(), half.len());
        drop(guard);
        recover_interrupted(&engine).unwrap();
        assert!(unfinished_files(&folder).unwrap().is_empty());
        for kept in [folder.disk(), folder.snapshots().join("1.img"), folder.fresh_memory()] {
            assert!(kept.exists(), "{}", kept.display());
        }
    }
}
