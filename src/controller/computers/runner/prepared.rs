//! Knowledge of runners about desktops that are booted before somebody asks for them: wanted boot snapshots, and the
//! machines of the pool. `computers/prepared` makes them.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::prepared::pool::{PoolLimits, PoolSize};
use hotdesk_domain::computer::prepared::{DesktopSize, DesktopSpec};

/// Boot snapshots and the pool of a fleet.
pub struct PreparedDesktops {
    pub(in crate::computers) boot_snapshots: BootSnapshots,
    pub(in crate::computers) pool: Pool,
}

impl PreparedDesktops {
    /// Returns at most `keep` boot snapshots, and a pool of these sizes; nothing is prepared yet.
    pub fn new(keep: u32, sizes: Vec<PoolSize>, limits: PoolLimits) -> Self {
        Self { boot_snapshots: BootSnapshots::new(keep), pool: Pool::new(sizes, limits) }
    }
}

/// Most sizes that wait for a snapshot; others ask again with their next create.
const MAX_WANTED: usize = 16;

/// Sizes of which snapshots are wanted.
pub(in crate::computers) struct BootSnapshots {
    /// Most snapshots; 0: every computer boots.
    pub(in crate::computers) keep: usize,
    wanted: Mutex<VecDeque<DesktopSpec>>,
    added: Notify,
}

impl BootSnapshots {
    fn new(keep: u32) -> Self {
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        Self { keep, wanted: Mutex::default(), added: Notify::new() }
    }

    fn wanted(&self) -> MutexGuard<'_, VecDeque<DesktopSpec>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::computers) fn want(&self, spec: DesktopSpec) {
        let (mut wanted, size) = (self.wanted(), DesktopSize::from(&spec));
        if wanted.len() < MAX_WANTED && wanted.iter().all(|other| DesktopSize::from(other) != size) {
            wanted.push_back(spec);
            self.added.notify_one();
        }
    }

    /// Waits for the next size of which there may be no snapshot.
    pub(in crate::computers) async fn next(&self) -> DesktopSpec {
        loop {
            let next = self.wanted().pop_front();
            match next {
                Some(spec) => return spec,
                None => self.added.notified().await,
            }
        }
    }
}

/// The pool.
pub(in crate::computers) struct Pool {
    pub(in crate::computers) sizes: Vec<PoolSize>,
    pub(in crate::computers) limits: PoolLimits,
    machines: Mutex<PoolMachines>,
    /// Notified when a claim has ended.
    pub(in crate::computers) changed: Notify,
}

#[derive(Default)]
struct PoolMachines {
    /// Those that a create may claim, the oldest first.
    ready: Vec<(ComputerId, DesktopSize)>,
    /// Those that a create is claiming.
    claimed: HashSet<ComputerId>,
    /// Those whose claim has ended since the store was last read, which tells what came of it.
    ended: HashSet<ComputerId>,
}

impl PoolMachines {
    fn is_claimed(&self, id: ComputerId) -> bool {
        self.claimed.contains(&id) || self.ended.contains(&id)
    }
}

impl Pool {
    fn new(sizes: Vec<PoolSize>, limits: PoolLimits) -> Self {
        Self { sizes, limits, machines: Mutex::default(), changed: Notify::new() }
    }

    fn machines(&self) -> MutexGuard<'_, PoolMachines> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the oldest ready machine of a size for a create, which calls [`Self::end_claim`].
    pub(in crate::computers) fn take(&self, spec: &DesktopSpec) -> Option<ComputerId> {
        let (mut machines, size) = (self.machines(), DesktopSize::from(spec));
        let at = machines.ready.iter().position(|(_, other)| *other == size)?;
        let (machine, _) = machines.ready.remove(at);
        machines.claimed.insert(machine);
        Some(machine)
    }

    /// Ends the claim of a create, whatever came of it. A machine that is still in the pool may be claimed again.
    pub(in crate::computers) fn end_claim(&self, id: ComputerId) {
        let mut machines = self.machines();
        if machines.claimed.remove(&id) {
            machines.ended.insert(id);
            self.changed.notify_one();
        }
    }

    pub(in crate::computers) fn set_ready(&self, ready: Vec<(ComputerId, DesktopSize)>) {
        let mut machines = self.machines();
        machines.ready = ready.into_iter().filter(|(id, _)| !machines.is_claimed(*id)).collect();
        metrics::gauge!("hotdesk_pool_ready").set(machines.ready.len() as f64);
    }

    /// Keeps creates from claiming a machine. Returns false when one has claimed it already.
    pub(in crate::computers) fn withdraw(&self, id: ComputerId) -> bool {
        let mut machines = self.machines();
        machines.ready.retain(|(ready, _)| *ready != id);
        !machines.is_claimed(id)
    }

    /// Forgets the claims that have ended: the caller reads the store afterwards.
    pub(in crate::computers) fn forget_ended_claims(&self) {
        self.machines().ended.clear();
    }

    /// Whether a create has claimed a machine, or may have since [`Self::forget_ended_claims`].
    pub(in crate::computers) fn is_claimed(&self, id: ComputerId) -> bool {
        self.machines().is_claimed(id)
    }
}
