//! Saved memory of simulated machines: the agent itself, and a file on the host that marks it.

use std::fs;
use std::io;

use crate::simulated::host::SuspendedAgent;
use crate::simulated::{SimulatedEngine, ignore_missing};
use crate::{Boot, Endpoint, EngineError, EngineResult, SavedLocation};
use hotdesk_base::ids::ComputerId;

/// The end of a complete file.
const WHOLE: &str = " whole";

/// The content of a complete file.
pub(super) fn whole(generation: u64) -> String {
    format!("{generation}{WHOLE}")
}

impl SimulatedEngine {
    /// The generation of saved memory; `None` without any. A damaged file counts too.
    pub(super) fn saved_since(&self, id: ComputerId) -> EngineResult<Option<u64>> {
        match fs::read_to_string(self.host.memory(id)) {
            Ok(text) => {
                Ok(Some(text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(EngineError::failed("look for saved memory", error)),
        }
    }

    pub(super) async fn save(&self, id: ComputerId) -> EngineResult<()> {
        let running = self.host.running().get(&id).map(|it| {
            let saved = SuspendedAgent { agent: it.agent.clone(), agent_boot: it.agent_boot.clone() };
            (it.generation, saved)
        });
        let Some((generation, saved)) = running else {
            return match self.saved_since(id)? {
                Some(_) => Ok(()),
                None => Err(EngineError::failed("save memory", "the machine does not run")),
            };
        };
        self.host.suspended().insert(id, saved);
        fs::write(self.host.memory(id), whole(generation))
            .map_err(|error| EngineError::failed("save memory", error))?;
        self.halt(id).await
    }

    pub(super) async fn resume_machine(&self, id: ComputerId, boot: &Boot) -> EngineResult<Endpoint> {
        if let Some(endpoint) = self.runs_already(id, boot)? {
            return Ok(endpoint);
        }
        if let Some((_, SavedLocation::Evicted)) = self.eviction(id)? {
            return Err(EngineError::failed("read saved memory", "the machine is evicted"));
        }
        let text = match fs::read_to_string(self.host.memory(id)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(EngineError::Damaged("no memory is saved".to_owned()));
            }
            Err(error) => return Err(EngineError::failed("read saved memory", error)),
        };
        let saved = self.host.suspended().get(&id).cloned();
        let Some(SuspendedAgent { agent, agent_boot }) = saved.filter(|_| text.ends_with(WHOLE)) else {
            return Err(EngineError::Damaged("the saved memory is incomplete".to_owned()));
        };
        self.discard(id)?;
        self.run(boot.generation, agent, agent_boot).await
    }

    pub(super) fn drop_memory(&self, id: ComputerId) -> EngineResult<()> {
        match self.eviction(id)? {
            Some((_, SavedLocation::Evicted)) => {
                Err(EngineError::failed("drop the memory", "the machine is evicted: fetch its disk first"))
            }
            Some(_) | None => self.discard(id),
        }
    }

    pub(super) fn discard(&self, id: ComputerId) -> EngineResult<()> {
        self.host.suspended().remove(&id);
        let file = self.host.memory(id);
        ignore_missing(fs::remove_file(&file), "discard saved memory", &file)
    }
}
