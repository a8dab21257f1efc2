//! Resize of a computer's hardware.
//!
//! The runner stores the intent, lets the engine change each dimension, and stores the outcome. Changes that
//! apply at the next start are followed by one restart. After a crash, recovery executes the stored intent
//! again.

use std::net::IpAddr;
use std::sync::OnceLock;

use super::{GB, Runner, computer_not_found};
use hotdesk_base::ids::ComputerRef;
use hotdesk_domain::computer::allowance::{Allowance, ResourceUse};
use hotdesk_domain::computer::lifecycle::{Status, not_running};
use hotdesk_domain::computer::resize::{self, Dimension, ResizeRequest};
use hotdesk_domain::computer::{Hardware, check_auto_stop};
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::{Change, Effect, EngineError, Observation};
use hotdesk_store::fleet::computers::Computer;

/// Parameters of a resize.
#[derive(Clone, Copy, Debug)]
pub struct ResizeParams {
    /// The requested hardware.
    pub wish: ResizeRequest,
    /// Idle minutes before the computer suspends itself.
    pub auto_stop_minutes: Option<i64>,
    /// Allowance of the owner.
    pub allowance: Allowance,
}

/// Result of one dimension.
#[derive(Clone, Debug)]
pub struct DimensionResult {
    /// The dimension.
    pub dimension: Dimension,
    /// The requested value, in the unit of the dimension's name.
    pub requested: f64,
    /// The value now.
    pub applied: f64,
    /// Why it did not change; `None` when it did.
    pub error: Option<String>,
}

/// Result of a resize.
#[derive(Clone, Debug)]
pub struct ResizeOutcome {
    /// The computer after the resize.
    pub computer: Computer,
    /// Every dimension that differed from the request.
    pub attempts: Vec<DimensionResult>,
    /// Whether it was restarted.
    pub restarted: bool,
    /// Names of the connection values that changed (docs/lifecycle.md#resize).
    pub changed: Vec<&'static str>,
}

/// A resize in a runner's mailbox, with a place for its report.
#[derive(Debug)]
pub(in crate::computers) struct ResizeJob {
    order: ResizeParams,
    report: OnceLock<ResizeOutcome>,
}

impl ResizeJob {
    pub(in crate::computers) fn new(order: ResizeParams) -> Self {
        Self { order, report: OnceLock::new() }
    }

    /// Returns the report once the job has run.
    pub(in crate::computers) fn outcome(&self) -> Option<ResizeOutcome> {
        self.report.get().cloned()
    }
}

pub(in crate::computers) fn check_running(status: Status) -> Result<()> {
    if status == Status::Running { Ok(()) } else { Err(not_running(status)) }
}

/// Changes that the engine made.
struct HardwareOutcome {
    attempts: Vec<DimensionResult>,
    restart: bool,
}

impl Runner {
    pub(super) async fn resize(&mut self, row: &Computer, job: &ResizeJob) -> Result<()> {
        check_running(row.status)?;
        let ResizeParams { wish, auto_stop_minutes, allowance } = &job.order;
        let address = self.presence.borrow().address;
        let plan = |current: &Hardware, others: &ResourceUse| resize::plan(current, wish, allowance, others);
        let wanted = self.shared.store.intend_hardware(self.id, plan).await?;
        let outcome = self.change_hardware(row, &wanted, true).await?;
        if outcome.restart {
            self.show(Status::Restarting, None, None);
            self.restart_boot("Computer could not be restarted").await?;
        }
        if let Some(minutes) = *auto_stop_minutes {
            // Clients expect 500 for an invalid auto-stop, after the hardware changed
            // (docs/lifecycle.md#resize).
            let checked = check_auto_stop(minutes).map_err(|bad| Error::failed(bad.message))?;
            self.shared.store.set_auto_stop(self.id, checked).await?;
        }
        let computer =
            self.shared.store.computer(&ComputerRef::Id(self.id)).await?.ok_or_else(computer_not_found)?;
        let changed = self.changed(row, address, &computer);
        let report =
            ResizeOutcome { computer, attempts: outcome.attempts, restarted: outcome.restart, changed };
        // A job runs once, so the cell is empty.
        let _ = job.report.set(report);
        Ok(())
    }

    /// Completes a resize that a crash interrupted. Returns the row. On a failure the row is unchanged and
    /// the intent stays for the next start.
    pub(super) async fn finish_resize(&self, row: &Computer) -> Computer {
        let Some(wanted) = &row.wanted else { return row.clone() };
        let finished = async {
            // A suspended computer is not restarted for it. It may be one that woke from object storage
            // before its host lost power.
            let sleeps =
                matches!(self.shared.engine.observe(self.id).await, Ok(Observation::Suspended { .. }));
            self.change_hardware(row, wanted, !sleeps).await?;
            self.shared.store.computer(&ComputerRef::Id(self.id)).await?.ok_or_else(computer_not_found)
        };
        finished.await.unwrap_or_else(|error| {
            tracing::error!(
                computer = %self.id,
                error = format_args!("{error:#}"),
                "a resize could not be finished"
            );
            row.clone()
        })
    }

    /// Lets the engine change every dimension that differs, and stores the outcome. If a running computer
    /// must restart for it, that intent is stored in the same transaction.
    async fn change_hardware(
        &self,
        row: &Computer,
        wanted: &Hardware,
        awake: bool,
    ) -> Result<HardwareOutcome> {
        let (mut size, mut restart, mut attempts) = (row.hardware, false, Vec::new());
        for dimension in Dimension::ALL {
            let requested = dimension.of(wanted);
            // The machine may have been changed by an earlier resize whose outcome could not be stored.
            let unsure = row.wanted.is_some_and(|was| dimension.of(&was) != dimension.of(&row.hardware));
            if requested == dimension.of(&row.hardware) && !unsure {
                continue;
            }
            let error = match self.shared.engine.resize(self.id, change(dimension, wanted)).await {
                Ok(effect) => {
                    dimension.take(&mut size, wanted);
                    restart |= effect == Effect::AtNextStart;
                    None
                }
                Err(error) => {
                    tracing::warn!(
                        computer = %self.id,
                        dimension = dimension.name(),
                        error = format_args!("{error:#}"),
                        "could not resize a dimension"
                    );
                    Some(reason(&error))
                }
            };
            attempts.push(DimensionResult { dimension, requested, applied: dimension.of(&size), error });
        }
        let restart = restart && awake && row.status == Status::Running;
        if !attempts.is_empty() || row.wanted.is_some() {
            let boot = restart.then_some(Status::Restarting);
            self.shared.store.settle_hardware(self.id, &size, boot).await?;
        }
        Ok(HardwareOutcome { attempts, restart })
    }

    /// Returns the names of the connection values that changed. Computers have no ports of their own here.
    fn changed(&self, before: &Computer, address: Option<IpAddr>, now: &Computer) -> Vec<&'static str> {
        let differ = [
            ("vnc_password", before.vnc_password.reveal() != now.vnc_password.reveal()),
            ("ip", address != self.presence.borrow().address),
        ];
        differ.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
    }
}

fn change(dimension: Dimension, to: &Hardware) -> Change {
    match dimension {
        Dimension::Vcpus => Change::Cpu(to.cpu),
        Dimension::MemMb => Change::Memory(u64::from(to.ram_gb) * GB),
        Dimension::DiskGb => Change::Disk(u64::from(to.disk_gb) * GB),
        Dimension::BandwidthMbps => Change::Bandwidth(to.bandwidth_mbps),
    }
}

/// Returns the reason that a client gets for an engine's failure. Of a failed step it has the name alone.
fn reason(error: &EngineError) -> String {
    match error {
        EngineError::NoCapacity(..) => "The host has no room for it".to_owned(),
        EngineError::MemoryInUse { used, limit } => {
            // Rounded up, so that the used memory never reads as the limit.
            let used = (*used as f64 / GB as f64 * 10.0).ceil() / 10.0;
            format!(
                "Memory in use: {used:.1} GB of {}. End programs in the computer, then resize it again",
                limit / GB
            )
        }
        EngineError::Unsupported(_) => "This computer's engine cannot change it".to_owned(),
        EngineError::Absent | EngineError::Damaged(_) | EngineError::Failed { .. } => {
            format!("The change failed: {error}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_reads_why_a_dimension_did_not_change() {
        let memory = EngineError::MemoryInUse { used: 4 * GB + 1, limit: 4 * GB };
        assert!(reason(&memory).starts_with("Memory in use: 4.1 GB of 4. "), "{}", reason(&memory));
        let failed = EngineError::failed("grow the disk", "/var/lib/hotdesk/x: no");
        assert_eq!(reason(&failed), "The change failed: could not grow the disk");
    }
}
