//! Simulated host: folders and tasks that outlive the engines over it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{Boot, MachineSpec};
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_base::tasks::Tasks;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::computer::isolation::Isolation;

/// The inputs of an agent of a simulated machine.
#[derive(Clone, Debug)]
pub struct AgentBoot {
    /// The machine.
    pub spec: MachineSpec,
    /// Its boot.
    pub boot: Boot,
    /// A folder that lives as long as the machine: its disk.
    pub disk: PathBuf,
    /// Lasts as long as the machine keeps its memory.
    pub memory: SimulatedMemory,
}

/// The memory of a simulated machine: texts by name, which a snapshot or fork copies. An agent that stores
/// all of its state here continues in a fork and after a rollback.
#[derive(Clone, Debug, Default)]
pub struct SimulatedMemory(Arc<Mutex<BTreeMap<String, String>>>);

impl SimulatedMemory {
    /// Reads a value.
    pub fn get(&self, name: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Writes a value.
    pub fn set(&self, name: &str, value: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), value.into());
    }

    /// Increments a counter and returns it, from 1.
    pub fn count(&self, name: &str) -> u32 {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.get(name).and_then(|count| count.parse().ok()).unwrap_or(0) + 1;
        all.insert(name.to_owned(), count.to_string());
        count
    }

    /// An independent copy.
    pub(super) fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())))
    }
}

/// Makes the agent of a machine that boots.
pub type AgentFactory = Arc<dyn Fn(&AgentBoot) -> Router + Send + Sync>;

/// The simulated host; its machines outlive the engines over it.
pub struct SimulatedHost {
    pub(super) folder: PathBuf,
    pub(super) agent: AgentFactory,
    running: Mutex<BTreeMap<ComputerId, RunningMachine>>,
    /// The size of each machine since its last start.
    sizes: Mutex<BTreeMap<ComputerId, MachineSpec>>,
    /// The isolation of each machine.
    isolations: Mutex<BTreeMap<ComputerId, Isolation>>,
    /// The layers of each machine, from its create on.
    layers: Mutex<BTreeMap<ComputerId, Vec<LayerId>>>,
    /// The agents of suspended machines.
    suspended: Mutex<BTreeMap<ComputerId, SuspendedAgent>>,
    /// The memory of snapshots.
    snapshot_memory: Mutex<BTreeMap<(ComputerId, Uuid), AgentBoot>>,
    /// The agents of evicted machines.
    evicted_agents: Mutex<BTreeMap<ComputerId, SuspendedAgent>>,
    /// The hosts of a cluster, if a test has them.
    hosts: Mutex<SimulatedCluster>,
    boots: AtomicU64,
    /// Since when the first host does not answer.
    cut_at: Mutex<Option<UnixMillis>>,
    /// Machines that began from their replicas on the second host.
    moved: Mutex<BTreeSet<ComputerId>>,
}

/// The hosts of a simulated cluster. Without any, there are no moves.
#[derive(Debug, Default)]
pub(super) struct SimulatedCluster {
    /// Whether each host answers, by its name.
    pub(super) hosts: BTreeMap<String, bool>,
    /// The host of each machine.
    pub(super) machines: BTreeMap<ComputerId, String>,
}

/// The memory of a suspended machine.
#[derive(Clone)]
pub(super) struct SuspendedAgent {
    pub(super) agent: Router,
    pub(super) agent_boot: AgentBoot,
}

#[derive(Clone)]
pub(super) struct RunningMachine {
    pub(super) generation: u64,
    /// The agent: its state is the machine's memory.
    pub(super) agent: Router,
    pub(super) agent_boot: AgentBoot,
    pub(super) tasks: Tasks,
    pub(super) ended: CancellationToken,
}

impl fmt::Debug for SimulatedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedHost").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl SimulatedHost {
    /// A host with its machines' disks in `folder`.
    pub fn new(folder: impl Into<PathBuf>, agent: AgentFactory) -> Arc<Self> {
        Arc::new(Self {
            folder: folder.into(),
            agent,
            running: Mutex::default(),
            sizes: Mutex::default(),
            isolations: Mutex::default(),
            layers: Mutex::default(),
            suspended: Mutex::default(),
            snapshot_memory: Mutex::default(),
            evicted_agents: Mutex::default(),
            hosts: Mutex::default(),
            boots: AtomicU64::new(1),
            cut_at: Mutex::default(),
            moved: Mutex::default(),
        })
    }

    /// The machine's first process ends by itself.
    pub fn crash(&self, id: ComputerId) {
        if let Some(running) = self.running().remove(&id) {
            running.tasks.stopping().cancel();
            running.ended.cancel();
        }
    }

    /// The host loses power: every machine ends; disks and saved memory stay.
    pub fn reboot(&self) {
        self.boots.fetch_add(1, Ordering::SeqCst);
        let ids: Vec<ComputerId> = self.running().keys().copied().collect();
        ids.into_iter().for_each(|id| self.crash(id));
    }

    pub(super) fn running(&self) -> MutexGuard<'_, BTreeMap<ComputerId, RunningMachine>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The size of a machine since its last start.
    pub fn size(&self, id: ComputerId) -> Option<MachineSpec> {
        self.sizes().get(&id).cloned()
    }

    pub(super) fn sizes(&self) -> MutexGuard<'_, BTreeMap<ComputerId, MachineSpec>> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The isolation of a machine, since its create or its last start.
    pub fn isolation(&self, id: ComputerId) -> Option<Isolation> {
        self.isolations().get(&id).copied()
    }

    pub(super) fn isolations(&self) -> MutexGuard<'_, BTreeMap<ComputerId, Isolation>> {
        self.isolations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn layers(&self) -> MutexGuard<'_, BTreeMap<ComputerId, Vec<LayerId>>> {
        self.layers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder of a layer. Its parent is no machine, because its name is no id.
    pub(super) fn layer(&self, layer: LayerId) -> PathBuf {
        self.layer_folder().join(layer.to_string())
    }

    pub(super) fn layer_folder(&self) -> PathBuf {
        self.folder.join("layers")
    }

    pub(super) fn suspended(&self) -> MutexGuard<'_, BTreeMap<ComputerId, SuspendedAgent>> {
        self.suspended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn snapshot_memory(&self) -> MutexGuard<'_, BTreeMap<(ComputerId, Uuid), AgentBoot>> {
        self.snapshot_memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn evicted_agents(&self) -> MutexGuard<'_, BTreeMap<ComputerId, SuspendedAgent>> {
        self.evicted_agents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn cut_at(&self) -> MutexGuard<'_, Option<UnixMillis>> {
        self.cut_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn moved(&self) -> MutexGuard<'_, BTreeSet<ComputerId>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn cluster(&self) -> MutexGuard<'_, SimulatedCluster> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the host's present boot, from 1.
    pub(super) fn boots(&self) -> u64 {
        self.boots.load(Ordering::SeqCst)
    }

    pub(super) fn machine(&self, id: ComputerId) -> PathBuf {
        self.folder.join(id.to_string())
    }

    pub(super) fn socket(&self, id: ComputerId) -> PathBuf {
        self.machine(id).join("agent.sock")
    }

    /// The file that marks saved memory and has its generation. It is valid only with its last letter, so
    /// that a test can damage it.
    pub(super) fn memory(&self, id: ComputerId) -> PathBuf {
        self.machine(id).join("memory")
    }
}
