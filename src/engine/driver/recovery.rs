//! Recovery of machines after a controller was killed: frozen disks, blocked agent clients, unfinished files.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::EngineResult;
use crate::driver::GuestDriver;
use crate::driver::capacity::disk_guard;
use crate::host::command::host_error;
use crate::host::files::remove_if_there;
use crate::host::freeze;
use crate::state::layout::{Folder, Record};
use crate::state::machine_lock::MachineLock;
use crate::state::memory;

/// Extension of a file that is renamed once it is complete.
const UNFINISHED: &str = "new";

/// Thaws frozen machines and frozen disks, whose guests wait at this moment, unblocks agents, removes unfinished files, and
/// gives records of earlier versions an isolation. A locked machine is left alone: a tool of the killed controller still
/// works on it. Blocks.
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
    if let Err(error) = record_isolation(engine, folder) {
        tracing::warn!(computer = %id, error = format_args!("{error:#}"), "could not record its isolation; its next start does");
    }
    // An unfinished file costs only space.
    if let Err(error) = remove_unfinished(engine, folder) {
        tracing::warn!(computer = %id, error = format_args!("{error:#}"), "could not remove its unfinished files");
    }
    Ok(())
}

/// Records the isolation of a machine of an earlier version, because a later configuration may have another. Of several
/// nobody knows which one it had.
fn record_isolation(engine: &impl GuestDriver, folder: &Folder) -> EngineResult<()> {
    let Some(record) = folder.find_record()? else { return Ok(()) };
    if record.isolation().is_some() || engine.host().offers.all().count() > 1 {
        return Ok(());
    }
    let isolation = Some(engine.host().offers.default().isolation.name().to_owned());
    folder.write_record(&Record { isolation, ..record })
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
    use crate::engine_set::EngineSet;
    use crate::host::files::private_folder;
    use crate::{ContainerSettings, EngineKind, EngineSettings, HostSettings, OpenMode, QemuSettings};
    use hotdesk_base::ids::ComputerId;
    use hotdesk_domain::computer::isolation::Isolation;

    #[test]
    fn unfinished_files_are_removed_unless_the_machine_is_locked() {
        let temp = tempfile::tempdir().unwrap();
        let host = HostSettings::new(temp.path(), "/nowhere", "/nowhere");
        let kinds =
            vec![EngineKind::Container(ContainerSettings { runtime: "runc".to_owned(), isolation: None })];
        let engine = EngineSet::open(EngineSettings { host, kinds }, OpenMode::ReadOnly).unwrap();
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

    #[test]
    fn a_machine_of_an_earlier_version_keeps_its_isolation_when_the_default_changes() {
        let temp = tempfile::tempdir().unwrap();
        let open = |runtimes: &[&str]| {
            let host = HostSettings::new(temp.path(), "/nowhere", "/nowhere");
            let kind = |runtime: &&str| match *runtime {
                "qemu" => EngineKind::Qemu(QemuSettings::default()),
                runtime => EngineKind::Container(ContainerSettings {
                    runtime: runtime.to_owned(),
                    isolation: Some(Isolation::Shared),
                }),
            };
            let kinds = runtimes.iter().map(kind).collect();
            EngineSet::open(EngineSettings { host, kinds }, OpenMode::ReadOnly).unwrap()
        };
        let engine = open(&["qemu"]);
        let folder = engine.state().folder(ComputerId::random());
        private_folder(&folder.path).unwrap();
        let earlier =
            serde_json::json!({"computer": folder.id.0, "cpu": 1.0, "memory_bytes": 1, "disk_bytes": 1});
        fs::write(folder.record(), earlier.to_string()).unwrap();
        recover_interrupted(&engine).unwrap();
        let several = open(&["runc", "qemu"]);
        recover_interrupted(&several).unwrap();
        assert_eq!(several.host().offer_of(&folder).unwrap().isolation, Isolation::Vm);
        assert_eq!(several.host().machines_of(Isolation::Vm).unwrap(), [folder.id]);
        assert!(several.host().machines_of(Isolation::Shared).unwrap().is_empty());
        // The only engine runs every machine.
        let only = open(&["runc"]);
        assert_eq!(only.host().machines_of(Isolation::Shared).unwrap(), [folder.id]);
        let new = several.state().folder(ComputerId::random());
        assert_eq!(several.host().offer_of(&new).unwrap().isolation, Isolation::Shared);
    }
}
