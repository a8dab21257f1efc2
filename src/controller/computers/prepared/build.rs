//! Boots for boot snapshots and for the pool, in the background and after all other starts.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;

use crate::computers::fleet::Fleet;
use crate::computers::runner::power::boot_guest;
use crate::computers::runner::registry::{FleetState, STARTS_AT_ONCE, stopping};
use crate::computers::runner::{NewIdentity, hardware_spec, refused};
use hotdesk_base::ids::SnapshotId;
use hotdesk_domain::computer::Hardware;
use hotdesk_domain::computer::prepared::services::{MAX_PRESTARTED_BYTES, ServiceStart};
use hotdesk_domain::computer::prepared::{DesktopSize, DesktopSpec};
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_engine::{Boot, MachineSpec};
use hotdesk_guest::Guest;
use hotdesk_store::fleet::prepared::PreparedMachine;
use hotdesk_store::fleet::prepared::boot_snapshots::BootSnapshot;
use hotdesk_wire::desktop::action::WaitStable;
use hotdesk_wire::desktop::effect::{ActionResult, Settle};
use hotdesk_wire::programs::service::PrepareTemplate;

/// Pause between two looks whether computers are starting.
const IDLE_PAUSE: Duration = Duration::from_millis(500);
/// Pause after a failure. What is missing, such as disk space, is rarely there at once.
const RETRY_PAUSE: Duration = Duration::from_secs(60);
/// Time without a change after which a desktop is settled, in milliseconds.
const QUIET_MS: u32 = 1500;
/// Longest wait for that, in milliseconds. A desktop that never rests is used as it is.
const SETTLE_MS: u32 = 30_000;
/// For the agent's answer after [`SETTLE_MS`].
const SETTLE_TIMEOUT: Duration = Duration::from_secs(40);
/// Generation of the boot in a snapshot or in the pool: that of a new computer.
const GENERATION: u64 = 1;
const FAILED: &str = "Desktop could not be prepared";

/// Why a boot snapshot was not made.
enum BuildFailure {
    /// Its services cannot run in one.
    Services(Error),
    /// Anything else.
    Other(Error),
}

impl BuildFailure {
    fn error(&self) -> &Error {
        match self {
            Self::Services(error) | Self::Other(error) => error,
        }
    }

    /// The agent answers `Conflict` for services that are not up or not healthy. All else may be the host's
    /// fault.
    fn of_prestart(error: Error) -> Self {
        if error.kind == Kind::Conflict { Self::Services(error) } else { Self::Other(error) }
    }
}

impl From<Error> for BuildFailure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl Fleet {
    /// Starts to make the boot snapshots that creates want.
    pub fn start_boot_snapshots(&self) {
        if !self.shared.makes_boot_snapshots() {
            return;
        }
        let (shared, stop) = (Arc::clone(&self.shared), self.shared.tasks.stopping());
        let _task = self.shared.tasks.spawn("boot snapshots", async move {
            loop {
                let spec = tokio::select! {
                    () = stop.cancelled() => break,
                    spec = shared.next_wanted() => spec,
                };
                let Err(failure) = shared.make_boot_snapshot(&spec).await else { continue };
                if stop.is_cancelled() {
                    break;
                }
                tracing::warn!(
                    size = DesktopSize::from(&spec).as_str(),
                    error = format_args!("{:#}", failure.error()),
                    "could not make a boot snapshot; computers of this size boot"
                );
                match failure {
                    BuildFailure::Services(_) => {
                        shared.boot_snapshots.start_services_at_launch(spec);
                        continue;
                    }
                    BuildFailure::Other(_) => {}
                }
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(RETRY_PAUSE) => {}
                }
                // A host that is short of something may have it now.
                if spec.services == ServiceStart::BeforeLaunch {
                    shared.boot_snapshots.want(spec);
                }
            }
        });
    }
}

impl FleetState {
    /// Waits for a wanted size, and until no computer is starting.
    async fn next_wanted(&self) -> DesktopSpec {
        let spec = self.boot_snapshots.next().await;
        self.until_no_start().await;
        spec
    }

    async fn until_no_start(&self) {
        while self.starts.available_permits() < STARTS_AT_ONCE {
            tokio::time::sleep(IDLE_PAUSE).await;
        }
    }

    /// Makes the boot snapshot of a size, unless there is one. A failed one leaves nothing.
    async fn make_boot_snapshot(&self, spec: &DesktopSpec) -> Result<(), BuildFailure> {
        let inputs = self.engine.boot_inputs(spec.isolation).await.map_err(Error::internal)?;
        let size = DesktopSize::from(spec);
        if self.store.boot_snapshot(&inputs, &size).await?.is_some() {
            return Ok(());
        }
        let (new, snapshot) = (PreparedMachine::random(inputs, size.clone()), SnapshotId::random());
        self.store.add_boot_snapshot(&new, snapshot).await?;
        let stop = self.tasks.stopping();
        let made = tokio::select! {
            made = self.boot_and_save(&new, snapshot, spec) => made,
            () = stop.cancelled() => Err(stopping().into()),
        };
        if let Err(failure) = made {
            if let Err(left) = self.remove_boot_snapshot(new.id).await {
                tracing::warn!(
                    error = format_args!("{left:#}"),
                    "could not remove an unfinished boot snapshot; the next start does"
                );
            }
            return Err(failure);
        }
        tracing::info!(size = size.as_str(), "made a boot snapshot: computers of this size begin from it");
        self.trim_boot_snapshots().await?;
        Ok(())
    }

    async fn boot_and_save(
        &self,
        new: &PreparedMachine,
        snapshot: SnapshotId,
        spec: &DesktopSpec,
    ) -> Result<(), BuildFailure> {
        let failed = |error| refused(FAILED, &error);
        let guest = {
            let _turn = self.starts.acquire().await.map_err(Error::internal)?;
            self.boot_prepared(new, spec).await?
        };
        if spec.services == ServiceStart::BeforeLaunch {
            // Not in the turn of a start: it may take minutes.
            let prepared = guest.prepare_template(PrepareTemplate { prestart: true }).await;
            prepared.map_err(BuildFailure::of_prestart)?;
            settle(&guest).await?;
        }
        let _turn = self.starts.acquire().await.map_err(Error::internal)?;
        let saved = self.engine.snapshot(new.id, snapshot.0, true).await.map_err(failed)?;
        if spec.services == ServiceStart::BeforeLaunch && saved.bytes > MAX_PRESTARTED_BYTES {
            return Err(BuildFailure::Services(Error::conflict(format!(
                "memory and disk of its services take {} bytes, and at most {MAX_PRESTARTED_BYTES} are kept",
                saved.bytes
            ))));
        }
        self.engine.stop(new.id, Duration::ZERO).await.map_err(failed)?;
        self.store.use_boot_snapshot(new.id).await?;
        Ok(())
    }

    /// Makes one machine for the pool. A failed one leaves nothing.
    pub(super) async fn make_pooled_machine(&self, spec: &DesktopSpec) -> Result<()> {
        let stop = self.tasks.stopping();
        let inputs = self.engine.boot_inputs(spec.isolation).await.map_err(Error::internal)?;
        let new = PreparedMachine::random(inputs, DesktopSize::from(spec));
        tokio::select! {
            () = self.until_no_start() => {}
            () = stop.cancelled() => return Err(stopping()),
        }
        self.store.add_pooled_machine(&new).await?;
        let booted = async {
            let _turn = self.starts.acquire().await.map_err(Error::internal)?;
            if !self.begin_pooled(&new, spec).await? {
                self.boot_prepared(&new, spec).await?;
            }
            self.store.finish_pooled_machine(new.id).await
        };
        let booted = tokio::select! {
            booted = booted => booted,
            () = stop.cancelled() => Err(stopping()),
        };
        if booted.is_err()
            && let Err(left) = self.remove_from_pool(new.id).await
        {
            tracing::warn!(
                error = format_args!("{left:#}"),
                "could not remove an unfinished machine of the pool; the next start does"
            );
        }
        booted
    }

    /// Makes a machine of the pool from the boot snapshot of its size. Returns false when it must boot.
    async fn begin_pooled(&self, new: &PreparedMachine, spec: &DesktopSpec) -> Result<bool> {
        if !self.makes_boot_snapshots_of(spec.isolation) {
            return Ok(false);
        }
        let Some(snapshot) = self.store.boot_snapshot(&new.inputs, &new.size).await? else {
            self.boot_snapshots.want(spec.clone());
            return Ok(false);
        };
        match self.launch_pooled(new, spec, &snapshot).await {
            Ok(_) => {
                self.note_use(&snapshot).await;
                Ok(true)
            }
            Err(error) => {
                let undone = self.undo_launch(new.id, &snapshot, &error).await;
                undone.map(|()| false).map_err(|error| refused(FAILED, &error))
            }
        }
    }

    async fn launch_pooled(
        &self,
        new: &PreparedMachine,
        spec: &DesktopSpec,
        snapshot: &BootSnapshot,
    ) -> Result<Guest> {
        let (machine, boot) = first_boot(new, spec);
        let launched = self.engine.launch(snapshot.machine, snapshot.snapshot.0, &machine).await;
        launched.map_err(|error| refused(FAILED, &error))?;
        let resumed = self.engine.resume(&machine, &boot).await;
        let endpoint = resumed.map_err(|error| refused(FAILED, &error))?;
        let identity =
            NewIdentity { machine: new.id, saved_token: &snapshot.token, token: &new.token, another: true };
        identity.give(&*self.engine, endpoint).await
    }

    /// Makes and boots a machine, and waits until its desktop is settled and the supervisors of its services run.
    async fn boot_prepared(&self, new: &PreparedMachine, spec: &DesktopSpec) -> Result<Guest> {
        let (machine, boot) = first_boot(new, spec);
        self.engine.create(&machine).await.map_err(|error| refused(FAILED, &error))?;
        let guest = boot_guest(&*self.engine, &machine, &boot).await?;
        settle(&guest).await?;
        if let Err(error) = guest.prepare_template(PrepareTemplate::default()).await {
            tracing::warn!(
                error = format_args!("{error:#}"),
                "could not start the supervisors of services before a launch; each launch starts them"
            );
        }
        Ok(guest)
    }
}

/// Returns the machine of a desktop, and its first boot. Its bandwidth is limited only when a computer begins
/// from it, unless services of a template run before.
fn first_boot(new: &PreparedMachine, spec: &DesktopSpec) -> (MachineSpec, Boot) {
    let DesktopSpec { isolation, hardware, layers, services } = spec;
    let hardware = match services {
        ServiceStart::AtLaunch => Hardware { bandwidth_mbps: 0, ..*hardware },
        ServiceStart::BeforeLaunch => *hardware,
    };
    let machine = MachineSpec { layers: layers.clone(), ..hardware_spec(new.id, *isolation, &hardware) };
    let boot = Boot { generation: GENERATION, token: new.token.clone(), resolution: hardware.resolution };
    (machine, boot)
}

/// Waits until the screen does not change any more.
async fn settle(guest: &Guest) -> Result<()> {
    let settle = Settle { quiet_ms: Some(QUIET_MS), timeout_ms: Some(SETTLE_MS), ..Settle::default() };
    let done: ActionResult =
        guest.call(Method::POST, "/wait_stable", (), Some(&WaitStable { settle }), SETTLE_TIMEOUT).await?;
    if !done.settle.is_some_and(|seen| seen.reached) {
        tracing::info!("a desktop is used though its screen still changes");
    }
    Ok(())
}
