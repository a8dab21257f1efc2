//! Knowledge of runners about desktops that are booted before somebody asks for them: wanted boot snapshots, and the
//! machines of the pool. `computers/prepared` makes them.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::prepared::pool::{PoolLimits, PoolSize};
use hotdesk_domain::computer::prepared::services::ServiceStart;
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

/// Most templates whose services are known not to start before a launch; of more, the oldest are tried again.
const MAX_FAILED: usize = 64;

/// Sizes of which snapshots are wanted.
pub(in crate::computers) struct BootSnapshots {
    /// Most snapshots; 0: every computer boots.
    pub(in crate::computers) keep: usize,
    wanted: Mutex<WantedSizes>,
    added: Notify,
}

#[derive(Default)]
struct WantedSizes {
    specs: VecDeque<DesktopSpec>,
    /// Templates whose services did not start before a launch, the oldest first. Until the next start of the
    /// controller they are not tried again, with any hardware: each attempt would be a boot of minutes.
    failed: VecDeque<PrestartKey>,
}

/// The services of a template and the kernel behind them, whatever the hardware.
#[derive(PartialEq)]
struct PrestartKey {
    isolation: Isolation,
    layers: Vec<LayerId>,
}

impl From<&DesktopSpec> for PrestartKey {
    fn from(spec: &DesktopSpec) -> Self {
        Self { isolation: spec.isolation, layers: spec.layers.clone() }
    }
}

impl WantedSizes {
    /// Takes the first size without services, which is made in seconds; else the first one.
    fn take(&mut self) -> Option<DesktopSpec> {
        let is_fast = |spec: &DesktopSpec| spec.services == ServiceStart::AtLaunch;
        let at = self.specs.iter().position(is_fast).unwrap_or_default();
        self.specs.remove(at)
    }
}

impl BootSnapshots {
    fn new(keep: u32) -> Self {
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        Self { keep, wanted: Mutex::default(), added: Notify::new() }
    }

    fn wanted(&self) -> MutexGuard<'_, WantedSizes> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::computers) fn want(&self, mut spec: DesktopSpec) {
        let mut wanted = self.wanted();
        if wanted.failed.contains(&PrestartKey::from(&spec)) {
            spec.services = ServiceStart::AtLaunch;
        }
        let size = DesktopSize::from(&spec);
        let specs = &mut wanted.specs;
        if specs.len() < MAX_WANTED && specs.iter().all(|other| DesktopSize::from(other) != size) {
            specs.push_back(spec);
            self.added.notify_one();
        }
    }

    /// Remembers that the services of a template do not start before a launch, and wants its snapshots without
    /// them.
    pub(in crate::computers) fn start_services_at_launch(&self, spec: DesktopSpec) {
        {
            let mut wanted = self.wanted();
            let key = PrestartKey::from(&spec);
            for other in wanted.specs.iter_mut().filter(|other| PrestartKey::from(&**other) == key) {
                other.services = ServiceStart::AtLaunch;
            }
            wanted.failed.push_back(key);
            if wanted.failed.len() > MAX_FAILED {
                wanted.failed.pop_front();
            }
        }
        self.want(spec);
    }

    /// Waits for the next size of which there may be no snapshot.
    pub(in crate::computers) async fn next(&self) -> DesktopSpec {
        loop {
            let next = self.wanted().take();
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use hotdesk_domain::computer::{ComputerRequest, parse_computer_request};

    fn spec(ram: f64, services: ServiceStart) -> DesktopSpec {
        let request = ComputerRequest { ram: Some(ram), ..ComputerRequest::default() };
        let hardware = parse_computer_request(&request).unwrap();
        DesktopSpec { isolation: Isolation::Sandbox, hardware, layers: Vec::new(), services }
    }

    #[test]
    fn services_that_did_not_start_before_a_launch_are_not_tried_again() {
        let snapshots = BootSnapshots::new(4);
        let next = || snapshots.next().now_or_never();
        let early = |ram| spec(ram, ServiceStart::BeforeLaunch);
        snapshots.want(early(4.0));
        snapshots.want(early(4.0));
        assert_eq!((next(), next()), (Some(early(4.0)), None));
        snapshots.start_services_at_launch(early(4.0));
        assert_eq!((next(), next()), (Some(spec(4.0, ServiceStart::AtLaunch)), None));
        snapshots.want(early(4.0));
        snapshots.want(early(8.0));
        assert_eq!(next(), Some(spec(4.0, ServiceStart::AtLaunch)));
        assert_eq!(
            (next(), next()),
            (Some(spec(8.0, ServiceStart::AtLaunch)), None),
            "whatever the hardware"
        );
        let other = DesktopSpec { layers: vec![LayerId::random()], ..early(4.0) };
        snapshots.want(other.clone());
        assert_eq!((next(), next()), (Some(other), None), "another template is tried");
    }

    #[test]
    fn sizes_without_services_come_first() {
        let snapshots = BootSnapshots::new(4);
        let next = || snapshots.next().now_or_never();
        let (slow, fast) = (spec(4.0, ServiceStart::BeforeLaunch), spec(8.0, ServiceStart::AtLaunch));
        snapshots.want(slow.clone());
        snapshots.want(fast.clone());
        assert_eq!((next(), next(), next()), (Some(fast), Some(slow), None));
    }
}
