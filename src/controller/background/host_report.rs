//! Report of the host for its operator: resources, engines, capacity, checks and leftovers.
//!
//! ```text
//!   request --> slot of its kind, quick or thorough -- fresh --> the report in it
//!                 (others wait)                     -- old ----> a task makes one and fills the slot
//! ```
//! The task keeps the slot until it ends, also when nobody waits any more. So a host that hangs holds one
//! task, not one for each request.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use procfs::{Current, Meminfo};
use tokio::sync::Mutex;

use crate::computers::fleet::Fleet;
use crate::config::Config;
use crate::data_dir::disk;
use hotdesk_base::clock;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::host::placement::takes_memory;
use hotdesk_engine::{EngineFindings, EngineResult, LeftoverRecord, Offer, Offers, Severity};
use hotdesk_store::Store;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::billing::host::{
    EngineAbilities, HostCapacity, HostCheck, HostEngine, HostLeftover, HostReport, HostResources,
};

/// Time in which one quick report serves all requests. Its checks take some hundred milliseconds of the host.
const QUICK_REUSE: Duration = Duration::from_secs(10);
/// Time in which one thorough report serves all requests. Its checks try guests, which takes a processor for
/// seconds.
const THOROUGH_REUSE: Duration = Duration::from_secs(60);
/// For a quick report: a host helper that is gone is waited for 30 s, and the report then says so.
const QUICK_TIMEOUT: Duration = Duration::from_secs(45);
/// For a thorough report. Checks of virtual machines take half a minute where processors are emulated, and a
/// minute more where KVM hangs.
const THOROUGH_TIMEOUT: Duration = Duration::from_secs(180);
/// Time between the two looks at leftovers. What a check of the host makes and removes meanwhile is not one.
const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// Most leftovers of a report: more than a person reads. Their number tells the rest.
const MAX_SHOWN: usize = 100;
/// Longest text of a check's result, in characters: tools of the host can print more.
const MAX_MESSAGE: usize = 1000;
/// After how many seconds a client asks again for a report that was not ready.
const RETRY_SECONDS: u32 = 10;

/// Reports of the host. Cheap to clone.
#[derive(Clone)]
pub struct HostReports(Arc<ReportMaker>);

struct ReportMaker {
    store: Store,
    fleet: Fleet,
    tasks: Tasks,
    data_dir: PathBuf,
    started: Instant,
    quick: ReportSlot,
    thorough: ReportSlot,
}

/// The last report, with the time when it was ready.
type ReportSlot = Arc<Mutex<Option<(Instant, HostReport)>>>;

impl HostReports {
    /// Creates the service. `started` is the start of the controller.
    pub fn new(store: Store, fleet: Fleet, tasks: Tasks, config: &Config, started: Instant) -> Self {
        let (quick, thorough) = (ReportSlot::default(), ReportSlot::default());
        let data_dir = config.data_dir.clone();
        Self(Arc::new(ReportMaker { store, fleet, tasks, data_dir, started, quick, thorough }))
    }

    /// Returns a report, which may be some seconds old. A `thorough` one has every check.
    ///
    /// # Errors
    /// `Unavailable` when it is not ready in time, or the controller stops; `Unavailable` or `Internal` when
    /// the store or a measurement fails. Failures of the engine are in the report.
    pub async fn get(&self, thorough: bool) -> Result<HostReport> {
        let (slot, reuse, timeout) = if thorough {
            (&self.0.thorough, THOROUGH_REUSE, THOROUGH_TIMEOUT)
        } else {
            (&self.0.quick, QUICK_REUSE, QUICK_TIMEOUT)
        };
        let fetched = self.fetch(slot, reuse, thorough);
        tokio::time::timeout(timeout, fetched).await.unwrap_or_else(|_| {
            Err(Error::unavailable(
                "The host did not answer in time: try again later, or run hotdesk doctor on it",
            )
            .retry_after(RETRY_SECONDS))
        })
    }

    async fn fetch(&self, slot: &ReportSlot, reuse: Duration, thorough: bool) -> Result<HostReport> {
        let mut last = Arc::clone(slot).lock_owned().await;
        if let Some((_, report)) = last.as_ref().filter(|(ready, _)| ready.elapsed() < reuse) {
            return Ok(report.clone());
        }
        let (maker, stop) = (Arc::clone(&self.0), self.0.tasks.stopping());
        let making = self.0.tasks.spawn("report of the host", async move {
            let made = tokio::select! {
                () = stop.cancelled() => Err(Error::unavailable("The service is stopping")),
                made = maker.make(thorough) => made,
            };
            if let Ok(report) = &made {
                *last = Some((Instant::now(), report.clone()));
            }
            made
        });
        match making.await {
            Ok(Some(made)) => made,
            Ok(None) | Err(_) => Err(Error::internal("the task that makes the report of the host failed")),
        }
    }
}

impl ReportMaker {
    async fn make(&self, thorough: bool) -> Result<HostReport> {
        let (checked, leftovers) = if thorough {
            // Checks make and remove what would look like leftovers.
            (self.fleet.engine().check_host(true).await, self.find_leftovers().await)
        } else {
            tokio::join!(self.fleet.engine().check_host(false), self.find_leftovers())
        };
        let data_dir = self.data_dir.clone();
        let resources = hotdesk_base::tasks::spawn_blocking(move || read_resources(&data_dir));
        let resources = resources.await.map_err(Error::internal)??;
        let (checks, checks_left_out) = check_records(checked);
        let (found, leftovers_error) = match leftovers {
            Ok(found) => (found, None),
            Err(error) => (Vec::new(), Some(shorten(&error))),
        };
        Ok(HostReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: self.started.elapsed().as_secs(),
            measured_at: clock::now().iso8601(),
            resources,
            engines: engine_records(self.fleet.engine().offers()),
            capacity: self.capacity().await?,
            checks,
            checks_left_out,
            leftovers_total: count(found.len()),
            leftovers: found.into_iter().take(MAX_SHOWN).map(leftover_record).collect(),
            leftovers_error,
        })
    }

    /// Finds what no computer owned at both of two looks. A machine that is just made or removed has an owner
    /// at one of them.
    ///
    /// # Errors
    /// Why it could not look, for the operator.
    async fn find_leftovers(&self) -> Result<Vec<LeftoverRecord>, String> {
        let first = self.look_for_leftovers().await?;
        if first.is_empty() {
            return Ok(first);
        }
        tokio::time::sleep(LOOK_PAUSE).await;
        let second: BTreeSet<LeftoverRecord> = self.look_for_leftovers().await?.into_iter().collect();
        Ok(first.into_iter().filter(|found| second.contains(found)).collect())
    }

    async fn look_for_leftovers(&self) -> Result<Vec<LeftoverRecord>, String> {
        let owned = self.fleet.owned_machines().await.map_err(|error| error.to_string())?;
        self.fleet.engine().find_leftovers(&owned).await.map_err(|error| format!("{error:#}"))
    }

    async fn capacity(&self) -> Result<HostCapacity> {
        let computers = self.store.all_computers().await?;
        let pool = self.store.pooled_machines().await?;
        let boot_snapshots = self.store.boot_snapshots().await?;
        let engine = self.fleet.engine();
        Ok(HostCapacity {
            frozen: count(computers.iter().filter(|computer| engine.is_frozen(computer.id)).count()),
            pool_ready: count(pool.iter().filter(|machine| machine.ready).count()),
            pool: count(pool.len()),
            boot_snapshots: count(boot_snapshots.iter().filter(|(_, snapshot)| snapshot.ready).count()),
            ..use_by(&computers)
        })
    }
}

/// Converts a number of things.
fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Cuts a text for people.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Reads the figures of the host. Blocks.
fn read_resources(data_dir: &Path) -> Result<HostResources> {
    let memory = Meminfo::current().map_err(Error::internal)?;
    let disk = disk::file_system(data_dir)?;
    let cores = std::thread::available_parallelism().map_err(Error::internal)?;
    Ok(HostResources {
        cores: count(cores.get()),
        memory_bytes: memory.mem_total,
        memory_available_bytes: memory.mem_available.unwrap_or(memory.mem_free),
        disk_bytes: disk.f_blocks.saturating_mul(disk.f_frsize),
        disk_free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
    })
}

/// Sums up the computers; the other fields are 0.
fn use_by(computers: &[Computer]) -> HostCapacity {
    let gigabytes = |number: u32| u64::from(number) << 30;
    let active = || computers.iter().filter(|computer| takes_memory(computer.status));
    HostCapacity {
        computers: count(computers.len()),
        running: count(computers.iter().filter(|computer| computer.status == Status::Running).count()),
        cpu_promised: active().map(|computer| computer.hardware.cpu).sum(),
        memory_promised_bytes: active().map(|computer| gigabytes(computer.hardware.ram_gb)).sum(),
        disk_promised_bytes: computers.iter().map(|computer| gigabytes(computer.hardware.disk_gb)).sum(),
        ..HostCapacity::default()
    }
}

fn engine_records(offers: &Offers) -> Vec<HostEngine> {
    let record = |offer: &Offer| {
        let able = offer.capabilities;
        HostEngine {
            isolation: offer.isolation.name().to_owned(),
            engine: offer.engine.to_owned(),
            abilities: EngineAbilities {
                suspend: able.suspend,
                live_cpu: able.live_cpu,
                live_ram: able.live_ram,
                live_disk: able.live_disk,
                copy_while_running: able.copy_while_running,
                memory_snapshot: able.memory_snapshot,
                evict: able.evict,
                encrypt: able.encrypt,
                replicate: able.replicate,
            },
        }
    };
    offers.all().map(record).collect()
}

/// Returns the results of the checks, and the names of those that did not run. What several engines need of
/// the host is listed once.
fn check_records(checked: EngineResult<Vec<EngineFindings>>) -> (Vec<HostCheck>, Vec<String>) {
    let engines = match checked {
        Ok(engines) => engines,
        Err(error) => return (vec![failed_check(&format!("{error:#}"))], Vec::new()),
    };
    let (mut checks, mut left_out): (Vec<HostCheck>, Vec<String>) = (Vec::new(), Vec::new());
    for EngineFindings { offer, findings, left_out: names } in engines {
        let isolation = offer.isolation.name();
        for finding in findings {
            let (state, message) = (finding.severity(), shorten(&finding.detail));
            let same = checks.iter_mut().find(|check| {
                check.name == finding.what && check.state == state.name() && check.message == message
            });
            if let Some(same) = same {
                same.isolations.push(isolation.to_owned());
                continue;
            }
            checks.push(HostCheck {
                name: finding.what.into_owned(),
                isolations: vec![isolation.to_owned()],
                state: state.name().to_owned(),
                message,
                remedy: (state != Severity::Ok).then(|| finding.remedy.into_owned()),
            });
        }
        for name in names {
            if !left_out.iter().any(|known| *known == name) {
                left_out.push(name.into_owned());
            }
        }
    }
    (checks, left_out)
}

/// The record of checks that could not be run.
fn failed_check(error: &str) -> HostCheck {
    HostCheck {
        name: "engine".to_owned(),
        isolations: Vec::new(),
        state: Severity::Failed.name().to_owned(),
        message: shorten(error),
        remedy: Some(
            "run hotdesk doctor on the host; where hotdesk host makes the machines, start it".to_owned(),
        ),
    }
}

fn leftover_record(found: LeftoverRecord) -> HostLeftover {
    let LeftoverRecord { kind, location, reason, remedy } = found;
    HostLeftover {
        kind: kind.into_owned(),
        location: shorten(&location),
        reason: reason.into_owned(),
        remedy: remedy.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_domain::computer::isolation::Isolation;
    use hotdesk_engine::{Capabilities, EngineError, Finding};

    fn finding(what: &'static str, ok: bool, optional: bool, detail: &str) -> Finding {
        let remedy = if ok { "" } else { "mend it" };
        Finding { what: what.into(), ok, optional, detail: detail.to_owned(), remedy: remedy.into() }
    }

    fn findings(isolation: Isolation, findings: Vec<Finding>) -> EngineFindings {
        let offer = Offer { isolation, engine: "container", capabilities: Capabilities::ALL };
        EngineFindings { offer, findings, left_out: vec!["disk tools".into()] }
    }

    #[test]
    fn what_several_engines_need_is_listed_once_with_its_state_and_remedy() {
        let engines = vec![
            findings(
                Isolation::Shared,
                vec![finding("root", true, false, "yes"), finding("OCI runtime", false, false, "no runc")],
            ),
            findings(
                Isolation::Sandbox,
                vec![
                    finding("root", true, false, "yes"),
                    finding("OCI runtime", true, false, "runsc"),
                    finding("open files", false, true, "few"),
                ],
            ),
        ];
        let (checks, left_out) = check_records(Ok(engines));
        let shown: Vec<_> = checks
            .iter()
            .map(|it| (it.name.as_str(), it.isolations.join(" "), it.state.as_str(), it.remedy.as_deref()))
            .collect();
        let expected = [
            ("root", "shared sandbox".to_owned(), "ok", None),
            ("OCI runtime", "shared".to_owned(), "failed", Some("mend it")),
            ("OCI runtime", "sandbox".to_owned(), "ok", None),
            ("open files", "sandbox".to_owned(), "warning", Some("mend it")),
        ];
        assert_eq!(shown, expected);
        assert_eq!(left_out, ["disk tools"]);
    }

    #[test]
    fn an_engine_that_does_not_answer_is_a_failed_check() {
        let (checks, left_out) = check_records(Err(EngineError::failed("reach the host helper", "gone")));
        assert_eq!((checks.len(), checks[0].state.as_str(), left_out.len()), (1, "failed", 0));
        assert!(checks[0].message.contains("gone") && checks[0].remedy.is_some());
    }

    #[test]
    fn long_texts_of_tools_are_cut() {
        assert_eq!(shorten("é"), "é");
        assert_eq!(shorten(&"é".repeat(MAX_MESSAGE + 1)), format!("{}…", "é".repeat(MAX_MESSAGE)));
    }

    #[test]
    fn the_figures_of_this_host_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let read = read_resources(folder.path()).unwrap();
        assert!(read.cores > 0 && read.memory_bytes >= read.memory_available_bytes);
        assert!(read.memory_available_bytes > 0 && read.disk_bytes >= read.disk_free_bytes);
        assert!(read_resources(&folder.path().join("none")).is_err());
    }
}
