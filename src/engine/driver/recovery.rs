//! What did a controller that was killed leave in the middle of a machine? Files that never got their name, which nothing
//! ever reads, a disk that nobody thaws, and clients of a guest that runs, held off for good.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::command::host_error;
use super::layout::{Folder, remove_if_there};
use super::machinery::Machinery;
use super::{EngineResult, lock, memory, still};

/// How a file is called that is renamed when it is whole.
const UNFINISHED: &str = "new";

/// Puts right what can be put right before anybody asks: frozen disks thaw, because their guests wait at this moment, agents
/// can be reached again, and files that are not whole go. A machine that somebody works on is left alone: a tool of the killed
/// controller ends what it began. Blocks.
pub(super) fn put_right(engine: &impl Machinery) -> EngineResult<()> {
    for id in engine.state().list()? {
        let folder = engine.state().folder(id);
        let Some(_held) = lock::free(&folder)? else { continue };
        still::thaw_abandoned(&folder.disk());
        // No reason to leave the others alone.
        if let Err(error) = engine.let_in(&folder) {
            tracing::warn!(computer = %id, %error, "nobody knows whether its agent can be reached");
        }
        // Worth some space and nothing else: no reason not to start.
        if let Err(error) = tidy(engine, &folder) {
            tracing::warn!(computer = %id, %error, "what is not whole stays");
        }
    }
    Ok(())
}

fn tidy(engine: &impl Machinery, folder: &Folder) -> EngineResult<()> {
    for path in files(folder)? {
        remove_if_there(&path).map_err(host_error("remove an unfinished file", &path))?;
    }
    if !folder.fresh_memory().exists() && !folder.used_memory().exists() {
        return Ok(());
    }
    // A guest that stands still is let go on by its waiter; one that was not let go yet is taken up by its resume.
    if engine.goes_on(folder)? { memory::drop_leftovers(folder) } else { Ok(()) }
}

/// The files of a machine that are not whole. Only for who holds its lock: else they may be in the making.
pub(super) fn files(folder: &Folder) -> EngineResult<Vec<PathBuf>> {
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
        // Saved memory is a folder, and may be whole under that name (`engine/memory.rs`).
        if path.extension() == Some(OsStr::new(UNFINISHED)) && entry.file_type()?.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::{ContainerConfig, ContainerEngine};
    use crate::layout::private_folder;
    use hotdesk_base::ids::ComputerId;

    #[test]
    fn files_that_are_not_whole_go_unless_somebody_is_at_work() {
        let temp = tempfile::tempdir().unwrap();
        let config = ContainerConfig::new(temp.path(), "/nowhere", "/nowhere");
        let engine = ContainerEngine::open_to_look(config).unwrap();
        let folder = engine.state().folder(ComputerId::random());
        private_folder(&folder.snapshots()).unwrap();
        private_folder(&folder.fresh_memory()).unwrap();
        let half =
            [folder.fresh_disk(), folder.record().with_extension("new"), folder.snapshots().join("1.new")];
        for path in half.iter().chain([&folder.disk(), &folder.snapshots().join("1.img")]) {
            fs::write(path, "x").unwrap();
        }
        let held = lock::free(&folder).unwrap().unwrap();
        put_right(&engine).unwrap();
        assert_eq!(files(&folder).unwrap().len(), half.len());
        drop(held);
        put_right(&engine).unwrap();
        assert!(files(&folder).unwrap().is_empty());
        for kept in [folder.disk(), folder.snapshots().join("1.img"), folder.fresh_memory()] {
            assert!(kept.exists(), "{}", kept.display());
        }
    }
}
