//! Suspend and resume of instances with gVisor, from the controller.
//!
//! ```text
//!   Running -- label `saved`, launcher saves, ends --> Stopped with the label and the file: Suspended
//!      ^                                                                     |
//!      |---- label `saved` removed <-- launcher continues, removes the file -|
//! ```
//! The label alone says nothing: it is written before the file, and removed after it.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncReadExt;

use super::control::{Answer, READY, SUSPEND};
use super::failure::BootFailure;
use super::{FAILURE_FILE, folder};
use crate::incus::IncusEngine;
use crate::incus::documents::{Instance, LAUNCHER, Power, SAVED};
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::isolation::Isolation;

const SUSPEND_STEP: &str = "save memory";
const BOOT_STEP: &str = "boot the guest";
const LOOK: &str = "look for saved memory";
const DISCARD: &str = "discard the saved memory";

/// Timeout of a boot and of a save: 16 GiB at the 60 MB/s of a slow disk.
pub(super) const LAUNCHER_TIMEOUT: Duration = Duration::from_secs(300);
/// Largest answer of the launcher in bytes. Only gVisor is between it and the programs of the computer.
pub(super) const MAX_ANSWER: u64 = 16 * 1024;
/// Files of saved memory besides the one that makes it whole (`runsc checkpoint`).
const MEMORY_FILES: [&str; 3] = ["checkpoint.img", "pages_meta.img", "pages.img"];

impl IncusEngine {
    /// The generation whose memory is whole on the disk of an instance that does not run.
    pub(in crate::incus) async fn saved_memory(
        &self,
        id: ComputerId,
        instance: &Instance,
    ) -> EngineResult<Option<u64>> {
        let Some(generation) = instance.saved() else { return Ok(None) };
        let found = self.client.read_file(&self.cluster.name(id), &manifest(generation)).await;
        let found = found.map_err(|error| error.at(LOOK))?;
        Ok(found.map(|_| generation))
    }

    pub(in crate::incus) async fn suspend_instance(&self, id: ComputerId) -> EngineResult<()> {
        let Some((instance, _)) = self.find_made(id, SUSPEND_STEP).await? else {
            return Err(EngineError::Absent);
        };
        if instance.isolation() != Isolation::Sandbox {
            return Err(EngineError::Unsupported("save memory"));
        }
        match instance.power() {
            Power::Running => {
                let generation = instance.generation().ok_or_else(|| {
                    EngineError::failed(SUSPEND_STEP, "no controller of hotdesk has started the instance")
                })?;
                // Before the memory: the instance ends with it.
                let label = json!({ "config": { SAVED: generation.to_string() } });
                let labelled = self.client.patch(&self.cluster.path(id), &label, None).await;
                labelled.map_err(|error| error.at(SUSPEND_STEP))?;
                let asked = self.ask_launcher(id, SUSPEND, generation, SUSPEND_STEP).await;
                if let Err(error) = asked {
                    return self.check_suspended(id, error).await;
                }
                self.stop_instance(id, Duration::ZERO).await
            }
            Power::Stopped => match self.saved_memory(id, &instance).await? {
                Some(_) => self.links.close(id),
                None => Err(EngineError::failed(SUSPEND_STEP, "the machine does not run")),
            },
            Power::Unknown => Err(EngineError::failed(
                SUSPEND_STEP,
                format!("its member {:?} does not answer", instance.location),
            )),
        }
    }

    /// Whether a machine is suspended though its launcher gave no answer; `error` unless it is.
    async fn check_suspended(&self, id: ComputerId, error: EngineError) -> EngineResult<()> {
        let Some((instance, _)) = self.find_settled(id, SUSPEND_STEP).await? else { return Err(error) };
        if instance.power() == Power::Stopped && self.saved_memory(id, &instance).await?.is_some() {
            return self.stop_instance(id, Duration::ZERO).await;
        }
        Err(error)
    }

    /// Waits until the guest of an instance that was started runs. Ends the instance when that fails.
    ///
    /// # Errors
    /// `Damaged` when the saved memory is not whole; `Failed`.
    pub(in crate::incus) async fn await_boot(&self, id: ComputerId, generation: u64) -> EngineResult<()> {
        let Err(error) = self.ask_launcher(id, READY, generation, BOOT_STEP).await else { return Ok(()) };
        // The launcher ends when the boot fails, and leaves the reason.
        self.end_failed(id).await;
        let text = self.client.read_file(&self.cluster.name(id), FAILURE_FILE).await.ok().flatten();
        let failure = text.and_then(|text| serde_json::from_slice::<BootFailure>(&text).ok());
        match failure.filter(|failure| failure.generation == generation) {
            Some(failure) => Err(failure.into_error(BOOT_STEP)),
            None => Err(error),
        }
    }

    /// Removes the label of memory that was used.
    pub(in crate::incus) async fn forget_memory(&self, id: ComputerId) {
        let label = json!({ "config": { SAVED: "" } });
        if let Err(error) = self.client.patch(&self.cluster.path(id), &label, None).await {
            // It says nothing without the file.
            tracing::warn!(computer = %id, %error, "could not remove the label of used memory");
        }
    }

    /// Drops the memory of a suspended machine.
    pub(in crate::incus) async fn discard_saved(&self, id: ComputerId) -> EngineResult<()> {
        let Some((instance, _)) = self.find(id, DISCARD).await? else { return Ok(()) };
        let Some(generation) = instance.saved() else { return Ok(()) };
        match instance.power() {
            Power::Stopped => {}
            Power::Running => return Ok(()),
            Power::Unknown => {
                let detail = format!("its member {:?} does not answer", instance.location);
                return Err(EngineError::failed(DISCARD, detail));
            }
        }
        let label = json!({ "config": { SAVED: "" } });
        let labelled = self.client.patch(&self.cluster.path(id), &label, None).await;
        labelled.map_err(|error| error.at(DISCARD))?;
        let memory = folder().memory();
        let files = MEMORY_FILES.map(|name| memory.join(name).display().to_string());
        for file in std::iter::once(manifest(generation)).chain(files) {
            if let Err(error) = self.client.remove_file(&self.cluster.name(id), &file).await {
                tracing::warn!(computer = %id, %error, %file, "could not remove saved memory; the next start does");
            }
        }
        Ok(())
    }

    /// Sends a request to the launcher of an instance. Sends it once more when nothing was answered: on a busy member Incus may
    /// end the program before it has begun. A save whose client has gone is undone, and a whole one ends the instance, so a second
    /// request never meets the result of the first.
    async fn ask_launcher(
        &self,
        id: ComputerId,
        verb: &str,
        generation: u64,
        step: &'static str,
    ) -> EngineResult<()> {
        let mut text = self.send_to_launcher(id, verb, generation, step).await?;
        if text.is_empty() {
            text = self.send_to_launcher(id, verb, generation, step).await?;
        }
        read_answer(&text, step)
    }

    async fn send_to_launcher(
        &self,
        id: ComputerId,
        verb: &str,
        generation: u64,
        step: &'static str,
    ) -> EngineResult<Vec<u8>> {
        let generation = generation.to_string();
        let command = [LAUNCHER, "launcher", verb, "--generation", generation.as_str()];
        let name = self.cluster.name(id);
        let asked = tokio::time::timeout(LAUNCHER_TIMEOUT, async {
            let stream = self.client.exec(&name, &command).await.map_err(|error| error.at(step))?;
            let mut text = Vec::new();
            // Its drop would end the request.
            let mut answer = stream.take(MAX_ANSWER);
            answer.read_to_end(&mut text).await.map_err(|error| EngineError::failed(step, error))?;
            Ok::<_, EngineError>(text)
        });
        let late = || EngineError::failed(step, format!("no answer within {} s", LAUNCHER_TIMEOUT.as_secs()));
        asked.await.map_err(|_| late())?
    }
}

/// The outcome in an answer of the launcher.
pub(super) fn read_answer(text: &[u8], step: &'static str) -> EngineResult<()> {
    let answer: Answer = serde_json::from_slice(text)
        .map_err(|_| EngineError::failed(step, "the launcher ended without an answer"))?;
    answer.failure.map_or(Ok(()), |why| Err(EngineError::failed(step, why)))
}

/// The file that makes the memory of a generation whole.
fn manifest(generation: u64) -> String {
    folder().memory().join(format!("{generation}.json")).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_whole_by_a_file_of_its_generation() {
        assert_eq!(manifest(7), "/hotdesk/machine/memory/7.json");
    }
}
