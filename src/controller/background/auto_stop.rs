//! Auto-stop: asks the agents for activity and suspends or stops idle computers.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};

use crate::computers::fleet::Fleet;
use crate::config::AutoStopTiming;
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::computer::idle::{self, AgentActivity, IdleDecision};
use hotdesk_domain::computer::lifecycle::{Command, Status};
use hotdesk_domain::error::Result;
use hotdesk_store::Store;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::agent::{Activity, BusyReason};
use hotdesk_wire::computer::AutoStop as Record;

/// Agents that are queried concurrently. An agent that hangs takes a slot for three seconds.
const AT_ONCE: usize = 16;
/// Reasons that are stored for one computer. An honest agent reports at most this many.
const MAX_HOLDS: usize = 16;
/// Characters that are stored of a reason's text. An honest agent truncates earlier.
const MAX_DETAIL: usize = 200;

/// Last activity report of each computer with auto-stop.
#[derive(Debug, Default)]
struct ActivityReports(Mutex<HashMap<ComputerId, ActivityReport>>);

#[derive(Clone, Debug)]
struct ActivityReport {
    activity: AgentActivity,
    held_by: Vec<BusyReason>,
}

impl ActivityReports {
    /// Stores an agent's report. An agent that does not respond counts as busy.
    fn note(&self, id: ComputerId, reported: Result<Activity>) {
        let at = Instant::now();
        let activity = reported.unwrap_or_else(|error| {
            let detail = format!("the computer does not say what is at work: {}", error.message);
            Activity { idle_ms: 0, held_by: vec![BusyReason { kind: String::from("unknown"), detail }] }
        });
        let mut held_by = activity.held_by;
        held_by.truncate(MAX_HOLDS);
        for hold in &mut held_by {
            hold.kind = hold.kind.chars().take(MAX_DETAIL).collect();
            hold.detail = hold.detail.chars().take(MAX_DETAIL).collect();
        }
        let busy = !held_by.is_empty();
        let mut reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last_busy =
            if busy { Some(at) } else { reports.get(&id).and_then(|last| last.activity.last_busy) };
        let idle = Duration::from_millis(activity.idle_ms);
        reports.insert(id, ActivityReport { activity: AgentActivity { at, idle, busy, last_busy }, held_by });
    }

    fn last(&self, id: ComputerId) -> Option<ActivityReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Removes the reports of all other computers.
    fn retain(&self, computers: &[Computer]) {
        let known: HashSet<ComputerId> = computers.iter().map(|computer| computer.id).collect();
        let mut reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reports.retain(|id, _| known.contains(id));
    }
}

/// Stops of idle computers.
pub struct AutoStopper {
    store: Store,
    fleet: Fleet,
    tasks: Tasks,
    timing: AutoStopTiming,
    reports: ActivityReports,
}

impl AutoStopper {
    /// Creates the service of this fleet, without reports.
    pub fn new(store: Store, fleet: Fleet, tasks: Tasks, timing: AutoStopTiming) -> Self {
        Self { store, fleet, tasks, timing, reports: ActivityReports::default() }
    }

    /// Queries every running computer with auto-stop, and stops those that are idle for long enough.
    pub(super) async fn check_computers(&self) -> Result<()> {
        let computers = self.store.computers_with_auto_stop().await?;
        self.reports.retain(&computers);
        stream::iter(&computers).for_each_concurrent(AT_ONCE, |computer| self.check_computer(computer)).await;
        Ok(())
    }

    async fn check_computer(&self, computer: &Computer) {
        let Some(guest) = self.fleet.running_guest(computer.id) else { return };
        // Taken before the query: an action from here on prevents the stop, also while the runner is busy.
        let Some(last_action) = self.fleet.last_action(computer.id) else { return };
        self.reports.note(computer.id, guest.activity().await);
        if self.decide(computer, self.reports.last(computer.id).as_ref()) != IdleDecision::In(Duration::ZERO)
        {
            return;
        }
        let Some(command) = self.command(computer) else { return };
        tracing::info!(
            computer = %computer.id,
            minutes = computer.auto_stop_minutes,
            "auto-stop: the computer is idle"
        );
        // Not awaited, because a slow runner must not delay the round.
        let (fleet, id) = (self.fleet.clone(), computer.id);
        let _stopping = self.tasks.spawn("auto-stop command", async move {
            if let Err(error) = fleet.stop_idle(id, command, last_action).await {
                tracing::warn!(
                    computer = %id,
                    error = format_args!("{error:#}"),
                    "auto-stop failed; it is retried in the next round"
                );
            }
        });
    }

    fn decide(&self, computer: &Computer, report: Option<&ActivityReport>) -> IdleDecision {
        let now = Instant::now();
        let minutes = u32::try_from(computer.auto_stop_minutes).ok().filter(|minutes| *minutes > 0);
        let timeout = minutes.map(|minutes| self.timing.minute.saturating_mul(minutes));
        // A computer without a runner is being deleted.
        let last_action = self.fleet.last_action(computer.id).unwrap_or(now);
        idle::decide(timeout, last_action, report.map(|report| &report.activity), now)
    }

    /// Returns the command that ends the computer when it is idle; `None` when it is left alone.
    fn command(&self, computer: &Computer) -> Option<Command> {
        let memory = self.fleet.engine().offers().capabilities(computer.isolation).suspend;
        computer.billing.idle_command(memory, clock::now())
    }

    /// Whether the memory of the computer survives when it is idle. If not, it is stopped.
    pub fn keeps_memory(&self, computer: &Computer) -> bool {
        self.command(computer) != Some(Command::Stop)
    }

    /// Returns the auto-stop part of a computer's API record.
    pub fn record(&self, computer: &Computer) -> Record {
        let (minutes, keeps_memory) = (computer.auto_stop_minutes, self.keeps_memory(computer));
        if computer.status != Status::Running || minutes == 0 {
            return Record { minutes, suspends_at: None, held_by: Vec::new(), keeps_memory };
        }
        let report = self.reports.last(computer.id);
        let suspends_at = match self.decide(computer, report.as_ref()) {
            IdleDecision::Never | IdleDecision::Busy => None,
            IdleDecision::In(left) => Some(clock::now().plus(left).iso8601()),
        };
        let held_by = report.map(|report| report.held_by).unwrap_or_default();
        Record { minutes, suspends_at, held_by, keeps_memory }
    }
}
