//! One build: layers from steps, in computers that nobody else reaches.
//!
//! ```text
//! for each planned layer:   there is one with these inputs? -- yes --> use it
//!   no: create a machine over the layers so far, boot, run the steps, stop, keep what it wrote, destroy it
//!       the lowest layer above an imported image: the engine makes it of the image's files
//!       the layer with the list of programs: the engine writes it, if a machine has what the programs need; then boot another
//!           machine, and wait until its services are up and healthy
//! ```
//! Whether a machine has what the programs need is asked in that of the layer below, before it stops. Without one, as after a change
//! of the programs alone, it is asked in the machine of the check. Where something is missing, a machine makes the layer.

mod machine;
mod plan;
mod programs;

use std::collections::BTreeMap;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::build_log::{BuildLog, Level, Phase};
use super::retention::remove_layer;
use super::steps::program_list::ProgramList;
use super::{BUILD_FAILED, CANCELLED, INTERRUPTED};
use crate::computers::runner::refused;
use crate::computers::runner::registry::FleetState;
use crate::data_dir::downloads::DownloadCaches;
use hotdesk_base::ids::{AccountId, LayerId};
use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::template::build::{PlannedLayer, StepKind};
use hotdesk_domain::computer::{ComputerRequest, Hardware, parse_computer_request};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::plural::plural;
use hotdesk_store::templates::builds::BuiltLayers;
use hotdesk_wire::template::TemplateDefinition;
pub use plan::Plan;

/// vCPUs of a build's computer. Packages unpack with one and compile with several.
const BUILD_CPUS: f64 = 2.0;
/// Length of the token of its agent: 256 bits.
pub(super) const TOKEN_CHARACTERS: usize = 43;
/// Generation of the boot: those of computers begin at the same.
pub(super) const GENERATION: u64 = 1;

/// A layer that is made.
struct NewLayer<'a> {
    isolation: Isolation,
    hardware: Hardware,
    /// The layers below, the lowest first.
    below: &'a [LayerId],
    planned: &'a PlannedLayer,
    environment: &'a BTreeMap<String, String>,
    /// The list of programs that it has.
    list: Option<&'a ProgramList>,
}

/// A layer that a machine made.
struct MachineLayer {
    layer: LayerId,
    /// Whether the machine had what the programs of the next layer need.
    fits_list: bool,
}

/// A build that runs.
pub struct Build<'a> {
    /// The fleet's engine and store.
    pub fleet: &'a FleetState,
    /// The account whose layers it uses.
    pub account: AccountId,
    /// The operator's account, which has the layers of imported images.
    pub operator: AccountId,
    /// Downloads of earlier builds.
    pub downloads: &'a DownloadCaches,
    /// Held while layers of an imported image are made or looked for.
    pub base_turn: &'a Mutex<()>,
    /// Digest of the document.
    pub digest: &'a str,
    /// Limits of the account.
    pub plans: &'a Plans,
    /// The definition.
    pub definition: &'a TemplateDefinition,
    /// Its log.
    pub log: &'a BuildLog,
    /// Ends it.
    pub cancel: &'a CancellationToken,
    /// When it must have ended.
    pub deadline: Instant,
}

impl Build<'_> {
    /// Makes the layers of the definition. Whatever ends it, no machine and no unfinished layer stays.
    ///
    /// # Errors
    /// What failed, for the template's author.
    pub async fn run(&self) -> Result<BuiltLayers> {
        let isolation = self.isolation()?;
        let Plan { image, environment, base_id, layers: all } = Plan::of(self.fleet, self.definition).await?;
        let list = ProgramList::of(self.definition)?;
        let is_list = |layer: &PlannedLayer| layer.kind() == Some(StepKind::Programs);
        let steps: usize = all.iter().map(|layer| layer.steps.len()).sum();
        self.note(Phase::Compile, &plural(u32::try_from(steps).unwrap_or(u32::MAX), "step"));
        // Whether the machine of the layer before had what the programs need, if it was asked.
        let (mut layers, mut asked) = (Vec::new(), None);
        for (at, planned) in all.iter().enumerate() {
            let fits_list: Option<bool> = asked.take();
            // Builds of several accounts may want the layers of one imported image at the same time.
            let _turn = if planned.is_of_base() { Some(self.wait_for_base().await?) } else { None };
            let owner = planned.owner(self.account, self.operator);
            let found = self.fleet.store.use_template_layer(owner, &planned.inputs).await?;
            let layer = match found {
                Some(layer) => {
                    self.note(Phase::Install, &format!("{}: unchanged", planned.title()));
                    layer
                }
                None if planned.kind() == Some(StepKind::Base) => {
                    self.make_base(planned, base_id.as_deref().unwrap_or_default()).await?
                }
                None => {
                    let hardware = self.admit(planned).await?;
                    let (below, environment) = (&layers[..], &environment);
                    let own = list.as_ref().filter(|_| is_list(planned));
                    let new = NewLayer { isolation, hardware, below, planned, environment, list: own };
                    if let Some(list) = own {
                        self.make_programs(&new, list, fits_list).await?
                    } else {
                        // The machine of an imported image has not the environment of the template.
                        let is_below_list = all.get(at + 1).is_some_and(is_list) && !planned.is_of_base();
                        let next = list.as_ref().filter(|list| is_below_list && !list.needs_nothing());
                        let made = self.make_layer(&new, next).await?;
                        asked = next.map(|_| made.fits_list);
                        made.layer
                    }
                }
            };
            layers.push(layer);
        }
        self.tell_of_prestart();
        Ok(BuiltLayers { image, layers })
    }

    /// Tells the author when services will not start before launches though the definition asks for it.
    fn tell_of_prestart(&self) {
        let isolation = self.fleet.engine.offers().default().isolation;
        let decided = self.definition.service_start(isolation, self.definition.egress_policy.is_some());
        if let Err(obstacle) = decided {
            let line =
                format!("prestart has no effect, and services start at each launch: {}", obstacle.reason());
            self.log.add(Level::Warn, Phase::Check, None, &line);
        }
    }

    /// The first isolation that this host offers whose disks it may read.
    fn isolation(&self) -> Result<Isolation> {
        let offered = self.fleet.engine.offers().isolations();
        let found = offered.into_iter().find(|isolation| *isolation != Isolation::Vm);
        found.ok_or_else(|| {
            Error::conflict(
                "templates are built by computers of isolation sandbox or shared, and this host offers neither: the \
                 operator adds one to engines.offered",
            )
        })
    }

    pub(super) fn note(&self, phase: Phase, line: &str) {
        self.log.add(Level::Info, phase, None, line);
    }

    async fn wait_for_base(&self) -> Result<MutexGuard<'_, ()>> {
        tokio::select! {
            turn = self.base_turn.lock() => Ok(turn),
            error = self.interruption() => Err(error),
        }
    }

    /// Makes the layer with the files of an imported image.
    async fn make_base(&self, planned: &PlannedLayer, id: &str) -> Result<LayerId> {
        let (layer, store) = (LayerId::random(), &self.fleet.store);
        let name = planned.steps.first().map(|step| step.script.as_str()).unwrap_or_default();
        self.note(Phase::Install, &format!("the files of {name} are taken"));
        store.add_template_layer(self.operator, layer, &planned.inputs).await?;
        let made = async {
            let kept = self.fleet.engine.keep_base(name, id, layer).await;
            let bytes = kept.map_err(|error| refused(BUILD_FAILED, &error))?;
            store.finish_template_layer(layer, bytes).await
        };
        let made = made.await;
        if made.is_err() {
            remove_layer(self.fleet, layer).await;
        }
        made.map(|()| layer)
    }

    /// Waits for what ends a build early.
    pub(super) async fn interruption(&self) -> Error {
        let stopping = self.fleet.tasks.stopping();
        let (phase, why) = tokio::select! {
            () = self.cancel.cancelled() => (Phase::Cancel, CANCELLED),
            () = tokio::time::sleep_until(self.deadline) => (Phase::Timeout, "the build took too long"),
            () = stopping.cancelled() => (Phase::Cancel, INTERRUPTED),
        };
        self.log.enter(phase);
        Error::conflict(why)
    }

    /// Checks that the account may make one more layer, and returns the hardware of its computer: at most what the plan
    /// permits.
    ///
    /// # Errors
    /// `NotFound` when the template was deleted meanwhile; `Forbidden` (`DISK_QUOTA_EXCEEDED`) when the account's disk is
    /// used up.
    async fn admit(&self, planned: &PlannedLayer) -> Result<Hardware> {
        let store = &self.fleet.store;
        if !store.is_published(self.account, self.digest).await? {
            return Err(Error::not_found("the template was deleted"));
        }
        let allowance = super::check_disk(store, self.plans, self.account).await?;
        // The size of a template's disk does not count for what other templates share.
        let disk_gb = self.definition.hardware.disk_gb.filter(|_| !planned.is_of_base());
        let disk_gb = disk_gb.map(|disk| disk.min(allowance.disk_gb.into()) as f64);
        let cpu = Some(BUILD_CPUS.min(allowance.cpu.into()));
        let hardware =
            parse_computer_request(&ComputerRequest { cpu, disk_gb, ..ComputerRequest::default() })?;
        Ok(Hardware { bandwidth_mbps: allowance.bandwidth_mbps, ..hardware })
    }
}
