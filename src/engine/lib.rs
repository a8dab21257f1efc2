//! Compute engines: the [`Engine`] trait and its implementations (floor 4).
//!
//! An engine makes *machines*; the controller calls a machine that belongs to somebody a *computer*. Every
//! operation is idempotent: a request for the present state succeeds. An engine labels everything that a
//! machine leaves on its host with the computer's id and generation before first use. So a restarted
//! controller finds it (T18, docs/security.md).
//!
//! | folder | contents |
//! |---|---|
//! | `contract` | the trait `Engine`, its data, its errors, and settings of every engine |
//! | `container`, `qemu` | how a guest runs: OCI containers (runc, gVisor) and virtual machines |
//! | `incus` | computers as instances of an Incus server or cluster |
//! | `driver` | the steps of every operation that the engines of this host share (`GuestDriver`) |
//! | `leftovers` | search for what crashes left on the host, and its removal |
//! | `state` | records, disks, saved memory and locks in the state folder |
//! | `engine_set` | several engines over one state folder: the engine of a machine's isolation |
//! | `remote` | an engine in another process, the host helper: its protocol, client and server |
//! | `host` | the host's kernel: control groups, mounts, network, loop devices, slots |
//! | `simulated` | machines without guests, for tests (cargo feature `simulated`) |

mod container;
mod contract;
mod driver;
mod engine_set;
mod host;
mod incus;
mod leftovers;
mod qemu;
pub mod remote;
#[cfg(feature = "simulated")]
pub mod simulated;
mod state;

use std::sync::Arc;

pub use hotdesk_domain::computer::endpoint::Endpoint;

use crate::container::ContainerEngine;
pub use crate::container::ContainerSettings;
pub use crate::contract::error::{EngineError, EngineResult, Shortage};
pub use crate::contract::settings::{DISK_OVERCOMMIT, HostSettings};
pub use crate::contract::traits::Engine;
pub(crate) use crate::contract::types::whole_cpus;
pub use crate::contract::types::{
    Boot, Capabilities, Change, DiskWatch, Effect, EngineFindings, FileKey, Finding, HostObservation,
    LeftoverRecord, MAX_LAYERS, MachineSpec, Observation, Offer, Offers, Severity, Snapshot,
};
pub use crate::driver::checks::Check;
pub use crate::driver::layers::bases::{BASE_RECORD, BaseFolder, BaseRecord, discard as discard_base};
pub use crate::driver::layers::remove_tree;
use crate::engine_set::EngineSet;
pub use crate::host::addresses::{Addresses, AgentClient, InvalidSubnet, NetworkConfig, Subnet};
pub use crate::host::network::AGENT_PORT;
pub use crate::host::network::name_proxy::run as run_name_proxy;
use crate::incus::IncusEngine;
pub use crate::incus::{
    ImagePresence, IncusSettings, JoinToken, PruneOutcome, PruneReport, PrunedImage, PrunedVolume,
    PublicationStep, PublishedImage, run_bridge, run_launcher,
};
pub use crate::leftovers::{Leftover, Leftovers, MAX_LEFTOVERS};
use crate::qemu::QemuEngine;
pub use crate::qemu::QemuSettings;
pub use crate::state::disk::{DiskSpeed, check_free};
pub use crate::state::layout::BASES;
pub use crate::state::saved::{Extents, SavedFile, SavedLocation, SavedState};

/// The engines of this host with all their settings.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// Settings that every engine has.
    pub host: HostSettings,
    /// The engines, each with the settings that only it has; the first is the default. One that is alone runs every
    /// machine, also those of another isolation.
    pub kinds: Vec<EngineKind>,
}

/// The engines.
#[derive(Clone, Debug)]
pub enum EngineKind {
    /// OCI containers.
    Container(ContainerSettings),
    /// Virtual machines.
    Qemu(QemuSettings),
    /// Instances of an Incus server or cluster. It is the only engine of its controller.
    Incus(IncusSettings),
}

/// The purpose for which an engine is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Every operation. Needs what guests boot from: the image, the agent, and a kernel in virtual machines.
    Run,
    /// Removal of machines. The image and the agent may be gone, and the disk may be full.
    Remove,
    /// Observation, without changes in the state folder.
    ReadOnly,
}

/// Opens the state folder of the engines, making it when missing, and sets the umask of this process to 0022. Except to read, it finishes interrupted
/// destroys; to run, it also thaws frozen disks and removes unfinished files of a killed controller. `list`
/// and `observe` find the machines that run.
///
/// # Errors
/// `Failed`, naming the path, when the state folder cannot be used, or when something that `mode` needs is
/// missing, or two engines offer the same isolation.
pub fn open(settings: EngineSettings, mode: OpenMode) -> EngineResult<Arc<dyn Engine>> {
    host::files::set_umask();
    if let [EngineKind::Incus(own)] = settings.kinds.as_slice() {
        let own = own.clone();
        return Ok(Arc::new(IncusEngine::open(settings.host, own, mode)?));
    }
    driver::share(EngineSet::open(settings, mode)?, mode)
}

/// Publishes the guest image of the settings, with this program as its agent, in the image store of Incus, in the form of each
/// offered isolation, unless it is published. Then each member of a cluster that lacks the image, or the volume with the guest image
/// for gVisor, fetches it, four at once.
/// `report` hears of each step.
///
/// # Errors
/// `Failed` when the engine is not Incus, another publication of the state folder runs, or the server refuses; `NoCapacity` when
/// a disk is full. A later call continues. A member that cannot fetch the image is no error, but a part of the outcome.
pub async fn publish_images(
    settings: EngineSettings,
    report: &(dyn Fn(&PublicationStep) + Sync),
) -> EngineResult<Vec<PublishedImage>> {
    incus_alone(settings, "publish the guest image")?.publish(report).await
}

/// Removes the images that the state folder of the settings published in Incus, except for the present guest image and for those
/// that an instance of the project began from, and the volumes with guest images that nothing in the project needs. Returns what was
/// done with each.
///
/// # Errors
/// `Failed` when the engine is not Incus, a publication of the state folder runs, the server refuses, or a member does not answer.
pub async fn prune_images(settings: EngineSettings) -> EngineResult<PruneReport> {
    incus_alone(settings, "remove old images")?.prune().await
}

/// Makes a token with which one machine can join the Incus cluster of the settings under this name, once. An earlier token for
/// the name is revoked.
///
/// # Errors
/// `Failed` when the engine is not Incus, the server is in no cluster, has a member of this name, or gives the client
/// certificate no access to the cluster.
pub async fn new_join_token(settings: EngineSettings, name: &str) -> EngineResult<JoinToken> {
    incus_alone(settings, "add a host")?.join_token(name).await
}

/// The engine over Incus of the settings.
fn incus_alone(settings: EngineSettings, step: &'static str) -> EngineResult<IncusEngine> {
    let [EngineKind::Incus(own)] = settings.kinds.as_slice() else {
        return Err(EngineError::failed(step, "engines.incus.url is not set"));
    };
    host::files::set_umask();
    let own = own.clone();
    IncusEngine::open(settings.host, own, OpenMode::ReadOnly)
}

/// Offer of one engine, and the checks whether this host can run it.
pub struct EngineChecks<'a> {
    /// Its offer.
    pub offer: Offer,
    /// The checks; each tries the real operation when it is run.
    pub checks: Vec<Check<'a>>,
}

/// Returns the checks whether this host can run each engine, the default first. Together they take some seconds; with
/// QEMU half a minute where processors are emulated, and a minute more where KVM hangs. Sets the umask of this process to 0022.
pub fn checks(settings: &EngineSettings) -> Vec<EngineChecks<'_>> {
    let EngineSettings { host, kinds } = settings;
    host::files::set_umask();
    let checks = kinds.iter().map(|kind| match kind {
        EngineKind::Container(own) => {
            EngineChecks { offer: ContainerEngine::offer(own), checks: container::probe::checks(host, own) }
        }
        EngineKind::Qemu(own) => {
            EngineChecks { offer: QemuEngine::offer(), checks: qemu::probe::checks(host, own) }
        }
        EngineKind::Incus(own) => {
            EngineChecks { offer: IncusEngine::default_offer(own), checks: incus::checks(host, own) }
        }
    });
    let mut checks: Vec<_> = checks.collect();
    if host.encrypts_machines {
        // Every engine needs it, of the same folder.
        for engine in &mut checks {
            engine.checks.push(driver::checks::encryption(&host.state_dir));
        }
    }
    checks
}

/// The search for leftovers in the engines' state folder and on its host.
///
/// # Errors
/// `Failed` when the state folder cannot be used.
pub fn leftovers(settings: EngineSettings) -> EngineResult<Leftovers> {
    let host = settings.host.clone();
    Leftovers::new(open(settings, OpenMode::ReadOnly)?, host)
}

/// Undoes what computers need of the whole host: packet forwarding and packet rules. Does nothing while a computer of any
/// data folder holds a slot; then it returns `false`. Blocks.
///
/// # Errors
/// `Failed` when the kernel or `nft` refuses.
pub fn release_host() -> EngineResult<bool> {
    host::network::release()
}
