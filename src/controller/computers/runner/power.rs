//! Boot and stop of a computer.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{
    NewIdentity, Runner, STOP_GRACE, boot_screen, boot_spec, log_renewal_failures, machine_spec, refused,
    stream_end,
};
use crate::data_dir::files;
use hotdesk_base::time::phase::PhaseTimer;
use hotdesk_base::wait;
use hotdesk_domain::computer::lifecycle::{Operation, Status};
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::{Boot, Engine, EngineError, EngineResult, MachineSpec, Observation, Shortage};
use hotdesk_guest::Guest;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::agent::Health;

/// Longest boot, until the desktop is usable. An emulated machine takes 20 s, and four concurrent boots on
/// two busy cores take longer.
const BOOT_TIMEOUT: Duration = Duration::from_secs(180);

impl Runner {
    /// Refuses a boot or a suspend for which the host has no capacity, before anything ends. The computer stays as it
    /// is. A restart of a suspended computer is not refused, because it frees the space of its memory.
    pub(super) async fn check_capacity(&self, operation: Operation, status: Status) -> Result<()> {
        let what = match operation {
            Operation::Start => "Computer could not be started",
            Operation::Restart if status != Status::Suspended => "Computer could not be restarted",
            Operation::Suspend if self.shared.engine.is_frozen(self.id) => {
                let detail = "it is frozen because the host's disk is nearly full".to_owned();
                let error = EngineError::NoCapacity(Shortage::DiskSpace, detail);
                return Err(refused("Computer could not be suspended", &error));
            }
            Operation::Restart
            | Operation::Stop
            | Operation::Suspend
            | Operation::Resume
            | Operation::Delete => {
                return Ok(());
            }
        };
        let checked = self.shared.engine.check_capacity(self.id, None).await;
        checked.map_err(|error| refused(what, &error))
    }

    /// Stops a running machine, discards saved memory, and boots from the disk.
    pub(in super::super) async fn restart_boot(&mut self, what: &str) -> Result<()> {
        self.fetch_disk().await?;
        match self.clear().await {
            Ok(()) => self.boot().await,
            Err(error) => self.fail(what, &error).await,
        }
    }

    /// Stops the machine and discards saved memory; the disk stays.
    async fn clear(&self) -> EngineResult<()> {
        self.shared.engine.stop(self.id, STOP_GRACE).await?;
        self.shared.engine.discard_memory(self.id).await
    }

    /// Publishes the guest of a resumed or adopted computer.
    pub(super) async fn publish_resumed(
        &mut self,
        row: &Computer,
        guest: Guest,
        address: Option<IpAddr>,
    ) -> Result<()> {
        if self.shown_status() != Some(Status::Running) {
            self.store_status(Status::Running).await?;
        }
        // The timestamp is repeated every minute, so a failure does not matter.
        if let Err(error) = self.shared.store.mark_running(&[self.id]).await {
            tracing::warn!(
                computer = %self.id,
                error = format_args!("{error:#}"),
                "could not store that the computer runs; its billed time may be short"
            );
        }
        self.show(Status::Running, Some(guest.clone()), address);
        self.end_stream(&guest);
        self.follow_boot_screen(&guest);
        self.deliver(row, &guest).await;
        Ok(())
    }

    /// Stores the size of the boot screen, which may have changed while nobody recorded it: the memory may be
    /// that of a snapshot, or the last controller died during a resize. It runs in the background, because an
    /// agent may not respond.
    pub(super) fn follow_boot_screen(&self, guest: &Guest) {
        let (shared, id, guest) = (Arc::clone(&self.shared), self.id, guest.clone());
        let following = async move {
            if let Err(error) = boot_screen::store_size(&shared.store, id, &guest).await {
                tracing::warn!(
                    computer = %id,
                    error = format_args!("{error:#}"),
                    "could not store the size of the boot screen; the record may have an earlier one"
                );
            }
        };
        let _task = self.shared.tasks.spawn("size of a boot screen", following);
    }

    /// Ends a stream whose owner lost access while the computer was suspended. It runs in the background,
    /// because an agent may not respond.
    fn end_stream(&self, guest: &Guest) {
        let (shared, id, guest) = (Arc::clone(&self.shared), self.id, guest.clone());
        let ending =
            async move { stream_end::end_at_wake(&shared.ending_streams, &shared.store, id, &guest).await };
        let _task = self.shared.tasks.spawn("end a stream", ending);
    }

    /// Boots the stored row and stores the outcome.
    pub(super) async fn boot(&mut self) -> Result<()> {
        let row = self.row().await?;
        let begun = match self.bring_up(&row, false).await {
            Ok(guest) => self.begin_template(&row, &guest).await.map(|()| guest),
            Err(error) => Err(error),
        };
        match begun {
            Ok(guest) => self.publish_guest(&row, guest).await,
            Err(error) => {
                if let Err(again) = self.shared.engine.stop(self.id, Duration::ZERO).await {
                    tracing::error!(
                        computer = %self.id,
                        error = format_args!("{again:#}"),
                        "could not stop the machine after a failed boot"
                    );
                }
                self.settle_as(Status::Error).await?;
                // The machine may run on a host that does not answer. The last look may be older than its outage.
                self.shared.engine.watch_hosts().await;
                self.notes_outage();
                Err(error)
            }
        }
    }

    /// Starts the machine and waits until the desktop is usable. The guest is not published yet.
    ///
    /// With `copied` the disk is another computer's, so its identity is renewed before anybody can reach it,
    /// T28 (docs/security.md).
    pub(super) async fn bring_up(&mut self, row: &Computer, copied: bool) -> Result<Guest> {
        let shared = Arc::clone(&self.shared);
        // Held only during the boot, not while files are delivered to a slow guest.
        let _turn = shared.starts.acquire().await.map_err(Error::internal)?;
        let guest = boot_guest(&*shared.engine, &machine_spec(row), &boot_spec(row)).await?;
        if copied {
            let renewal = NewIdentity::of(row, true).renewal();
            log_renewal_failures(row.id, &guest.renew(&renewal).await?);
        }
        Ok(guest)
    }

    /// Delivers waiting files to a booted computer and publishes its guest.
    ///
    /// `running` is stored before anybody reaches the guest: an acknowledged action belongs to this boot, and
    /// no later controller starts another one.
    pub(in super::super) async fn publish_guest(&mut self, row: &Computer, guest: Guest) -> Result<()> {
        self.deliver(row, &guest).await;
        self.store_status(Status::Running).await?;
        let address = self.address().await;
        self.show(Status::Running, Some(guest.clone()), address);
        // Files that were uploaded meanwhile. Later ones are pushed immediately.
        self.deliver(row, &guest).await;
        Ok(())
    }

    /// Returns its address in the host's network, if known.
    pub(super) async fn address(&self) -> Option<IpAddr> {
        match self.shared.engine.observe(self.id).await {
            Ok(Observation::Running { address, .. }) => address,
            Ok(Observation::Stopped | Observation::Suspended { .. } | Observation::Absent) | Err(_) => None,
        }
    }

    /// Delivers files that were uploaded while it did not run.
    async fn deliver(&self, row: &Computer, guest: &Guest) {
        if let Err(error) = files::deliver_pending(&self.shared.store, &self.shared.blobs, row, guest).await {
            tracing::warn!(
                computer = %self.id,
                error = format_args!("{error:#}"),
                "could not deliver all files; the next start retries"
            );
        }
    }

    /// Stops the machine and discards saved memory. The disk is on this host before `stopped` is visible.
    pub(in super::super) async fn halt(&mut self) -> Result<()> {
        self.fetch_disk().await?;
        let cleared = self.clear().await;
        match self.converge_after(cleared).await {
            Ok(()) => self.settle_as(Status::Stopped).await,
            Err(error) => self.fail("Computer could not be stopped", &error).await,
        }
    }
}

/// Starts a machine and waits until its desktop is usable.
///
/// # Errors
/// Why it could not be started; `Internal` when it ends meanwhile, or is not ready within [`BOOT_TIMEOUT`].
pub(in crate::computers) async fn boot_guest(
    engine: &dyn Engine,
    spec: &MachineSpec,
    boot: &Boot,
) -> Result<Guest> {
    boot_guest_until(engine, spec, boot, BootGoal::DesktopIsUsable).await
}

/// What a boot waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::computers) enum BootGoal {
    /// The agent answers.
    AgentAnswers,
    /// The desktop is usable.
    DesktopIsUsable,
}

/// Whether the desktop is usable.
pub(in crate::computers) fn is_usable(health: &Health) -> bool {
    health.status == "ok"
}

/// Starts a machine and waits for `goal`.
///
/// # Errors
/// Those of [`boot_guest`].
pub(in crate::computers) async fn boot_guest_until(
    engine: &dyn Engine,
    spec: &MachineSpec,
    boot: &Boot,
    goal: BootGoal,
) -> Result<Guest> {
    let started = engine.start(spec, boot).await;
    let endpoint = started.map_err(|error| refused("Computer could not be started", &error))?;
    let guest = Guest::new(endpoint, &boot.token)?;
    let _phase = PhaseTimer::begin(spec.id, "agent");
    let ready = wait::until(BOOT_TIMEOUT, || async {
        match goal {
            BootGoal::AgentAnswers => guest.health().await.ok(),
            BootGoal::DesktopIsUsable => guest.health_once_usable().await.ok().filter(is_usable),
        }
    });
    tokio::select! {
        ready = ready => match ready {
            Some(_) => Ok(guest),
            None => Err(Error::internal("the desktop was not ready in time")),
        },
        _ = engine.wait_stopped(spec.id) => Err(Error::internal("the machine ended while it booted")),
    }
}
