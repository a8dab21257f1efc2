//! What is the memory of a simulated machine? Its agent, kept as it is, and a file on its host that says so.

use std::fs;
use std::io;

use super::host::Saved;
use super::{SimulatedEngine, absent_is_fine};
use crate::{Boot, Endpoint, EngineError, EngineResult, Place};
use hotdesk_base::ids::ComputerId;

/// How the file ends that is whole.
const WHOLE: &str = " whole";

/// What the file says of memory that is whole.
pub(super) fn whole(generation: u64) -> String {
    format!("{generation}{WHOLE}")
}

impl SimulatedEngine {
    /// Since which boot a machine's saved memory ran; `None` when none is saved. A damaged file is memory as well.
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
            let saved = Saved { agent: it.agent.clone(), birth: it.birth.clone() };
            (it.generation, saved)
        });
        let Some((generation, saved)) = running else {
            return match self.saved_since(id)? {
                Some(_) => Ok(()),
                None => Err(EngineError::failed("save memory", "the machine does not run")),
            };
        };
        self.host.saved().insert(id, saved);
        fs::write(self.host.memory(id), whole(generation))
            .map_err(|error| EngineError::failed("save memory", error))?;
        self.halt(id).await
    }

    pub(super) async fn go_on(&self, id: ComputerId, boot: &Boot) -> EngineResult<Endpoint> {
        if let Some(endpoint) = self.runs_already(id, boot)? {
            return Ok(endpoint);
        }
        if let Some((_, Place::Away)) = self.away(id)? {
            return Err(EngineError::failed("read saved memory", "it is away"));
        }
        let text = match fs::read_to_string(self.host.memory(id)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(EngineError::Damaged("no memory is saved".to_owned()));
            }
            Err(error) => return Err(EngineError::failed("read saved memory", error)),
        };
        let saved = self.host.saved().get(&id).cloned();
        let Some(Saved { agent, birth }) = saved.filter(|_| text.ends_with(WHOLE)) else {
            return Err(EngineError::Damaged("the saved memory is not whole".to_owned()));
        };
        self.discard(id)?;
        self.run(boot.generation, agent, birth).await
    }

    pub(super) fn drop_memory(&self, id: ComputerId) -> EngineResult<()> {
        match self.away(id)? {
            Some((_, Place::Away)) => Err(EngineError::failed("drop the memory", "the disk is away")),
            Some(_) | None => self.discard(id),
        }
    }

    pub(super) fn discard(&self, id: ComputerId) -> EngineResult<()> {
        self.host.saved().remove(&id);
        let file = self.host.memory(id);
        absent_is_fine(fs::remove_file(&file), "discard saved memory", &file)
    }
}
