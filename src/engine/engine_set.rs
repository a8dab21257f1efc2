//! Several engines over one state folder: each operation goes to the engine of the machine's isolation.
//!
//! ```text
//!   driver (locks, disks, admission, disk guard, recovery, list)     once for all machines
//!     |
//!   EngineSet -- record of the machine: isolation --> ContainerEngine (runc), ContainerEngine (runsc), QemuEngine
//! ```
//! The set is one [`GuestDriver`]. So machines of all engines share one state folder, one sum of disks, one guard of the
//! disk and one search for leftovers, and none of them is a leftover of another. The isolation in a machine's record
//! says to which engine the parts belong that it has on the host. A start writes another one only after the engine
//! of the earlier isolation has removed its parts.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::container::ContainerEngine;
use crate::driver::{BootDependencies, GuestDriver, GuestMemory, GuestShutdown, HostContext, MachineBoot};
use crate::incus::IncusEngine;
use crate::leftovers::beside_operations;
use crate::qemu::QemuEngine;
use crate::state::layout::{Folder, Record};
use crate::state::machine_lock::MachineLock;
use crate::state::memory::{MemoryManifest, SavedMemory};
use crate::{
    Change, Check, Effect, Endpoint, EngineChecks, EngineError, EngineFindings, EngineKind, EngineResult,
    EngineSettings, LeftoverRecord, Observation, Offers, OpenMode, checks,
};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::isolation::Isolation;

/// The engines of a host. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct EngineSet {
    host: Arc<HostContext>,
    members: Arc<Vec<(Isolation, Member)>>,
    /// The settings as they were given, which the checks of the host examine.
    settings: Arc<EngineSettings>,
}

/// An engine of the set.
#[derive(Clone, Debug)]
enum Member {
    Container(ContainerEngine),
    Qemu(QemuEngine),
}

/// Calls the same method of whichever engine `$member` is.
macro_rules! each_engine {
    ($member:expr, $engine:ident => $call:expr) => {
        match $member {
            Member::Container($engine) => $call,
            Member::Qemu($engine) => $call,
        }
    };
}

impl EngineSet {
    /// Opens the engines; see [`crate::open`].
    pub(crate) fn open(settings: EngineSettings, mode: OpenMode) -> EngineResult<Self> {
        let given = Arc::new(settings.clone());
        let EngineSettings { mut host, mut kinds } = settings;
        if mode == OpenMode::Run {
            for kind in &mut kinds {
                match kind {
                    EngineKind::Container(own) => ContainerEngine::prepare(&mut host, own)?,
                    EngineKind::Qemu(own) => QemuEngine::prepare(&mut host, own)?,
                    EngineKind::Incus(_) => return Err(incus_among_others()),
                }
            }
        }
        let offers = kinds.iter().map(|kind| match kind {
            EngineKind::Container(own) => ContainerEngine::offer(own),
            EngineKind::Qemu(_) => QemuEngine::offer(),
            EngineKind::Incus(own) => IncusEngine::default_offer(own),
        });
        let host = Arc::new(HostContext::open(host, mode, Offers::several(offers.collect())?)?);
        let mut members = Vec::new();
        for (kind, isolation) in kinds.into_iter().zip(host.offers.isolations()) {
            let shared = Arc::clone(&host);
            members.push((
                isolation,
                match kind {
                    EngineKind::Container(own) => {
                        Member::Container(ContainerEngine::open(shared, &own, mode)?)
                    }
                    EngineKind::Qemu(own) => Member::Qemu(QemuEngine::open(shared, own, mode)?),
                    EngineKind::Incus(_) => return Err(incus_among_others()),
                },
            ));
        }
        Ok(Self { host, members: Arc::new(members), settings: given })
    }

    /// The engine of a machine.
    fn of(&self, folder: &Folder) -> EngineResult<&Member> {
        self.member(self.host.offer_of(folder)?.isolation)
    }

    /// The engine of an isolation that is offered.
    fn member(&self, isolation: Isolation) -> EngineResult<&Member> {
        let found = self.members.iter().find(|(own, _)| *own == isolation);
        // There is a member for each offer.
        found
            .map(|(_, member)| member)
            .ok_or_else(|| EngineError::failed("find the engine of the machine", isolation.name()))
    }
}

/// The engine over Incus has no machines on this host.
fn incus_among_others() -> EngineError {
    EngineError::failed("open the engines", "Incus must be the only engine of its controller")
}

impl GuestDriver for EngineSet {
    fn host(&self) -> &HostContext {
        &self.host
    }

    fn boot_dependencies(&self, isolation: Isolation) -> EngineResult<BootDependencies> {
        let effective = self.host.offers.require(isolation)?.isolation;
        each_engine!(self.member(effective)?, engine => engine.boot_dependencies(effective))
    }

    fn observe_guest(&self, folder: &Folder) -> EngineResult<Observation> {
        each_engine!(self.of(folder)?, engine => engine.observe_guest(folder))
    }

    fn is_executing(&self, folder: &Folder) -> EngineResult<bool> {
        each_engine!(self.of(folder)?, engine => engine.is_executing(folder))
    }

    fn allow_agent_clients(&self, folder: &Folder) -> EngineResult<()> {
        each_engine!(self.of(folder)?, engine => engine.allow_agent_clients(folder))
    }

    fn boot(&self, machine: &MachineBoot<'_>) -> EngineResult<Endpoint> {
        each_engine!(self.of(machine.folder)?, engine => engine.boot(machine))
    }

    fn apply(&self, folder: &Folder, before: &Record, change: Change) -> EngineResult<Effect> {
        each_engine!(self.of(folder)?, engine => engine.apply(folder, before, change))
    }

    fn unwritten_bytes(&self, folder: &Folder) -> u64 {
        // Of a machine whose isolation is not offered any more, only what its disk file has already counts.
        self.of(folder).map_or(0, |member| each_engine!(member, engine => engine.unwritten_bytes(folder)))
    }

    fn maintain(&self) -> EngineResult<()> {
        // One failure must not keep the others from maintenance.
        let maintained =
            self.members.iter().map(|(_, member)| each_engine!(member, engine => engine.maintain()));
        maintained.fold(Ok(()), Result::and)
    }

    fn check_host(&self, thorough: bool) -> Vec<EngineFindings> {
        let engines = checks(&self.settings).into_iter().map(|EngineChecks { offer, checks }| {
            let (run, left_out): (Vec<Check<'_>>, Vec<Check<'_>>) =
                checks.into_iter().partition(|check| thorough || check.is_quick);
            EngineFindings {
                offer,
                findings: run.into_iter().map(Check::run).collect(),
                left_out: left_out.into_iter().map(|check| check.what.into()).collect(),
            }
        });
        engines.collect()
    }

    fn find_leftovers(&self, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<LeftoverRecord>> {
        beside_operations(&self.host.state, &self.host.settings.network, owned)
    }

    fn copy_disk(&self, source: &Folder, fresh: &Path, to: &Path) -> EngineResult<()> {
        each_engine!(self.of(source)?, engine => engine.copy_disk(source, fresh, to))
    }

    fn copy_written(&self, folder: &Folder, to: &Path, lock: &MachineLock) -> EngineResult<()> {
        each_engine!(self.of(folder)?, engine => engine.copy_written(folder, to, lock))
    }
}

impl GuestMemory for EngineSet {
    fn version(&self, folder: &Folder) -> EngineResult<String> {
        each_engine!(self.of(folder)?, engine => engine.version(folder))
    }

    fn save(&self, folder: &Folder, generation: u64) -> EngineResult<()> {
        each_engine!(self.of(folder)?, engine => engine.save(folder, generation))
    }

    fn save_with_disk(
        &self,
        source: &Folder,
        memory: &Path,
        fresh: &Path,
        to: &Path,
    ) -> EngineResult<MemoryManifest> {
        each_engine!(self.of(source)?, engine => engine.save_with_disk(source, memory, fresh, to))
    }

    fn recover_resume(&self, folder: &Folder) -> EngineResult<()> {
        each_engine!(self.of(folder)?, engine => engine.recover_resume(folder))
    }

    fn restore(
        &self,
        machine: &MachineBoot<'_>,
        saved: &SavedMemory,
        manifest: MemoryManifest,
    ) -> EngineResult<Endpoint> {
        each_engine!(self.of(machine.folder)?, engine => engine.restore(machine, saved, manifest))
    }

    async fn undo_restore(&self, folder: &Folder) -> EngineResult<()> {
        each_engine!(self.of(folder)?, engine => engine.undo_restore(folder).await)
    }
}

impl GuestShutdown for EngineSet {
    async fn halt(&self, folder: &Folder, grace: Duration) -> EngineResult<()> {
        each_engine!(self.of(folder)?, engine => engine.halt(folder, grace).await)
    }

    async fn sweep(&self, folder: &Folder) -> EngineResult<()> {
        each_engine!(self.of(folder)?, engine => engine.sweep(folder).await)
    }

    async fn wait_ended(&self, id: ComputerId) -> EngineResult<()> {
        each_engine!(self.of(&self.host.state.folder(id))?, engine => engine.wait_ended(id).await)
    }
}
