//! Pool of booted computers that nobody has claimed. A create of their size takes one: its id becomes the computer's.
//!
//! The claim is the transaction that stores the computer, so a controller that is killed gives a machine to one
//! computer or to none. Until then nobody has the token of its agent.

use std::sync::Arc;
use std::time::Duration;

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use super::boot_snapshots::count_begun;
use crate::computers::fleet::Fleet;
use crate::computers::runner::registry::FleetState;
use crate::computers::runner::{NewIdentity, Runner};
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::prepared::pool::{PoolPlan, PooledMachine, is_low_memory, plan};
use hotdesk_domain::computer::prepared::{DesktopSize, DesktopSpec};
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::{Change, EngineResult, Observation};
use hotdesk_guest::Guest;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::prepared::pooled_machines::StoredMachine;

/// Time between two looks at the pool: at its machines, their age, and the host's memory.
const LOOK_INTERVAL: Duration = Duration::from_secs(15);
/// Pause after a failure. What is missing, such as disk space, is rarely there at once.
const RETRY_PAUSE: Duration = Duration::from_secs(60);

impl Fleet {
    /// Returns the id for a new computer: that of a machine of the pool, if it has one of this size.
    pub fn id_for(&self, spec: &DesktopSpec) -> ComputerId {
        self.shared.pool.take(spec).unwrap_or_else(ComputerId::random)
    }

    /// Starts to keep the pool filled.
    pub fn start_pool(&self) {
        if self.shared.pool.sizes.is_empty() {
            return;
        }
        let (shared, stop) = (Arc::clone(&self.shared), self.shared.tasks.stopping());
        let _task = self.shared.tasks.spawn("pool", async move {
            while !stop.is_cancelled() {
                let pause = match shared.keep_pool().await {
                    Ok(true) => continue,
                    Ok(false) => LOOK_INTERVAL,
                    Err(_) if stop.is_cancelled() => break,
                    Err(error) => {
                        tracing::warn!(
                            error = format_args!("{error:#}"),
                            "could not fill the pool; it is retried"
                        );
                        RETRY_PAUSE
                    }
                };
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = shared.pool.changed.notified() => {}
                    () = tokio::time::sleep(pause) => {}
                }
            }
        });
    }
}

impl FleetState {
    /// Removes what the pool should not have, and boots one machine that it lacks. Returns whether it booted one.
    async fn keep_pool(&self) -> Result<bool> {
        let mut inputs = Vec::new();
        for isolation in self.engine.offers().isolations() {
            inputs.push(self.engine.boot_inputs(isolation).await.map_err(Error::internal)?);
        }
        self.pool.forget_ended_claims();
        let mut stored = self.store.pooled_machines().await?;
        stored.retain(|it| it.ready && !self.pool.is_claimed(it.machine));
        let mut machines = Vec::with_capacity(stored.len());
        for it in &stored {
            let runs = matches!(self.engine.observe(it.machine).await, Ok(Observation::Running { .. }));
            machines.push(PooledMachine {
                size: DesktopSize::from_stored(&it.size),
                usable: runs && inputs.contains(&it.inputs),
                // Before the clock was set back it was as good as new.
                age: clock::now().since(it.made_at).unwrap_or_default(),
            });
        }
        let PoolPlan { remove, make } =
            plan(&self.pool.sizes, &machines, self.pool.limits, has_low_memory()?);
        let mut ready = Vec::new();
        for ((it, machine), removed) in stored.into_iter().zip(machines).zip(remove) {
            if !removed {
                ready.push((it.machine, machine.size));
            } else if self.pool.withdraw(it.machine) {
                self.remove_from_pool(it.machine).await?;
            }
        }
        self.pool.set_ready(ready);
        match make {
            Some(spec) => self.make_pooled_machine(&spec).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Removes a machine from the pool, unless a create has claimed it.
    pub(super) async fn remove_from_pool(&self, machine: ComputerId) -> Result<()> {
        if self.store.remove_pooled_machine(machine).await? {
            self.engine.destroy(machine).await.map_err(Error::internal)?;
        }
        Ok(())
    }

    /// Returns the machines of the pool after a start of the controller. What an earlier one did not finish is removed.
    pub(in crate::computers) async fn recover_pool(&self) -> Vec<ComputerId> {
        self.finished_machines().await.unwrap_or_else(|error| {
            tracing::warn!(
                error = format_args!("{error:#}"),
                "could not look at the pool; it is filled anew"
            );
            Vec::new()
        })
    }

    async fn finished_machines(&self) -> Result<Vec<ComputerId>> {
        let mut kept = Vec::new();
        for StoredMachine { machine, ready, .. } in self.store.pooled_machines().await? {
            if ready && !self.pool.sizes.is_empty() {
                kept.push(machine);
            } else {
                self.remove_from_pool(machine).await?;
            }
        }
        Ok(kept)
    }
}

impl Runner {
    /// Makes the machine of the pool that a new row claimed this computer's. Returns `None` when it must be made anew.
    ///
    /// # Errors
    /// What is left of it could not be removed.
    pub(in crate::computers) async fn take_from_pool(
        &mut self,
        row: &Computer,
    ) -> EngineResult<Option<Guest>> {
        match self.adopt_pooled(row).await {
            Ok(guest) => {
                count_begun("pool");
                Ok(Some(guest))
            }
            Err(error) => {
                tracing::warn!(computer = %self.id, error = format_args!("{error:#}"), "could not use a machine of the pool; the computer is made anew");
                self.shared.engine.destroy(self.id).await?;
                Ok(None)
            }
        }
    }

    async fn adopt_pooled(&self, row: &Computer) -> Result<Guest> {
        let engine = &self.shared.engine;
        let endpoint = match engine.observe(self.id).await.map_err(Error::internal)? {
            Observation::Running { generation, endpoint, .. } if generation == row.generation => endpoint,
            Observation::Running { generation, .. } => {
                return Err(Error::internal(format!("it runs generation {generation}")));
            }
            Observation::Absent | Observation::Stopped | Observation::Suspended { .. } => {
                return Err(Error::internal("it does not run"));
            }
        };
        if row.hardware.bandwidth_mbps > 0 {
            let change = Change::Bandwidth(row.hardware.bandwidth_mbps);
            engine.resize(self.id, change).await.map_err(Error::internal)?;
        }
        if row.egress.is_some() {
            engine.set_egress(self.id, row.egress.as_ref()).await.map_err(Error::internal)?;
        }
        NewIdentity::of(row, false).give(&**engine, endpoint).await
    }
}

fn has_low_memory() -> Result<bool> {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(memory).map_err(Error::internal)?;
    Ok(is_low_memory(system.available_memory(), system.total_memory()))
}
