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

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::build_log::{BuildLog, Level, Phase};
use super::retention::remove_layer;
use super::steps::desktop::DESKTOP;
use super::steps::downloads::{self, Downloads};
use super::steps::program_list::ProgramList;
use super::{BUILD_FAILED, CANCELLED, INTERRUPTED, steps};
use crate::computers::runner::power::{BootGoal, boot_guest_until, is_usable};
use crate::computers::runner::registry::FleetState;
use crate::computers::runner::{hardware_spec, refused};
use crate::data_dir::downloads::DownloadCaches;
use hotdesk_base::ids::{AccountId, ComputerId, LayerId};
use hotdesk_base::secret::Secret;
use hotdesk_base::time::phase::PhaseTimer;
use hotdesk_base::wait;
use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::computer::disk_guard::HOST_RESERVE;
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::template::build::{PlannedLayer, StepKind, plan_base, plan_layers};
use hotdesk_domain::computer::{ComputerRequest, Hardware, parse_computer_request};
use hotdesk_domain::desktop::resolution::Resolution;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::plural::plural;
use hotdesk_engine::{Boot, MachineSpec};
use hotdesk_guest::Guest;
use hotdesk_store::templates::builds::BuiltLayers;
use hotdesk_wire::template::TemplateDefinition;

/// vCPUs of a build's computer. Packages unpack with one and compile with several.
const BUILD_CPUS: f64 = 2.0;
/// Time for its programs to end before the disk is kept.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Time for a desktop that was installed to start.
const DESKTOP_TIMEOUT: Duration = Duration::from_secs(120);
/// Time between two looks at whether a machine is frozen: a step writes some hundred megabytes meanwhile.
const SHORTAGE_INTERVAL: Duration = Duration::from_millis(500);
/// Lines of output in the error of a failed step.
const ERROR_LINES: usize = 10;
/// Length of the token of its agent: 256 bits.
pub(super) const TOKEN_CHARACTERS: usize = 43;
/// Generation of the boot: those of computers begin at the same.
pub(super) const GENERATION: u64 = 1;

/// Layers that a build of a definition makes.
pub struct Plan {
    /// The guest image below the layers.
    pub image: String,
    /// Environment of the steps.
    pub environment: BTreeMap<String, String>,
    /// Digest of the imported image whose files the lowest layer has.
    pub base_id: Option<String>,
    /// The layers, the lowest first.
    pub layers: Vec<PlannedLayer>,
}

impl Plan {
    /// Plans the layers of a definition over the present guest image.
    ///
    /// # Errors
    /// `Unprocessable` (`template_invalid`) when its imported image is absent; `Internal` when the engine fails.
    pub async fn of(fleet: &FleetState, definition: &TemplateDefinition) -> Result<Self> {
        let image = fleet.engine.image_id().await.map_err(Error::internal)?;
        let environment = definition.values()?.environment().clone();
        let text = serde_json::to_string(&environment).map_err(Error::internal)?;
        let (mut layers, mut base_id) = (Vec::new(), None);
        if let Some(name) = &definition.base {
            let id = fleet.engine.base_id(name).await.map_err(Error::internal)?;
            let id = id.ok_or_else(|| missing_base(name))?;
            layers = plan_base(&image, &id, name.clone(), DESKTOP.clone());
            base_id = Some(id);
        }
        let below = layers.last().map_or(&image, |layer| &layer.inputs);
        let own = plan_layers(below, layers.len(), &text, steps::steps(definition)?);
        layers.extend(own);
        Ok(Self { image, environment, base_id, layers })
    }
}

fn short_of_space(what: &str, seen: Option<&Error>) -> Error {
    let seen = seen.map(|error| format!(" ({error})")).unwrap_or_default();
    Error::conflict(format!("{what}: the host is short of disk space: try again later, or write less{seen}"))
}

fn missing_base(name: &str) -> Error {
    let message = format!(
        "base: there is no imported image {name} on this service: its operator imports one (hotdesk image import {name} SOURCE)"
    );
    Error::unprocessable(message).code(ErrorCode::TemplateInvalid)
}

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

    /// Makes the layer with the list of programs. `fits_list` is whether the machine of the layer below had what they need; `None`
    /// when there was no such machine.
    async fn make_programs(
        &self,
        new: &NewLayer<'_>,
        list: &ProgramList,
        fits_list: Option<bool>,
    ) -> Result<LayerId> {
        let known = if list.needs_nothing() { Some(true) } else { fits_list };
        let (is_written, asks) = match known {
            Some(fits_list) => (fits_list, false),
            None => (list.fits_image && self.checks_services(list).await?, true),
        };
        if is_written && let Some(layer) = self.write_programs(new, list, asks).await? {
            return Ok(layer);
        }
        self.make_layer(new, None).await.map(|made| made.layer)
    }

    /// Writes the layer with the list of programs, without a machine. With `asks` the machine of the check is asked whether it has
    /// what they need. Returns `None` when a machine must make the layer; nothing is left then.
    async fn write_programs(
        &self,
        new: &NewLayer<'_>,
        list: &ProgramList,
        asks: bool,
    ) -> Result<Option<LayerId>> {
        // What follows does not look for the end of the build, unless there is a check.
        if let Some(error) = self.interruption().now_or_never() {
            return Err(error);
        }
        self.log.enter(Phase::Snapshot);
        let layer = LayerId::random();
        let owner = new.planned.owner(self.account, self.operator);
        self.fleet.store.add_template_layer(owner, layer, &new.planned.inputs).await?;
        let written = self.fleet.engine.keep_programs(&list.text, new.below, layer).await;
        let made = match written {
            Ok(Some(bytes)) => {
                let title = new.planned.title();
                self.note(Phase::Snapshot, &format!("{title} is written without a computer"));
                self.complete(new, layer, bytes, asks).await
            }
            Ok(None) => Ok(false),
            Err(error) => Err(refused(BUILD_FAILED, &error)),
        };
        if !matches!(made, Ok(true)) {
            remove_layer(self.fleet, layer).await;
        }
        made.map(|is_made| is_made.then_some(layer))
    }

    /// Makes a layer of what a machine writes. Before its end it is asked whether it has what the programs of the `next` layer need.
    async fn make_layer(&self, new: &NewLayer<'_>, next: Option<&ProgramList>) -> Result<MachineLayer> {
        let NewLayer { isolation, hardware, below, planned, .. } = *new;
        let (machine, layer) = (ComputerId::random(), LayerId::random());
        let _lease = self.fleet.temporary_machines.lease(machine);
        let spec = MachineSpec { layers: below.to_vec(), ..hardware_spec(machine, isolation, &hardware) };
        let title = planned.title();
        let filled = tokio::select! {
            filled = self.fill_disk_with_cause(&spec, new, next) => filled,
            error = self.interruption() => Err(error),
            error = self.shortage(machine, &title) => Err(error),
        };
        // Not interrupted: the engine would go on copying, and the layer would appear after its removal.
        let kept = match filled {
            Ok(fits_list) => self.keep(machine, layer, planned).await.map(|bytes| (bytes, fits_list)),
            Err(error) => Err(error),
        };
        if let Err(error) = self.fleet.engine.destroy(machine).await {
            tracing::warn!(
                computer = %machine,
                error = format_args!("{error:#}"),
                "could not remove the machine of a build; the next start retries"
            );
        }
        let made = match kept {
            Ok((bytes, fits_list)) => self.complete(new, layer, bytes, false).await.map(|_| fits_list),
            Err(error) => Err(error),
        };
        if made.is_err() {
            remove_layer(self.fleet, layer).await;
        }
        made.map(|fits_list| MachineLayer { layer, fits_list })
    }

    /// Checks the services over a layer that is on the host, and stores that it is complete. Returns false without that when the
    /// machine of the check `asks` whether it has what the programs need, and it has not.
    async fn complete(&self, new: &NewLayer<'_>, layer: LayerId, bytes: u64, asks: bool) -> Result<bool> {
        if let Some(list) = new.list {
            let layers = [new.below, &[layer]].concat();
            let spec = hardware_spec(ComputerId::random(), new.isolation, &new.hardware);
            if !self.check_services(list, &MachineSpec { layers, ..spec }, asks).await? {
                return Ok(false);
            }
        }
        self.fleet.store.finish_template_layer(layer, bytes).await.map(|()| true)
    }

    /// [`Self::fill_disk`], whose error tells when the host is short of disk space. A step that fails meanwhile may not know why:
    /// its programs see I/O errors, or the guard of the disk has killed them.
    async fn fill_disk_with_cause(
        &self,
        spec: &MachineSpec,
        new: &NewLayer<'_>,
        next: Option<&ProgramList>,
    ) -> Result<bool> {
        match self.fill_disk(spec, new, next).await {
            Err(error) if self.is_short_of_space() => Err(short_of_space(&new.planned.title(), Some(&error))),
            filled => filled,
        }
    }

    /// Boots a machine over the layers so far, runs the steps, and stops it. Returns whether it had what the programs of the `next`
    /// layer need.
    async fn fill_disk(
        &self,
        spec: &MachineSpec,
        new: &NewLayer<'_>,
        next: Option<&ProgramList>,
    ) -> Result<bool> {
        let NewLayer { planned, environment, .. } = *new;
        let engine = &self.fleet.engine;
        let failed = |error| refused(BUILD_FAILED, &error);
        let guest = {
            let _turn = self.fleet.starts.acquire().await.map_err(Error::internal)?;
            self.note(Phase::Boot, &format!("a computer boots for {}", planned.title()));
            engine.create(spec).await.map_err(failed)?;
            let token = Secret::random(TOKEN_CHARACTERS);
            let boot = Boot { generation: GENERATION, token, resolution: Resolution::default() };
            let goal =
                if planned.needs_desktop() { BootGoal::DesktopIsUsable } else { BootGoal::AgentAnswers };
            boot_guest_until(&**engine, spec, &boot, goal).await?
        };
        {
            let _phase = PhaseTimer::begin(spec.id, "steps");
            self.run_steps(&guest, spec, planned, environment).await?;
        }
        if planned.is_of_base() {
            let usable =
                wait::until(DESKTOP_TIMEOUT, || async { guest.health().await.ok().filter(is_usable) });
            if usable.await.is_none() {
                let message = "the desktop was installed on the imported image, and does not start there";
                return Err(Error::conflict(message));
            }
        }
        let fits_list = match next {
            Some(list) => list.is_satisfied(&guest, environment).await,
            None => false,
        };
        engine.stop(spec.id, STOP_GRACE).await.map_err(failed)?;
        Ok(fits_list)
    }

    /// Runs the steps of a layer, with the downloads of earlier builds. Without them over an imported image: its programs
    /// could fill the cache from which layers of others are installed.
    async fn run_steps(
        &self,
        guest: &Guest,
        spec: &MachineSpec,
        planned: &PlannedLayer,
        environment: &BTreeMap<String, String>,
    ) -> Result<()> {
        let content = (&planned.steps[..], spec.disk_bytes);
        let cached = match self.definition.base {
            Some(_) => None,
            None => Downloads::begin(self.downloads, self.account, guest, self.log, content).await,
        };
        let mut variables = if planned.is_of_base() { BTreeMap::new() } else { environment.clone() };
        variables.extend(downloads::environment(cached.as_ref()));
        for step in &planned.steps {
            self.note(Phase::Install, &format!("{} begins", step.field));
            let code = steps::run::run(guest, step, &variables, self.log).await?;
            if code != 0 {
                let output = self.log.last_output(ERROR_LINES).join("\n");
                return Err(Error::conflict(format!(
                    "{} ended with exit code {code}:\n{output}",
                    step.field
                )));
            }
        }
        if let Some(cached) = cached {
            cached.end().await;
        }
        Ok(())
    }

    /// Makes a layer of what a stopped machine has written, and returns its size in bytes. The layer cannot be used yet.
    async fn keep(&self, machine: ComputerId, layer: LayerId, planned: &PlannedLayer) -> Result<u64> {
        let engine = &self.fleet.engine;
        let failed = |error| refused(BUILD_FAILED, &error);
        self.note(Phase::Snapshot, &format!("{} is kept", planned.title()));
        let owner = planned.owner(self.account, self.operator);
        self.fleet.store.add_template_layer(owner, layer, &planned.inputs).await?;
        engine.keep_layer(machine, layer).await.map_err(failed)
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

    /// Waits until a machine of the build is frozen because it grows while the host is short of disk space: it would stand until
    /// the build's timeout.
    pub(super) async fn shortage(&self, machine: ComputerId, what: &str) -> Error {
        while !self.fleet.engine.is_frozen(machine) {
            tokio::time::sleep(SHORTAGE_INTERVAL).await;
        }
        short_of_space(what, None)
    }

    /// Whether the host has less free space than its reserve. Near that, the guard looks twenty times a second.
    fn is_short_of_space(&self) -> bool {
        self.fleet.free_disk.load(Ordering::Relaxed) < HOST_RESERVE
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
