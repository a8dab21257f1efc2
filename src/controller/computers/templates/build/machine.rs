//! Layer of what a machine writes: boot, steps, stop, and the copy of its disk.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Build, GENERATION, MachineLayer, NewLayer, TOKEN_CHARACTERS};
use crate::computers::runner::power::{BootGoal, boot_guest_until, is_usable};
use crate::computers::runner::{hardware_spec, refused};
use crate::computers::templates::build_log::Phase;
use crate::computers::templates::retention::remove_layer;
use crate::computers::templates::steps::downloads::{self, Downloads};
use crate::computers::templates::steps::program_list::ProgramList;
use crate::computers::templates::{BUILD_FAILED, steps};
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_base::secret::Secret;
use hotdesk_base::time::phase::PhaseTimer;
use hotdesk_base::wait;
use hotdesk_domain::computer::disk_guard::HOST_RESERVE;
use hotdesk_domain::computer::template::build::PlannedLayer;
use hotdesk_domain::desktop::resolution::Resolution;
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::{Boot, MachineSpec};
use hotdesk_guest::Guest;

/// Time for its programs to end before the disk is kept.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Time for a desktop that was installed to start.
const DESKTOP_TIMEOUT: Duration = Duration::from_secs(120);
/// Time between two looks at whether a machine is frozen: a step writes some hundred megabytes meanwhile.
const SHORTAGE_INTERVAL: Duration = Duration::from_millis(500);
/// Lines of output in the error of a failed step.
const ERROR_LINES: usize = 10;

impl Build<'_> {
    /// Makes a layer of what a machine writes. Before its end it is asked whether it has what the programs of the `next` layer need.
    pub(super) async fn make_layer(
        &self,
        new: &NewLayer<'_>,
        next: Option<&ProgramList>,
    ) -> Result<MachineLayer> {
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

    /// Waits until a machine of the build is frozen because it grows while the host is short of disk space: it would stand until
    /// the build's timeout.
    pub(in crate::computers::templates) async fn shortage(&self, machine: ComputerId, what: &str) -> Error {
        while !self.fleet.engine.is_frozen(machine) {
            tokio::time::sleep(SHORTAGE_INTERVAL).await;
        }
        short_of_space(what, None)
    }

    /// Whether the host has less free space than its reserve. Near that, the guard looks twenty times a second.
    fn is_short_of_space(&self) -> bool {
        self.fleet.free_disk.load(Ordering::Relaxed) < HOST_RESERVE
    }
}

fn short_of_space(what: &str, seen: Option<&Error>) -> Error {
    let seen = seen.map(|error| format!(" ({error})")).unwrap_or_default();
    Error::conflict(format!("{what}: the host is short of disk space: try again later, or write less{seen}"))
}
