//! The guest of an instance under gVisor, from inside the instance: its boot, its memory and its end.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use rustix::mount::{MountFlags, mount};

use super::relay::Relay;
use super::{
    BASE, FAILURE_FILE, GENERATION_FILE, MACHINE, RECORDS, SAVED_GENERATION_FILE, STAGE, folder, runtime,
};
use crate::container::gvisor;
use crate::container::runsc::{self, ContainerRecord};
use crate::container::runtime::Runtime;
use crate::host::command::{host_error, run_without_output};
use crate::host::files::remove_if_there;
use crate::host::network::AGENT_PORT;
use crate::host::process;
use crate::incus::documents::BootMode;
use crate::state::layout::Folder;
use crate::state::memory::{self, MemoryManifest, SavedMemory};
use crate::state::trash;
use crate::{EngineError, EngineResult};
use hotdesk_base::tasks::both;

const BOOT: &str = "boot the guest";
const RESUME: &str = "continue from saved memory";
const SAVE: &str = "save the guest's memory";

/// A guest that runs.
#[derive(Debug)]
pub(super) struct Machine {
    generation: u64,
    folder: Folder,
    runtime: Runtime,
    relay: Relay,
    /// gVisor's process.
    sandbox: OwnedFd,
}

impl Machine {
    /// Boots the guest, from its disk or from its memory.
    ///
    /// # Errors
    /// `Damaged` when saved memory is not whole; `Failed`, also when the files of the instance are those of another boot. The
    /// memory is still saved then, unless the guest may have run.
    pub(super) fn boot(mode: BootMode, generation: u64) -> EngineResult<Self> {
        check_generation(Path::new(GENERATION_FILE), generation)?;
        let failure = Path::new(FAILURE_FILE);
        remove_if_there(failure).map_err(host_error(BOOT, failure))?;
        mount_root()?;
        let (folder, runtime, relay) = (folder(), runtime(), Relay::start()?);
        // Memory of an interrupted save or resume: the guest may have run since.
        trash::remove_tree(&folder.fresh_memory())?;
        trash::remove_tree(&folder.used_memory())?;
        match mode {
            BootMode::FromDisk => {
                trash::remove_tree(&folder.memory())?;
                create(&runtime, &folder)?;
                runtime.start(folder.id)?;
            }
            BootMode::FromMemory => resume(&runtime, &folder)?,
        }
        let ended = || EngineError::failed(BOOT, "gVisor ended at once");
        let pid = record(&folder)?.ok_or_else(ended)?.sandbox.pid;
        let opened = process::open(pid).map_err(|error| EngineError::failed(BOOT, error))?;
        Ok(Self { generation, sandbox: opened.ok_or_else(ended)?, folder, runtime, relay })
    }

    /// The generation of the boot.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// gVisor's process, which can be read from once it has ended.
    pub(super) fn sandbox(&self) -> &OwnedFd {
        &self.sandbox
    }

    /// Asks the guest to end.
    pub(super) fn ask_to_end(&self) -> EngineResult<()> {
        let mut kill = self.runtime.call();
        kill.arg("kill").arg(self.folder.id.to_string()).arg("TERM");
        run_without_output("ask the guest to end", kill)
    }

    /// Saves the memory of the guest, which stays paused. `is_wanted` is asked at the end.
    ///
    /// # Errors
    /// Of any step. The caller calls [`Self::undo_save`].
    pub(super) fn save(&self, is_wanted: impl FnOnce() -> bool) -> EngineResult<()> {
        let Self { folder, runtime, .. } = self;
        self.relay.close()?;
        gvisor::await_hangup(runtime, folder.id, AGENT_PORT);
        gvisor::pause(runtime, folder.id)?;
        let fresh = memory::create_fresh(folder)?;
        gvisor::save_memory(runtime, folder.id, &fresh)?;
        let failed = host_error(SAVE, &fresh);
        let manifest = MemoryManifest {
            host_boot: process::boot_id().map_err(&failed)?,
            runtime: runtime.version()?,
            image: BASE.into(),
            slot: None,
            parts: Vec::new(),
        };
        memory::seal(&fresh, self.generation, |parts| MemoryManifest { parts, ..manifest })?;
        // Memory and disk are of one moment.
        let sync = || -> io::Result<()> { Ok(rustix::fs::syncfs(File::open(MACHINE)?)?) };
        sync().map_err(&failed)?;
        if !is_wanted() {
            return Err(EngineError::failed(SAVE, "nobody waits for it any more"));
        }
        memory::move_to(&fresh, &folder.memory())
    }

    /// Drops saved memory, or what a failed save left of it, and lets the guest continue.
    ///
    /// # Errors
    /// Of a removal, or of gVisor: the guest may still be paused, and must end.
    pub(super) fn undo_save(&self) -> EngineResult<()> {
        let saved = self.folder.memory();
        if saved.try_exists().map_err(host_error(SAVE, &saved))? {
            let used = self.folder.used_memory();
            trash::remove_tree(&used)?;
            // Synced before the disk changes: after a loss of power there must be no memory of an earlier disk.
            memory::move_to(&saved, &used)?;
        }
        trash::remove_tree(&self.folder.fresh_memory())?;
        if record(&self.folder)?.is_some_and(|record| record.status == "paused") {
            gvisor::unpause(&self.runtime, self.folder.id)?;
        }
        self.relay.open();
        memory::remove_used(&self.folder);
        Ok(())
    }
}

/// Refuses a boot whose files are those of another.
fn check_generation(file: &Path, generation: u64) -> EngineResult<()> {
    let text = fs::read_to_string(file).map_err(host_error(BOOT, file))?;
    if text.trim() == generation.to_string() {
        return Ok(());
    }
    let detail =
        format!("its files are those of generation {:?}, and it is started as {generation}", text.trim());
    Err(EngineError::failed(BOOT, detail))
}

/// Refuses memory of another generation than the label of the instance says.
fn check_saved_generation(file: &Path, found: u64) -> EngineResult<()> {
    let text = fs::read_to_string(file).map_err(host_error(RESUME, file))?;
    if text.trim() == found.to_string() {
        return Ok(());
    }
    let detail = format!("the memory is that of generation {found}, and not of {:?}", text.trim());
    Err(EngineError::Damaged(detail))
}

/// Mounts the guest's root: its disk over the image.
fn mount_root() -> EngineResult<()> {
    let options = format!("lowerdir={BASE},upperdir={MACHINE}/upper,workdir={MACHINE}/work,userxattr");
    let options = std::ffi::CString::new(options).map_err(|error| EngineError::failed(BOOT, error))?;
    let root = format!("{STAGE}/rootfs");
    mount("overlay", root.as_str(), "overlay", MountFlags::NODEV, options.as_c_str())
        .map_err(|error| EngineError::failed("mount the guest's root", error))
}

/// Creates the container, on a thread of its own: what it sets for its children must not last.
fn create(runtime: &Runtime, folder: &Folder) -> EngineResult<()> {
    let created = thread::scope(|scope| scope.spawn(|| runtime.create(folder, None)).join());
    created.unwrap_or_else(|_| Err(EngineError::failed(BOOT, "the thread panicked")))
}

/// Continues from saved memory, which is used once.
fn resume(runtime: &Runtime, folder: &Folder) -> EngineResult<()> {
    let saved = SavedMemory::find(folder)?
        .ok_or_else(|| EngineError::failed(RESUME, "the instance has no saved memory"))?;
    check_saved_generation(Path::new(SAVED_GENERATION_FILE), saved.generation)?;
    let manifest = saved.manifest()?;
    let version = runtime.version()?;
    if version != manifest.runtime {
        let detail = format!("it was saved by {}, and the instance has {version}", manifest.runtime);
        return Err(EngineError::failed(RESUME, detail));
    }
    // `runsc` reads nothing of the memory before its restore.
    let (verified, created) = both(|| saved.verify(&manifest), || create(runtime, folder))
        .map_err(host_error(RESUME, &saved.path))?;
    // Damage comes first: it decides what becomes of the memory.
    let verified = verified?;
    created?;
    let used = saved.mark_used(folder, verified)?;
    if let Err(error) = gvisor::load_memory(runtime, folder.id, &used, Stdio::null()) {
        let may_have_run = record(folder)?.is_none_or(|record| record.status == "running");
        if !may_have_run {
            memory::move_to(&used, &folder.memory())?;
        }
        return Err(error);
    }
    // The guest runs from here on.
    memory::remove_used(folder);
    Ok(())
}

fn record(folder: &Folder) -> EngineResult<Option<ContainerRecord>> {
    let records = Path::new(RECORDS);
    runsc::record(records, folder.id).map_err(host_error("read gVisor's record", records))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_another_boot_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("generation");
        assert!(check_generation(&file, 7).is_err(), "it is missing");
        fs::write(&file, "7").unwrap();
        assert!(check_generation(&file, 7).is_ok());
        let refused = check_generation(&file, 8).unwrap_err();
        assert!(format!("{refused:#}").contains("generation \"7\""), "{refused:#}");
    }

    #[test]
    fn memory_of_another_generation_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("saved-generation");
        assert!(check_saved_generation(&file, 7).is_err(), "it is missing");
        fs::write(&file, "7").unwrap();
        assert!(check_saved_generation(&file, 7).is_ok());
        let refused = check_saved_generation(&file, 8).unwrap_err();
        assert!(matches!(refused, EngineError::Damaged(_)), "{refused:#}");
    }
}
