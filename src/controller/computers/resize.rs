//! How does a computer's hardware change? In its runner's turn: the intent is stored, the engine changes each dimension,
//! the outcome is stored; what holds only at the next start is followed by one restart. A crash in between leaves the
//! intent, which recovery carries out again.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use super::fleet::{Fleet, stopping};
use super::runner::{GB, Runner, Work, gone};
use hotdesk_base::ids::ComputerRef;
use hotdesk_domain::allowance::{Allowance, Used};
use hotdesk_domain::computer::{Hardware, check_auto_stop};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::lifecycle::{Status, not_running};
use hotdesk_domain::resize::{self, Dimension, Wish};
use hotdesk_engine::{Change, Effect, EngineError, Observation};
use hotdesk_store::computers::Computer;

/// What a resize asks for.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// The hardware.
    pub wish: Wish,
    /// Idle minutes before the computer suspends itself.
    pub auto_stop_minutes: Option<i64>,
    /// What the owner may have.
    pub allowance: Allowance,
}

/// What became of one dimension.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// Which one.
    pub dimension: Dimension,
    /// The wanted value, in the unit of the dimension's name.
    pub requested: f64,
    /// The value since then.
    pub applied: f64,
    /// Why it did not change; `None` when it did.
    pub error: Option<&'static str>,
}

/// What became of a resize.
#[derive(Clone, Debug)]
pub struct Report {
    /// The computer since then.
    pub computer: Computer,
    /// Every dimension that differed from what was wanted.
    pub attempts: Vec<Attempt>,
    /// Whether it was restarted.
    pub restarted: bool,
    /// The connection values that changed (interface.md "Resize").
    pub changed: Vec<&'static str>,
}

/// A resize on its way through the mailbox, with the place for its report.
#[derive(Debug)]
pub(super) struct Job {
    order: Order,
    report: OnceLock<Report>,
}

impl Fleet {
    /// Resizes a running computer. The work goes on if the caller goes away.
    ///
    /// # Errors
    /// `Conflict` when it does not run; [`resize::plan`]'s; `Internal` for a bad auto-stop, after the hardware has
    /// changed, or when the restart failed.
    pub async fn resize(&self, computer: &Computer, order: Order) -> Result<Report> {
        check_running(computer.status)?;
        let job = Arc::new(Job { order, report: OnceLock::new() });
        let (_, finished) = self.send(computer.id, Work::Resize(Arc::clone(&job)))?;
        finished.await.map_err(|_| stopping())??;
        job.report.get().cloned().ok_or_else(|| Error::internal("a resize left no report"))
    }
}

fn check_running(status: Status) -> Result<()> {
    if status == Status::Running { Ok(()) } else { Err(not_running(status)) }
}

/// What the engine did of a change.
struct Outcome {
    attempts: Vec<Attempt>,
    restart: bool,
}

impl Runner {
    pub(super) async fn resize(&mut self, row: &Computer, job: &Job) -> Result<()> {
        check_running(row.status)?;
        let Order { wish, auto_stop_minutes, allowance } = &job.order;
        let address = self.presence.borrow().address;
        let plan = |current: &Hardware, others: &Used| resize::plan(current, wish, allowance, others);
        let wanted = self.shared.store.intend_hardware(self.id, plan).await?;
        let outcome = self.change_hardware(row, &wanted, true).await?;
        if outcome.restart {
            self.show(Status::Restarting, None, None);
            self.restart_boot("Computer could not be restarted").await?;
        }
        if let Some(minutes) = *auto_stop_minutes {
            // interface.md: not validated beforehand, and 500 after any hardware change has applied.
            let checked = check_auto_stop(minutes).map_err(|bad| Error::failed(bad.message))?;
            self.shared.store.set_auto_stop(self.id, checked).await?;
        }
        let computer = self.shared.store.computer(&ComputerRef::Id(self.id)).await?.ok_or_else(gone)?;
        let changed = self.changed(row, address, &computer);
        let report = Report { computer, attempts: outcome.attempts, restarted: outcome.restart, changed };
        // Set once: a job is done once.
        let _ = job.report.set(report);
        Ok(())
    }

    /// After a start of the controller: carries out the resize that a crash cut short. The row as it is then; on a
    /// failure as it was, with the intent kept for the next start.
    pub(super) async fn finish_resize(&self, row: &Computer) -> Computer {
        let Some(wanted) = &row.wanted else { return row.clone() };
        let finished = async {
            // What sleeps is not restarted for it: a wake from storage whose host lost its power sleeps on.
            let sleeps =
                matches!(self.shared.engine.observe(self.id).await, Ok(Observation::Suspended { .. }));
            self.change_hardware(row, wanted, !sleeps).await?;
            self.shared.store.computer(&ComputerRef::Id(self.id)).await?.ok_or_else(gone)
        };
        finished.await.unwrap_or_else(|error| {
            tracing::error!(computer = %self.id, %error, "a resize could not be finished");
            row.clone()
        })
    }

    /// Has the engine change every dimension that differs, and stores the outcome; where a running computer has to
    /// restart for it, together with that intent.
    async fn change_hardware(&self, row: &Computer, wanted: &Hardware, awake: bool) -> Result<Outcome> {
        let (mut size, mut restart, mut attempts) = (row.hardware, false, Vec::new());
        for dimension in Dimension::ALL {
            let requested = dimension.of(wanted);
            // An earlier resize whose outcome could not be stored may have changed the machine.
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
                    tracing::warn!(computer = %self.id, dimension = dimension.name(), %error, "not resized");
                    Some(reason(&error))
                }
            };
            attempts.push(Attempt { dimension, requested, applied: dimension.of(&size), error });
        }
        let restart = restart && awake && row.status == Status::Running;
        if !attempts.is_empty() || row.wanted.is_some() {
            let boot = restart.then_some(Status::Restarting);
            self.shared.store.settle_hardware(self.id, &size, boot).await?;
        }
        Ok(Outcome { attempts, restart })
    }

    /// The connection values of this service that differ from those before; ports it has none of its own.
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

/// What a client learns of an engine's failure.
fn reason(error: &EngineError) -> &'static str {
    match error {
        EngineError::NoCapacity(_) => "The host has no room for it",
        EngineError::Unsupported(_) => "This computer's engine cannot change it",
        EngineError::Absent | EngineError::Damaged(_) | EngineError::Failed { .. } => "The change failed",
    }
}
