//! Hosts of computers: list, drains, and moves.

mod moves;
mod placement;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::placement::memory_of;
use super::fleet::{ANSWER_TIMEOUT, Fleet};
use super::runner::refused;
use super::runner::registry::stopping;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::host::drain::{DrainState, HostStatus};
use hotdesk_domain::host::placement::{HostCandidate, check_target, choose_host, unknown_host};
use hotdesk_engine::HostObservation;
use hotdesk_store::Store;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::hosts::HostDrain;
use hotdesk_wire::billing::hosts::Host;

/// Time between two passes over the hosts with a drain. A computer that appears on one, for example a clone, is moved then.
const DRAIN_INTERVAL: Duration = Duration::from_secs(15);
/// Pause after a failed move of a computer by a drain. Each attempt suspends it or stops it.
const FAILED_MOVE_PAUSE: Duration = Duration::from_secs(300);
/// Bytes in a MB of a record.
const MB: u64 = 1024 * 1024;

/// Hosts of computers; cheap to clone.
#[derive(Clone)]
pub struct ComputerHosts {
    store: Store,
    fleet: Fleet,
    /// Notified when a drain begins.
    drain_begun: Arc<Notify>,
}

/// Failed moves by drains, with their time and reason.
#[derive(Debug, Default)]
struct DrainFailures(HashMap<ComputerId, (Instant, String)>);

impl ComputerHosts {
    /// Creates the service.
    pub fn new(store: Store, fleet: Fleet) -> Self {
        Self { store, fleet, drain_begun: Arc::default() }
    }

    async fn observe(&self) -> Result<Vec<HostObservation>> {
        let hosts = self.fleet.engine().hosts().await;
        hosts.map_err(|error| refused("The hosts could not be listed", &error))
    }

    /// Returns the records of the engine's hosts, in the order of their names; none where the engine runs on one host.
    ///
    /// # Errors
    /// `Internal` when the engine cannot list them; `Unavailable` or `Internal` when the store fails.
    pub async fn records(&self) -> Result<Vec<Host>> {
        let hosts = self.observe().await?;
        if hosts.is_empty() {
            return Ok(Vec::new());
        }
        let (drains, gone) = (self.store.host_drains().await?, self.store.gone_hosts().await?);
        let computers = self.store.all_computers().await?;
        let engine = self.fleet.engine().offers().default().engine;
        let record = |host: HostObservation| {
            let drain = drains.iter().find(|drain| drain.host == host.name);
            let own: Vec<&Computer> =
                computers.iter().filter(|computer| is_on(computer, &host.name)).collect();
            let running = own.iter().filter(|computer| computer.status == Status::Running).count();
            let is_gone = gone.iter().any(|gone| gone.name == host.name);
            let status = HostStatus::of(host.is_online, drain.map(|drain| drain.state), is_gone);
            host_record(host, status, drain, engine, (own.len(), running))
        };
        Ok(hosts.into_iter().map(record).collect())
    }

    async fn record(&self, name: &str) -> Result<Host> {
        let found = self.records().await?.into_iter().find(|host| host.name == name);
        found.ok_or_else(unknown_host)
    }

    /// Begins to move all computers of a host to others, in the background. The host takes no new ones until
    /// [`ComputerHosts::restore`].
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when no other host takes computers; the errors of [`ComputerHosts::records`].
    pub async fn drain(&self, name: &str) -> Result<Host> {
        let candidates = self.candidates().await?;
        if !candidates.iter().any(|candidate| candidate.name == name) {
            return Err(unknown_host());
        }
        if !candidates.iter().any(|candidate| candidate.name != name && candidate.takes_computers()) {
            return Err(Error::conflict(format!(
                "Host {name} cannot be drained: no other host takes computers; add one or restore one first"
            )));
        }
        self.store.begin_drain(name).await?;
        self.drain_begun.notify_one();
        self.record(name).await
    }

    /// Lets a host take new computers again. Those that were moved away stay where they are.
    ///
    /// # Errors
    /// `NotFound`, also when a host that left the cluster had a drain, which is ended then; the errors of
    /// [`ComputerHosts::records`].
    pub async fn restore(&self, name: &str) -> Result<Host> {
        if self.has_drain(name).await? {
            self.store.end_drain(name).await?;
        }
        self.record(name).await
    }

    /// Moves a computer to a host, or to the one with the most room. Returns its row, whose status is in transition when
    /// the move takes longer than [`ANSWER_TIMEOUT`].
    ///
    /// # Errors
    /// `Conflict` where there is one host; the errors of [`check_target`], of [`choose_host`] and of a move.
    pub async fn move_computer(&self, computer: &Computer, to: Option<&str>) -> Result<Computer> {
        self.fleet.check_not_moving(computer)?;
        let to = self.choose_target(computer, to).await?;
        let finished = self.fleet.begin_move(computer.id, &to).await?;
        if let Ok(outcome) = tokio::time::timeout(ANSWER_TIMEOUT, finished).await {
            outcome.map_err(|_| stopping())??;
        }
        self.fleet.row(computer.id).await
    }

    async fn candidates(&self) -> Result<Vec<HostCandidate>> {
        let hosts = self.observe().await?;
        self.fleet.shared.host_candidates(&hosts, None).await
    }

    async fn choose_target(&self, computer: &Computer, to: Option<&str>) -> Result<String> {
        let candidates = self.candidates().await?;
        if candidates.is_empty() {
            return Err(Error::conflict("Computers cannot be moved: this service runs them on one host"));
        }
        match to {
            Some(name) => check_target(&candidates, name).map(|()| name.to_owned()),
            None => {
                let own = computer.host.as_deref();
                let replica = computer.replica.as_ref().map(|replica| replica.host.as_str());
                choose_host(&candidates, memory_of(computer), own, replica).map(str::to_owned)
            }
        }
    }

    /// Carries out drains until `stop`, also those of an earlier controller.
    pub async fn run_drains(self, stop: CancellationToken) {
        let mut failures = DrainFailures::default();
        loop {
            let passed = tokio::select! {
                () = stop.cancelled() => return,
                passed = self.pass(&mut failures) => passed,
            };
            if let Err(error) = passed {
                tracing::warn!(error = format_args!("{error:#}"), "a drain of hosts failed; it is retried");
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(DRAIN_INTERVAL) => {}
                () = self.drain_begun.notified() => {}
            }
        }
    }

    /// Moves what is on hosts with a drain, one computer after another.
    async fn pass(&self, failures: &mut DrainFailures) -> Result<()> {
        failures.forget_old();
        for drain in self.store.host_drains().await? {
            for computer in self.computers_on(&drain.host).await? {
                if !self.has_drain(&drain.host).await? {
                    break;
                }
                if failures.is_recent(computer.id) {
                    continue;
                }
                self.move_away(&computer, failures).await;
            }
            let left = self.computers_on(&drain.host).await?;
            let (state, message) = (DrainState::of(left.len()), failures.message(&left));
            if state != drain.state || message != drain.message {
                self.store.note_drain(&drain.host, state, &message).await?;
            }
        }
        Ok(())
    }

    /// Moves a computer to another host, and waits for the end.
    async fn move_away(&self, computer: &Computer, failures: &mut DrainFailures) {
        let begun = match self.choose_target(computer, None).await {
            Ok(to) => self.fleet.begin_move(computer.id, &to).await,
            Err(error) => Err(error),
        };
        let (outcome, has_begun) = match begun {
            Ok(finished) => (finished.await.unwrap_or_else(|_| Err(stopping())), true),
            // Nothing has changed, so the next pass tries it again.
            Err(error) => (Err(error), false),
        };
        match outcome {
            Ok(()) => failures.forget(computer.id),
            Err(error) => {
                tracing::warn!(
                    computer = %computer.id,
                    error = format_args!("{error:#}"),
                    "a drain could not move a computer; it is retried"
                );
                failures.note(computer.id, error.to_string(), has_begun);
            }
        }
    }

    async fn has_drain(&self, host: &str) -> Result<bool> {
        Ok(self.store.host_drains().await?.iter().any(|drain| drain.host == host))
    }

    async fn computers_on(&self, host: &str) -> Result<Vec<Computer>> {
        let mut computers = self.store.all_computers().await?;
        computers.retain(|computer| is_on(computer, host));
        Ok(computers)
    }
}

impl DrainFailures {
    /// Whether a move of a computer failed a short time ago.
    fn is_recent(&self, id: ComputerId) -> bool {
        self.0.get(&id).is_some_and(|(until, _)| *until > Instant::now())
    }

    /// Notes a failed move; `pauses` it when the attempt has ended the computer's machine.
    fn note(&mut self, id: ComputerId, message: String, pauses: bool) {
        let pause = if pauses { FAILED_MOVE_PAUSE } else { Duration::ZERO };
        self.0.insert(id, (Instant::now() + pause, message));
    }

    fn forget(&mut self, id: ComputerId) {
        self.0.remove(&id);
    }

    /// Forgets old failures, also those of computers that are gone.
    fn forget_old(&mut self) {
        self.0.retain(|_, (until, _)| until.elapsed() < FAILED_MOVE_PAUSE);
    }

    /// The reason of one of the failures of these computers, for people; empty without any.
    fn message(&self, computers: &[Computer]) -> String {
        let failed = computers.iter().find_map(|computer| {
            self.0.get(&computer.id).map(|(_, message)| format!("computer {}: {message}", computer.id))
        });
        failed.unwrap_or_default()
    }
}

/// Whether a computer is on a host. One that is being deleted is not moved.
fn is_on(computer: &Computer, host: &str) -> bool {
    computer.host.as_deref() == Some(host) && computer.status != Status::Deleting
}

fn host_record(
    host: HostObservation,
    status: HostStatus,
    drain: Option<&HostDrain>,
    engine: &str,
    (computers, running): (usize, usize),
) -> Host {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let failure = drain.map(|drain| drain.message.as_str()).filter(|text| !text.is_empty());
    let message = match (host.message.as_str(), failure) {
        ("", failure) => failure.unwrap_or_default().to_owned(),
        (silence, None) => silence.to_owned(),
        (silence, Some(failure)) => format!("{silence}; {failure}"),
    };
    Host {
        status: status.name().to_owned(),
        name: host.name,
        engine: engine.to_owned(),
        cpus: host.cpus,
        memory_mb: host.memory_bytes / MB,
        memory_free_mb: host.memory_free_bytes / MB,
        disk_mb: host.disk_bytes / MB,
        disk_free_mb: host.disk_free_bytes / MB,
        computers: count(computers),
        running: count(running),
        image_present: host.has_image,
        message,
    }
}
