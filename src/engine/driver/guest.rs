//! Traits of an engine's guests. An engine implements each beside the code that does it.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::driver::HostContext;
use crate::state::layout::{Folder, Record, StateDir};
use crate::state::machine_lock::MachineLock;
use crate::state::memory::{MemoryManifest, SavedMemory};
use crate::state::raw_disk;
use crate::{
    Boot, Change, Effect, Endpoint, EngineError, EngineFindings, EngineResult, LeftoverRecord, MachineSpec,
    Observation,
};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks;
use hotdesk_domain::computer::isolation::Isolation;

/// One boot of a machine, under its lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineBoot<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) spec: &'a MachineSpec,
    pub(crate) boot: &'a Boot,
    pub(crate) lock: &'a MachineLock,
}

/// What a boot depends on besides the image and the hardware.
#[derive(Clone, Debug)]
pub(crate) struct BootDependencies {
    /// Name and version of the program that runs guests.
    pub(crate) program: String,
    /// The agent, named by its content.
    pub(crate) agent: PathBuf,
    /// Other files of the host that the boot reads.
    pub(crate) files: Vec<PathBuf>,
}

/// How an engine's guests run. A cheap handle. Methods that block run on a thread of their own, under the
/// machine's lock unless they only read.
pub(crate) trait GuestDriver:
    GuestMemory + GuestShutdown + Clone + Debug + Send + Sync + 'static
{
    /// The host as the engine was opened on it.
    fn host(&self) -> &HostContext;

    /// The state folder with its machines.
    fn state(&self) -> &StateDir {
        &self.host().state
    }

    /// Observes a machine that has its disk and no saved memory: `Running` or `Stopped`. Blocks.
    fn observe_guest(&self, folder: &Folder) -> EngineResult<Observation>;

    /// Whether a machine runs and is not paused. Blocks.
    fn is_executing(&self, folder: &Folder) -> EngineResult<bool>;

    /// Unblocks the clients of a machine's agent, in case a controller died while it blocked them. Blocks.
    fn allow_agent_clients(&self, _folder: &Folder) -> EngineResult<()> {
        Ok(())
    }

    /// What a boot with an isolation depends on besides the image and the hardware. Blocks.
    fn boot_dependencies(&self, isolation: Isolation) -> EngineResult<BootDependencies>;

    /// Boots a machine after [`GuestShutdown::sweep`]. On error, parts of the boot may be left. Blocks.
    fn boot(&self, machine: &MachineBoot<'_>) -> EngineResult<Endpoint>;

    /// Resizes a running machine. On error it is as `before`. Blocks.
    fn apply(&self, folder: &Folder, before: &Record, change: Change) -> EngineResult<Effect>;

    /// Bytes that a running machine's kernel accepted and has not written to its disk file yet. Blocks.
    fn unwritten_bytes(&self, _folder: &Folder) -> u64 {
        0
    }

    /// [`Engine::maintain`](crate::Engine::maintain). Blocks.
    fn maintain(&self) -> EngineResult<()> {
        Ok(())
    }

    /// [`Engine::check_host`](crate::Engine::check_host). Blocks.
    fn check_host(&self, _thorough: bool) -> Vec<EngineFindings> {
        Vec::new()
    }

    /// [`Engine::find_leftovers`](crate::Engine::find_leftovers). Blocks.
    fn find_leftovers(&self, _owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<LeftoverRecord>> {
        Ok(Vec::new())
    }

    /// Copies what a stopped machine has written to its disk to the folder `to`, without its identity. The copy may be
    /// incomplete on error. Blocks.
    ///
    /// # Errors
    /// `NoCapacity`; `Failed` for a disk that only a virtual machine may read.
    fn copy_written(&self, folder: &Folder, _to: &Path, _lock: &MachineLock) -> EngineResult<()> {
        Err(raw_disk::no_layer(folder))
    }

    /// Copies the disk of a running or stopped machine at one moment. The copy is named `fresh` until it is
    /// complete, then `to`. Blocks.
    fn copy_disk(&self, source: &Folder, fresh: &Path, to: &Path) -> EngineResult<()>;

    /// Runs a blocking step on its own thread. It completes even if the caller is dropped.
    fn blocking<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Self) -> EngineResult<T> + Send + 'static,
    ) -> impl Future<Output = EngineResult<T>> + Send {
        let engine = self.clone();
        async move {
            let done = tasks::spawn_blocking(move || step(&engine)).await;
            done.unwrap_or_else(|error| Err(EngineError::failed("finish a step", error)))
        }
    }
}

/// Suspend, resume, and copies of a guest's memory.
pub(crate) trait GuestMemory {
    /// The version of the program that saves and reads a machine's memory; another version may not read it. Blocks.
    fn version(&self, folder: &Folder) -> EngineResult<String>;

    /// Pauses a guest and saves its memory, labelled with `generation`. On success it stays paused; on error
    /// it continues. Blocks.
    fn save(&self, folder: &Folder, generation: u64) -> EngineResult<()>;

    /// Pauses a guest, saves its memory to the folder `memory`, copies its disk, and unpauses it whatever the
    /// outcome. The caller seals the memory. Blocks.
    fn save_with_disk(
        &self,
        source: &Folder,
        memory: &Path,
        fresh: &Path,
        to: &Path,
    ) -> EngineResult<MemoryManifest>;

    /// Repairs an interrupted resume, after its controller was killed. Blocks.
    fn recover_resume(&self, _folder: &Folder) -> EngineResult<()> {
        Ok(())
    }

    /// Verifies the memory of a machine that does not run, and continues from it. On error, parts of the boot
    /// may be left. Blocks.
    fn restore(
        &self,
        machine: &MachineBoot<'_>,
        saved: &SavedMemory,
        manifest: MemoryManifest,
    ) -> EngineResult<Endpoint>;

    /// Undoes a failed [`GuestMemory::restore`]. If the guest did not run, its saved memory is valid again.
    fn undo_restore(&self, folder: &Folder) -> impl Future<Output = EngineResult<()>> + Send;
}

/// End of a guest, and release of what its boot took.
pub(crate) trait GuestShutdown {
    /// Ends a machine's processes (the guest gets `grace` to shut down) and releases what its boot took.
    fn halt(&self, folder: &Folder, grace: Duration) -> impl Future<Output = EngineResult<()>> + Send;

    /// Releases what a boot took, complete or not.
    fn sweep(&self, folder: &Folder) -> impl Future<Output = EngineResult<()>> + Send;

    /// Waits until a machine's guest has ended; returns at once when it does not run. First unpauses a guest
    /// that a dead controller left paused.
    fn wait_ended(&self, id: ComputerId) -> impl Future<Output = EngineResult<()>> + Send;
}
