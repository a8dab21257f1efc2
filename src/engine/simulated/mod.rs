//! Engine for tests: machines are folders and tasks of this process, and chosen calls fail. Its agents are
//! real HTTP servers on unix sockets, made by an injected closure.

mod evicted;
mod faults;
mod host;
mod hosts;
mod layers;
mod memory;
mod outages;
mod report;
mod resize;
mod snapshots;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::simulated::faults::Faults;
pub use crate::simulated::faults::{Failure, Fault, Verb};
use crate::simulated::host::RunningMachine;
pub use crate::simulated::host::{AgentBoot, AgentFactory, SimulatedHost, SimulatedMemory};
pub use crate::simulated::outages::{FIRST_HOST, SECOND_HOST};
use crate::{
    Boot, Capabilities, Change, Effect, Endpoint, Engine, EngineError, EngineFindings, EngineResult, Extents,
    HostObservation, LeftoverRecord, MachineSpec, Observation, Offer, Offers, SavedFile, SavedLocation,
    SavedState, Snapshot,
};
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::template::network::egress::EgressPolicy;
use hotdesk_domain::host::outage::{HostOutage, HostState};
use hotdesk_http::serve::{Listen, bind, serve};

/// The simulated engine. Engines over one host share its machines, like a controller before and after its
/// restart.
#[derive(Debug)]
pub struct SimulatedEngine {
    host: Arc<SimulatedHost>,
    faults: Mutex<Faults>,
    offers: Offers,
}

/// The name of the engine.
pub const NAME: &str = "simulated";
/// For an agent's connections to end when its machine stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

impl SimulatedEngine {
    /// An engine over a host, with all capabilities that it supports.
    pub fn open(host: Arc<SimulatedHost>) -> Self {
        Self::limited(host, Capabilities { encrypt: false, ..Capabilities::ALL })
    }

    /// An engine over a host with chosen capabilities.
    pub fn limited(host: Arc<SimulatedHost>, capabilities: Capabilities) -> Self {
        let offer = Offer { isolation: Isolation::Sandbox, engine: NAME, capabilities };
        Self::offering(host, Offers::one(offer))
    }

    /// An engine over a host with several isolations.
    pub fn offering(host: Arc<SimulatedHost>, offers: Offers) -> Self {
        Self { host, faults: Mutex::default(), offers }
    }

    /// Plans a failure of one call.
    pub fn plan(&self, fault: Fault) {
        self.faults().planned.push(fault);
    }

    /// The number of calls of an operation.
    pub fn calls(&self, verb: Verb) -> u32 {
        self.faults().calls.get(&verb).copied().unwrap_or_default()
    }

    /// The number of calls that will never return ([`Failure::Never`]).
    pub fn stuck(&self) -> u32 {
        self.faults().stuck
    }

    /// What a machine can do by its isolation.
    fn capabilities_of(&self, id: ComputerId) -> Capabilities {
        let isolation = self.host.isolation(id).unwrap_or(self.offers.default().isolation);
        self.offers.capabilities(isolation)
    }

    /// Gives a machine the isolation of its spec.
    fn note_isolation(&self, spec: &MachineSpec) -> EngineResult<()> {
        let isolation = self.offers.effective(spec)?.isolation;
        self.host.isolations().insert(spec.id, isolation);
        Ok(())
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs an operation with the failure that was planned for this call.
    async fn act<T>(
        &self,
        verb: Verb,
        work: impl Future<Output = EngineResult<T>> + Send,
    ) -> EngineResult<T> {
        let planned = self.faults().count_call(verb);
        match planned {
            None => work.await,
            Some(Failure::Before(error)) => Err(error),
            Some(Failure::After(error)) => work.await.and(Err(error)),
            Some(Failure::Delay(pause)) => {
                tokio::time::sleep(pause).await;
                work.await
            }
            Some(Failure::Until(released)) => {
                released.cancelled().await;
                work.await
            }
            Some(Failure::Never { done }) => {
                if done {
                    work.await?;
                }
                self.faults().stuck += 1;
                std::future::pending().await
            }
        }
    }

    async fn boot(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        let machine = self.host.machine(spec.id);
        if !machine.is_dir() {
            return Err(EngineError::Absent);
        }
        if let Some(endpoint) = self.runs_already(spec.id, boot)? {
            return Ok(endpoint);
        }
        if self.host.memory(spec.id).exists() {
            return Err(EngineError::failed("start the machine", "its memory is saved"));
        }
        self.check_layers(spec.id, spec)?;
        let (spec, boot, disk) = (spec.clone(), boot.clone(), machine.join("disk"));
        let agent_boot = AgentBoot { spec, boot, disk, memory: SimulatedMemory::default() };
        self.run(agent_boot.boot.generation, (self.host.agent)(&agent_boot), agent_boot).await
    }

    /// The agent's endpoint of a machine that runs this generation; an error for another generation.
    fn runs_already(&self, id: ComputerId, boot: &Boot) -> EngineResult<Option<Endpoint>> {
        match self.host.running().get(&id) {
            None => Ok(None),
            Some(running) if running.generation == boot.generation => {
                Ok(Some(Endpoint::Unix(self.host.socket(id))))
            }
            Some(running) => {
                let detail = format!("it runs generation {}, not {}", running.generation, boot.generation);
                Err(EngineError::failed("start the machine", detail))
            }
        }
    }

    async fn run(&self, generation: u64, agent: Router, agent_boot: AgentBoot) -> EngineResult<Endpoint> {
        let id = agent_boot.spec.id;
        let socket = self.host.socket(id);
        let bound = bind(&Listen::Unix(socket.clone()))
            .await
            .map_err(|error| EngineError::failed("make the agent's socket", error))?;
        let (tasks, ended) = (Tasks::new(), CancellationToken::new());
        let (router, group) = (agent.clone(), tasks.clone());
        let _agent = tasks.spawn("simulated agent", async move { serve(bound, router, &group).await });
        self.host.running().insert(id, RunningMachine { generation, agent, agent_boot, tasks, ended });
        Ok(Endpoint::Unix(socket))
    }

    async fn halt(&self, id: ComputerId) -> EngineResult<()> {
        let running = self.host.running().remove(&id);
        if let Some(running) = running {
            let late = running.tasks.drain(DRAIN_TIMEOUT).await;
            running.ended.cancel();
            if !late.is_empty() {
                tracing::warn!(computer = %id, ?late, "a simulated agent did not end in time");
            }
        }
        ignore_missing(
            fs::remove_file(self.host.socket(id)),
            "remove the agent's socket",
            &self.host.socket(id),
        )
    }
}

fn ignore_missing(outcome: io::Result<()>, step: &'static str, path: &Path) -> EngineResult<()> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(EngineError::failed(step, format!("{}: {error}", path.display())))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The ids in the names of a folder's entries, ascending; none when it is missing.
fn ids_in<T: FromStr + Ord>(folder: &Path, step: &'static str) -> EngineResult<Vec<T>> {
    let failed = |error: io::Error| EngineError::failed(step, error);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        found.extend(name.to_str().and_then(|name| name.parse::<T>().ok()));
    }
    found.sort();
    Ok(found)
}

#[async_trait]
impl Engine for SimulatedEngine {
    fn offers(&self) -> &Offers {
        &self.offers
    }

    async fn boot_inputs(&self, isolation: Isolation) -> EngineResult<String> {
        Ok(format!("simulated {}", isolation.name()))
    }

    async fn image_id(&self) -> EngineResult<String> {
        Ok("simulated".to_owned())
    }

    async fn create(&self, spec: &MachineSpec) -> EngineResult<()> {
        let disk = self.host.machine(spec.id).join("disk");
        self.act(Verb::Create, async move {
            self.note_isolation(spec)?;
            self.add_layers(spec)?;
            self.host.put_on_any(spec.id);
            fs::create_dir_all(&disk)
                .map_err(|error| EngineError::failed("make the disk", format!("{}: {error}", disk.display())))
        })
        .await
    }

    async fn create_on(&self, spec: &MachineSpec, host: &str) -> EngineResult<()> {
        if !self.host.machine(spec.id).is_dir() {
            self.host.put_on(spec.id, host);
        }
        self.create(spec).await
    }

    async fn hosts(&self) -> EngineResult<Vec<HostObservation>> {
        Ok(self.host.observe_hosts())
    }

    async fn host_of(&self, id: ComputerId) -> EngineResult<Option<String>> {
        Ok(self.host.host_of(id))
    }

    async fn move_machine(&self, id: ComputerId, to: &str) -> EngineResult<()> {
        self.act(Verb::MoveMachine, async { self.move_to(id, to) }).await
    }

    async fn check_capacity(&self, _id: ComputerId, _rollback_to: Option<Uuid>) -> EngineResult<()> {
        self.act(Verb::CheckCapacity, async { Ok(()) }).await
    }

    async fn start(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        self.act(Verb::Start, async {
            self.check_answer(spec.id, "start the machine")?;
            let runs_already = self.host.running().contains_key(&spec.id);
            let endpoint = self.boot(spec, boot).await?;
            if !runs_already {
                self.note_isolation(spec)?;
                self.host.sizes().insert(spec.id, spec.clone());
            }
            Ok(endpoint)
        })
        .await
    }

    async fn stop(&self, id: ComputerId, _grace: Duration) -> EngineResult<()> {
        self.act(Verb::Stop, async {
            self.check_answer(id, "stop the machine")?;
            self.halt(id).await
        })
        .await
    }

    async fn destroy(&self, id: ComputerId) -> EngineResult<()> {
        let machine = self.host.machine(id);
        self.act(Verb::Destroy, async move {
            self.check_answer(id, "remove the machine")?;
            self.halt(id).await?;
            self.delete_replica(id)?;
            self.host.moved().remove(&id);
            self.host.suspended().remove(&id);
            self.host.isolations().remove(&id);
            self.host.layers().remove(&id);
            self.host.snapshot_memory().retain(|(of, _), _| *of != id);
            self.host.evicted_agents().remove(&id);
            self.host.leave_host(id);
            ignore_missing(fs::remove_dir_all(&machine), "remove the machine", &machine)
        })
        .await
    }

    async fn observe(&self, id: ComputerId) -> EngineResult<Observation> {
        self.act(Verb::Observe, async {
            self.check_answer(id, "observe the machine")?;
            let running = self.host.running().get(&id).map(|running| running.generation);
            Ok(match running {
                Some(generation) => Observation::Running {
                    generation,
                    endpoint: Endpoint::Unix(self.host.socket(id)),
                    address: None,
                },
                None if !self.host.machine(id).is_dir() => Observation::Absent,
                None => match (self.eviction(id)?, self.saved_since(id)?) {
                    (Some((generation, SavedLocation::Evicted)), _) | (_, Some(generation)) => {
                        Observation::Suspended { generation }
                    }
                    (Some(_) | None, None) => Observation::Stopped,
                },
            })
        })
        .await
    }

    async fn list(&self) -> EngineResult<Vec<ComputerId>> {
        self.act(Verb::List, async { ids_in(&self.host.folder, "list the machines") }).await
    }

    async fn wait_stopped(&self, id: ComputerId) -> EngineResult<()> {
        let ended = self.host.running().get(&id).map(|running| running.ended.clone());
        if let Some(ended) = ended {
            ended.cancelled().await;
        }
        Ok(())
    }

    async fn resize(&self, id: ComputerId, change: Change) -> EngineResult<Effect> {
        self.act(Verb::Resize, async { self.change(id, change) }).await
    }

    async fn set_egress(&self, id: ComputerId, policy: Option<&EgressPolicy>) -> EngineResult<()> {
        self.act(Verb::SetEgress, async { self.restrict(id, policy) }).await
    }

    async fn copy_disk(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        self.act(Verb::CopyDisk, async {
            self.host.put_beside(from, to.id);
            self.copy(from, to)
        })
        .await
    }

    async fn fork(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        self.act(Verb::Fork, async {
            self.host.put_beside(from, to.id);
            self.fork_machine(from, to)
        })
        .await
    }

    async fn launch(&self, from: ComputerId, snapshot: Uuid, to: &MachineSpec) -> EngineResult<()> {
        self.act(Verb::Launch, async {
            self.host.put_beside(from, to.id);
            self.launch_machine(from, snapshot, to)
        })
        .await
    }

    async fn snapshot(&self, id: ComputerId, snapshot: Uuid, memory: bool) -> EngineResult<Snapshot> {
        self.act(Verb::Snapshot, async { self.take_snapshot(id, snapshot, memory) }).await
    }

    async fn rollback(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        self.act(Verb::Rollback, async { self.roll_back(id, snapshot) }).await
    }

    async fn remove_snapshot(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        self.act(Verb::RemoveSnapshot, async { self.delete_snapshot(id, snapshot) }).await
    }

    async fn snapshots(&self, id: ComputerId) -> EngineResult<Vec<Uuid>> {
        self.act(Verb::Snapshots, async { self.list_snapshots(id) }).await
    }

    async fn suspend(&self, id: ComputerId) -> EngineResult<()> {
        self.act(Verb::Suspend, async {
            if self.capabilities_of(id).suspend {
                self.save(id).await
            } else {
                Err(EngineError::Unsupported("save memory"))
            }
        })
        .await
    }

    async fn resume(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        self.act(Verb::Resume, async {
            self.check_layers(spec.id, spec)?;
            let endpoint = self.resume_machine(spec.id, boot).await?;
            self.restrict(spec.id, spec.egress.as_ref())?;
            Ok(endpoint)
        })
        .await
    }

    async fn discard_memory(&self, id: ComputerId) -> EngineResult<()> {
        self.act(Verb::DiscardMemory, async { self.drop_memory(id) }).await
    }

    async fn saved_state(&self, id: ComputerId) -> EngineResult<Option<SavedState>> {
        self.act(Verb::SavedState, async { self.describe_saved(id) }).await
    }

    async fn read_saved(&self, id: ComputerId, file: &str, from: u64, most: usize) -> EngineResult<Extents> {
        self.act(Verb::ReadSaved, async { self.read_file(id, file, from, most) }).await
    }

    async fn evict(&self, id: ComputerId) -> EngineResult<()> {
        self.act(Verb::Evict, async { self.evict_machine(id) }).await
    }

    async fn write_saved(&self, id: ComputerId, file: &SavedFile, data: Extents) -> EngineResult<()> {
        self.act(Verb::WriteSaved, async { self.write_fetched(id, file, &data) }).await
    }

    async fn finish_fetch(&self, id: ComputerId, with_memory: bool) -> EngineResult<()> {
        self.act(Verb::FinishFetch, async { self.install_fetched(id, with_memory) }).await
    }

    async fn sync_fetched(&self, id: ComputerId) -> EngineResult<()> {
        self.act(Verb::SyncFetched, async { self.sync_fetched_files(id) }).await
    }

    async fn keep_layer(&self, id: ComputerId, layer: LayerId) -> EngineResult<u64> {
        self.act(Verb::KeepLayer, async { self.make_layer(id, layer) }).await
    }

    async fn keep_programs(
        &self,
        list: &str,
        _below: &[LayerId],
        layer: LayerId,
    ) -> EngineResult<Option<u64>> {
        self.act(Verb::KeepPrograms, async { self.write_programs(list, layer) }).await
    }

    async fn remove_layer(&self, layer: LayerId) -> EngineResult<()> {
        self.act(Verb::RemoveLayer, async { self.delete_layer(layer) }).await
    }

    async fn layers(&self) -> EngineResult<Vec<LayerId>> {
        self.act(Verb::Layers, async { self.list_layers() }).await
    }

    fn host_outage(&self, id: ComputerId) -> Option<HostOutage> {
        self.host.outage(id)
    }

    async fn host_state(&self, name: &str) -> EngineResult<Option<HostState>> {
        Ok(self.host.state_of(name))
    }

    async fn replicate(
        &self,
        id: ComputerId,
        _present: Option<&str>,
        _besides: &BTreeSet<String>,
    ) -> EngineResult<String> {
        self.copy_to_second_host(id)
    }

    async fn replicas(&self) -> EngineResult<Vec<ComputerId>> {
        self.list_replicas()
    }

    async fn remove_replica(&self, id: ComputerId) -> EngineResult<()> {
        self.delete_replica(id)
    }

    async fn begin_from_replica(&self, id: ComputerId) -> EngineResult<()> {
        self.move_to_second_host(id).await
    }

    async fn check_host(&self, thorough: bool) -> EngineResult<Vec<EngineFindings>> {
        Ok(self.offers.all().map(|offer| self.host.check(*offer, thorough)).collect())
    }

    async fn find_leftovers(&self, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<LeftoverRecord>> {
        self.host.leftovers(owned)
    }
}
