//! Boot snapshots: disk and memory of booted desktops, from which new computers begin instead of booting.

use crate::computers::copies::fork::fork_error;
use crate::computers::runner::registry::FleetState;
use crate::computers::runner::{Runner, machine_spec};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::prepared::boot_snapshot::expired;
use hotdesk_domain::computer::prepared::services::ServiceStart;
use hotdesk_domain::computer::prepared::{DesktopSize, DesktopSpec};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_engine::EngineResult;
use hotdesk_guest::Guest;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::prepared::boot_snapshots::BootSnapshot;

impl FleetState {
    /// Whether boot snapshots are made of machines of an isolation.
    pub(in crate::computers) fn makes_boot_snapshots_of(&self, isolation: Isolation) -> bool {
        let able = self.engine.offers().capabilities(isolation);
        self.boot_snapshots.keep > 0 && able.memory_snapshot && able.boot_snapshot
    }

    /// Whether boot snapshots are made of any machines.
    pub(super) fn makes_boot_snapshots(&self) -> bool {
        self.engine.offers().isolations().into_iter().any(|isolation| self.makes_boot_snapshots_of(isolation))
    }

    /// Removes a boot snapshot. One that a computer is beginning from at this moment fails for it, and it boots.
    pub(in crate::computers) async fn remove_boot_snapshot(&self, machine: ComputerId) -> Result<()> {
        self.store.remove_boot_snapshot(machine).await?;
        self.engine.destroy(machine).await.map_err(Error::internal)
    }

    /// Removes the snapshots that no create can use, and the oldest above the limit. Returns the machines of the others.
    pub(super) async fn trim_boot_snapshots(&self) -> Result<Vec<ComputerId>> {
        let (machines, stored): (Vec<_>, Vec<_>) = self.store.boot_snapshots().await?.into_iter().unzip();
        let mut inputs = Vec::new();
        for isolation in self.engine.offers().isolations() {
            if self.makes_boot_snapshots_of(isolation) {
                inputs.push(self.engine.boot_inputs(isolation).await.map_err(Error::internal)?);
            }
        }
        let mut kept = Vec::new();
        for (machine, is_expired) in
            machines.into_iter().zip(expired(&stored, &inputs, self.boot_snapshots.keep))
        {
            if is_expired {
                self.remove_boot_snapshot(machine).await?;
            } else {
                kept.push(machine);
            }
        }
        metrics::gauge!("hotdesk_boot_snapshots").set(kept.len() as f64);
        Ok(kept)
    }

    /// Stores that a computer or a machine of the pool began from a boot snapshot.
    pub(super) async fn note_use(&self, snapshot: &BootSnapshot) {
        if let Err(error) = self.store.use_boot_snapshot(snapshot.machine).await {
            tracing::warn!(
                error = format_args!("{error:#}"),
                "could not store the use of a boot snapshot; it may be removed early"
            );
        }
    }

    /// Removes what a failed launch left, and its snapshot. On a host that is short of something the snapshot is as good as
    /// before, and stays.
    pub(super) async fn undo_launch(
        &self,
        machine: ComputerId,
        snapshot: &BootSnapshot,
        failure: &Error,
    ) -> EngineResult<()> {
        tracing::warn!(computer = %machine, error = format_args!("{failure:#}"), "could not begin from a boot snapshot; the machine boots");
        self.engine.destroy(machine).await?;
        if failure.code != Some(ErrorCode::NoCapacity)
            && let Err(left) = self.remove_boot_snapshot(snapshot.machine).await
        {
            tracing::warn!(
                error = format_args!("{left:#}"),
                "could not remove a boot snapshot; it is retried at the next start"
            );
        }
        Ok(())
    }

    /// Returns the machines of the boot snapshots after a start of the controller, without those that it removes.
    pub(in crate::computers) async fn recover_boot_snapshots(&self) -> Vec<ComputerId> {
        self.trim_boot_snapshots().await.unwrap_or_else(|error| {
            tracing::warn!(
                error = format_args!("{error:#}"),
                "could not look at the boot snapshots; computers boot"
            );
            Vec::new()
        })
    }
}

impl Runner {
    /// Creates the machine of a new row from the boot snapshot of its size, in which services run if they
    /// start before the launch. Returns `None` when it must boot instead.
    ///
    /// # Errors
    /// The remains of a failed attempt could not be removed.
    pub(in crate::computers) async fn begin_from_boot_snapshot(
        &mut self,
        row: &Computer,
        services: ServiceStart,
    ) -> EngineResult<Option<Guest>> {
        let begun = self.try_boot_snapshot(row, services).await?;
        count_begun(if begun.is_some() { "boot_snapshot" } else { "boot" });
        Ok(begun)
    }

    async fn try_boot_snapshot(
        &mut self,
        row: &Computer,
        services: ServiceStart,
    ) -> EngineResult<Option<Guest>> {
        if !self.shared.makes_boot_snapshots_of(row.isolation) {
            return Ok(None);
        }
        let snapshot = match self.find_boot_snapshot(row, services).await {
            Ok(Some(snapshot)) => snapshot,
            Ok(None) => {
                let size = DesktopSize::from(&desktop_spec(row, services));
                tracing::info!(
                    computer = %self.id,
                    size = size.as_str(),
                    "no boot snapshot of this size yet; the computer boots"
                );
                return Ok(None);
            }
            Err(error) => {
                tracing::warn!(computer = %self.id, error = format_args!("{error:#}"), "could not look for a boot snapshot; the computer boots");
                return Ok(None);
            }
        };
        match self.launch_boot_snapshot(row, &snapshot).await {
            Ok(guest) => {
                self.shared.note_use(&snapshot).await;
                Ok(Some(guest))
            }
            Err(error) => self.shared.undo_launch(self.id, &snapshot, &error).await.map(|()| None),
        }
    }

    /// Returns the snapshot of a row, and wants it when there is none. Services start at the launch while
    /// there is only one without them.
    async fn find_boot_snapshot(
        &self,
        row: &Computer,
        services: ServiceStart,
    ) -> Result<Option<BootSnapshot>> {
        let FleetState { engine, store, boot_snapshots, .. } = &*self.shared;
        let inputs = engine.boot_inputs(row.isolation).await.map_err(Error::internal)?;
        let spec = desktop_spec(row, services);
        let found = store.boot_snapshot(&inputs, &DesktopSize::from(&spec)).await?;
        if found.is_some() {
            return Ok(found);
        }
        boot_snapshots.want(spec);
        match services {
            ServiceStart::AtLaunch => Ok(None),
            ServiceStart::BeforeLaunch => {
                let without = desktop_spec(row, ServiceStart::AtLaunch);
                store.boot_snapshot(&inputs, &DesktopSize::from(&without)).await
            }
        }
    }

    async fn launch_boot_snapshot(&mut self, row: &Computer, snapshot: &BootSnapshot) -> Result<Guest> {
        let engine = &self.shared.engine;
        let launched = engine.launch(snapshot.machine, snapshot.snapshot.0, &machine_spec(row)).await;
        launched.map_err(fork_error)?;
        let row = Computer { saved_token: Some(snapshot.token.clone()), ..row.clone() };
        self.resume_as_fork(&row).await
    }
}

/// Counts a created computer by what it began from.
pub(super) fn count_begun(from: &'static str) {
    metrics::counter!("hotdesk_computers_begun_total", "from" => from).increment(1);
}

fn desktop_spec(row: &Computer, services: ServiceStart) -> DesktopSpec {
    DesktopSpec { isolation: row.isolation, hardware: row.hardware, layers: row.layers.clone(), services }
}
