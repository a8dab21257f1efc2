//! How do the fleet's rules behave when machines fail? An engine whose machines are folders and tasks of this process,
//! with failures at chosen calls. Its agents are real HTTP servers on unix sockets, made by an injected closure.

mod faults;
mod host;

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use self::faults::Faults;
pub use self::faults::{Failure, Fault, Verb};
use self::host::Running;
pub use self::host::{AgentFactory, Birth, SimulatedHost};
use super::{Boot, Capabilities, Endpoint, Engine, EngineError, EngineResult, MachineSpec, Observation};
use crate::base::ids::ComputerId;
use crate::base::tasks::Tasks;
use crate::http::serve::{Listen, bind, serve};

/// The simulated engine. Engines over one host see the same machines, as a controller that was restarted does.
#[derive(Debug)]
pub struct SimulatedEngine {
    host: Arc<SimulatedHost>,
    faults: Mutex<Faults>,
}

/// How long an agent's connections may take to end when its machine stops.
const DRAIN: Duration = Duration::from_secs(1);

impl SimulatedEngine {
    /// An engine over a host.
    pub fn open(host: Arc<SimulatedHost>) -> Self {
        Self { host, faults: Mutex::default() }
    }

    /// Plans a failure.
    pub fn plan(&self, fault: Fault) {
        self.faults().planned.push(fault);
    }

    /// How often a verb was called.
    pub fn calls(&self, verb: Verb) -> u32 {
        self.faults().calls.get(&verb).copied().unwrap_or_default()
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a verb, with what was planned for this call of it.
    async fn act<T>(
        &self,
        verb: Verb,
        work: impl Future<Output = EngineResult<T>> + Send,
    ) -> EngineResult<T> {
        let planned = self.faults().strike(verb);
        match planned {
            None => work.await,
            Some(Failure::Before(error)) => Err(error),
            Some(Failure::After(error)) => work.await.and(Err(error)),
            Some(Failure::Delay(pause)) => {
                tokio::time::sleep(pause).await;
                work.await
            }
        }
    }

    async fn boot(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        let machine = self.host.machine(spec.id);
        if !machine.is_dir() {
            return Err(EngineError::Absent);
        }
        let socket = self.host.socket(spec.id);
        if let Some(running) = self.host.running().get(&spec.id) {
            return if running.generation == boot.generation {
                Ok(Endpoint::Unix(socket))
            } else {
                let detail = format!("it runs since boot {}, not {}", running.generation, boot.generation);
                Err(EngineError::failed("start the machine", detail))
            };
        }
        let bound = bind(&Listen::Unix(socket.clone()))
            .await
            .map_err(|error| EngineError::failed("make the agent's socket", error))?;
        let birth = Birth { spec: spec.clone(), boot: boot.clone(), disk: machine.join("disk") };
        let router = (self.host.agent)(&birth);
        let running =
            Running { generation: boot.generation, tasks: Tasks::new(), ended: CancellationToken::new() };
        let tasks = running.tasks.clone();
        let _agent =
            running.tasks.spawn("simulated agent", async move { serve(bound, router, &tasks).await });
        self.host.running().insert(spec.id, running);
        Ok(Endpoint::Unix(socket))
    }

    async fn halt(&self, id: ComputerId) -> EngineResult<()> {
        let running = self.host.running().remove(&id);
        if let Some(running) = running {
            let late = running.tasks.drain(DRAIN).await;
            running.ended.cancel();
            if !late.is_empty() {
                tracing::warn!(computer = %id, ?late, "a simulated agent ends late");
            }
        }
        absent_is_fine(
            fs::remove_file(self.host.socket(id)),
            "remove the agent's socket",
            &self.host.socket(id),
        )
    }
}

fn absent_is_fine(outcome: io::Result<()>, step: &'static str, path: &Path) -> EngineResult<()> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(EngineError::failed(step, format!("{}: {error}", path.display())))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

#[async_trait]
impl Engine for SimulatedEngine {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    async fn create(&self, spec: &MachineSpec) -> EngineResult<()> {
        let disk = self.host.machine(spec.id).join("disk");
        self.act(Verb::Create, async move {
            fs::create_dir_all(&disk)
                .map_err(|error| EngineError::failed("make the disk", format!("{}: {error}", disk.display())))
        })
        .await
    }

    async fn start(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        self.act(Verb::Start, self.boot(spec, boot)).await
    }

    async fn stop(&self, id: ComputerId, _grace: Duration) -> EngineResult<()> {
        self.act(Verb::Stop, self.halt(id)).await
    }

    async fn destroy(&self, id: ComputerId) -> EngineResult<()> {
        let machine = self.host.machine(id);
        self.act(Verb::Destroy, async move {
            self.halt(id).await?;
            absent_is_fine(fs::remove_dir_all(&machine), "remove the machine", &machine)
        })
        .await
    }

    async fn observe(&self, id: ComputerId) -> EngineResult<Observation> {
        self.act(Verb::Observe, async {
            let running = self.host.running().get(&id).map(|running| running.generation);
            Ok(match running {
                Some(generation) => Observation::Running {
                    generation,
                    endpoint: Endpoint::Unix(self.host.socket(id)),
                    address: None,
                },
                None if self.host.machine(id).is_dir() => Observation::Stopped,
                None => Observation::Absent,
            })
        })
        .await
    }

    async fn list(&self) -> EngineResult<Vec<ComputerId>> {
        self.act(Verb::List, async {
            let failed = |error: io::Error| EngineError::failed("list the machines", error);
            let entries = match fs::read_dir(&self.host.folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(failed(error)),
            };
            let mut found = Vec::new();
            for entry in entries {
                let name = entry.map_err(failed)?.file_name();
                found.extend(name.to_str().and_then(|name| name.parse::<ComputerId>().ok()));
            }
            found.sort();
            Ok(found)
        })
        .await
    }

    async fn stopped(&self, id: ComputerId) -> EngineResult<()> {
        let ended = self.host.running().get(&id).map(|running| running.ended.clone());
        if let Some(ended) = ended {
            ended.cancelled().await;
        }
        Ok(())
    }
}
