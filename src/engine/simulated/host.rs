//! Where do simulated machines live? On a host of folders and tasks, apart from the engines that drive it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{Boot, MachineSpec};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks::Tasks;

/// What an agent of a simulated machine is made for.
#[derive(Clone, Debug)]
pub struct Birth {
    /// The machine.
    pub spec: MachineSpec,
    /// Its boot.
    pub boot: Boot,
    /// A folder that lives as long as the machine: its disk.
    pub disk: PathBuf,
    /// What the agent remembers as long as its machine keeps its memory.
    pub memory: Remembered,
}

/// What is in a simulated machine's memory and can be copied, by name. An agent that keeps all of its own here goes on in a
/// fork, and in a rollback to a snapshot with memory, as it does after a suspend.
#[derive(Clone, Debug, Default)]
pub struct Remembered(Arc<Mutex<BTreeMap<String, String>>>);

impl Remembered {
    /// What is remembered under a name.
    pub fn get(&self, name: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Remembers something under a name.
    pub fn set(&self, name: &str, value: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), value.into());
    }

    /// Counts on under a name, from 1.
    pub fn count(&self, name: &str) -> u32 {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.get(name).and_then(|count| count.parse().ok()).unwrap_or(0) + 1;
        all.insert(name.to_owned(), count.to_string());
        count
    }

    /// The same, for another machine or another time.
    pub(super) fn copied(&self) -> Self {
        Self(Arc::new(Mutex::new(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())))
    }
}

/// Makes the agent of a machine that boots.
pub type AgentFactory = Arc<dyn Fn(&Birth) -> Router + Send + Sync>;

/// The simulated host: machines live in it whatever becomes of the engines that drive it.
pub struct SimulatedHost {
    pub(super) folder: PathBuf,
    pub(super) agent: AgentFactory,
    running: Mutex<BTreeMap<ComputerId, Running>>,
    /// What each machine was started as, with what changed since.
    sizes: Mutex<BTreeMap<ComputerId, MachineSpec>>,
    /// The agents of suspended machines, as they were.
    saved: Mutex<BTreeMap<ComputerId, Saved>>,
    /// The memory in snapshots.
    kept: Mutex<BTreeMap<(ComputerId, Uuid), Birth>>,
    /// The agents of machines whose files are away.
    aside: Mutex<BTreeMap<ComputerId, Saved>>,
    boots: AtomicU64,
}

/// The memory of a suspended machine.
#[derive(Clone)]
pub(super) struct Saved {
    pub(super) agent: Router,
    pub(super) birth: Birth,
}

#[derive(Clone)]
pub(super) struct Running {
    pub(super) generation: u64,
    /// The agent: what it holds is the machine's memory.
    pub(super) agent: Router,
    pub(super) birth: Birth,
    pub(super) tasks: Tasks,
    pub(super) ended: CancellationToken,
}

impl fmt::Debug for SimulatedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedHost").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl SimulatedHost {
    /// A host that keeps its machines' disks in `folder`.
    pub fn new(folder: impl Into<PathBuf>, agent: AgentFactory) -> Arc<Self> {
        Arc::new(Self {
            folder: folder.into(),
            agent,
            running: Mutex::default(),
            sizes: Mutex::default(),
            saved: Mutex::default(),
            kept: Mutex::default(),
            aside: Mutex::default(),
            boots: AtomicU64::new(1),
        })
    }

    /// The machine's first process ends by itself.
    pub fn crash(&self, id: ComputerId) {
        if let Some(running) = self.running().remove(&id) {
            running.tasks.stopping().cancel();
            running.ended.cancel();
        }
    }

    /// The host loses its power: every machine ends, disks and saved memory stay.
    pub fn reboot(&self) {
        self.boots.fetch_add(1, Ordering::SeqCst);
        let ids: Vec<ComputerId> = self.running().keys().copied().collect();
        ids.into_iter().for_each(|id| self.crash(id));
    }

    pub(super) fn running(&self) -> MutexGuard<'_, BTreeMap<ComputerId, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The size that a machine has since it was last started.
    pub fn size(&self, id: ComputerId) -> Option<MachineSpec> {
        self.sizes().get(&id).cloned()
    }

    pub(super) fn sizes(&self) -> MutexGuard<'_, BTreeMap<ComputerId, MachineSpec>> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn saved(&self) -> MutexGuard<'_, BTreeMap<ComputerId, Saved>> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn kept(&self) -> MutexGuard<'_, BTreeMap<(ComputerId, Uuid), Birth>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn aside(&self) -> MutexGuard<'_, BTreeMap<ComputerId, Saved>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which boot of the host this is.
    pub(super) fn boots(&self) -> u64 {
        self.boots.load(Ordering::SeqCst)
    }

    pub(super) fn machine(&self, id: ComputerId) -> PathBuf {
        self.folder.join(id.to_string())
    }

    pub(super) fn socket(&self, id: ComputerId) -> PathBuf {
        self.machine(id).join("agent.sock")
    }

    /// The file that says that memory is saved, and since which boot it ran. What it says is whole only with its last
    /// letter, so that a test can damage it.
    pub(super) fn memory(&self, id: ComputerId) -> PathBuf {
        self.machine(id).join("memory")
    }
}
