//! Checkpoint of an instance with gVisor, from the controller: its guest stands still while the instance is copied.
//!
//! ```text
//!   controller                           Incus              launcher
//!      |-- checkpoint of generation 7 ----- exec -------------> | saves the memory; the guest stands still
//!      |<------------------------------------------- answer --- |
//!      |-- copy or snapshot -------------> |                    |
//!      |-- hold, every 5 s ---------------- exec -------------> |
//!      |<------------------ done --------- |                    |
//!      |-- continue ----------------------- exec -------------> | drops the memory; the guest goes on
//!      |<------------------------------------------- answer --- |
//! ```
//! The second answer says that the guest stood still all the time. Without it, the copy has memory and disk of different moments.

use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines, ReadHalf, Take, WriteHalf};

use super::control::{CHECKPOINT, CONTINUE, HOLD};
use super::memory::{LAUNCHER_TIMEOUT, MAX_ANSWER, read_answer};
use crate::incus::IncusEngine;
use crate::incus::client::ExecStream;
use crate::incus::documents::LAUNCHER;
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

/// Time between two lines to a launcher that holds its guest. It waits a minute for one.
const HOLD_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout of one line.
const LINE_TIMEOUT: Duration = Duration::from_secs(10);

/// A guest that stands still, with its memory on the disk of its instance. It goes on when this is dropped.
pub(in crate::incus) struct PausedGuest {
    answers: Lines<BufReader<Take<ReadHalf<ExecStream>>>>,
    requests: WriteHalf<ExecStream>,
    step: &'static str,
}

impl IncusEngine {
    /// Saves the memory of a guest that runs this generation, and keeps it still.
    ///
    /// # Errors
    /// `Failed`: the guest goes on.
    pub(in crate::incus) async fn pause_guest(
        &self,
        id: ComputerId,
        generation: u64,
        step: &'static str,
    ) -> EngineResult<PausedGuest> {
        let mut guest = self.begin_checkpoint(id, generation, step).await?;
        let mut line = guest.next_line().await?;
        if line.is_none() {
            // Repeated as by `ask_launcher`.
            guest = self.begin_checkpoint(id, generation, step).await?;
            line = guest.next_line().await?;
        }
        read_answer(line.as_deref().unwrap_or_default().as_bytes(), step)?;
        Ok(guest)
    }

    async fn begin_checkpoint(
        &self,
        id: ComputerId,
        generation: u64,
        step: &'static str,
    ) -> EngineResult<PausedGuest> {
        let generation = generation.to_string();
        let command = [LAUNCHER, "launcher", CHECKPOINT, "--generation", generation.as_str()];
        let stream = self.client.exec(&self.cluster.name(id), &command).await;
        let (answers, requests) = tokio::io::split(stream.map_err(|error| error.at(step))?);
        let answers = BufReader::new(answers.take(MAX_ANSWER)).lines();
        Ok(PausedGuest { answers, requests, step })
    }
}

impl PausedGuest {
    /// Does `copy` while the guest stands still, and then lets it go on.
    ///
    /// # Errors
    /// Those of `copy`; `Failed` when the guest may have gone on before the end of `copy`.
    pub(in crate::incus) async fn during<T>(
        mut self,
        copy: impl Future<Output = EngineResult<T>>,
    ) -> EngineResult<T> {
        let mut copy = pin!(copy);
        let mut ticks = tokio::time::interval(HOLD_INTERVAL);
        let mut held: EngineResult<()> = Ok(());
        let copied = loop {
            tokio::select! {
                copied = &mut copy => break copied,
                // What Incus has begun is awaited all the same: the caller removes it.
                _ = ticks.tick(), if held.is_ok() => held = self.send(HOLD).await,
                // The launcher says nothing before it is asked to continue, except that it failed.
                ended = self.receive(), if held.is_ok() => {
                    let early = || EngineError::failed(self.step, "the guest went on too early");
                    held = ended.and_then(|()| Err(early()));
                }
            }
        };
        if held.is_ok() {
            held = self.release().await;
        }
        copied.and_then(|made| held.map(|()| made))
    }

    async fn release(&mut self) -> EngineResult<()> {
        self.send(CONTINUE).await?;
        self.receive().await
    }

    async fn send(&mut self, line: &str) -> EngineResult<()> {
        let (text, step) = (format!("{line}\n"), self.step);
        let sent = tokio::time::timeout(LINE_TIMEOUT, async {
            self.requests.write_all(text.as_bytes()).await?;
            self.requests.flush().await
        });
        let late = |_| EngineError::failed(step, "the launcher takes no line");
        sent.await.map_err(late)?.map_err(|error| EngineError::failed(step, error))
    }

    /// Waits for an answer of the launcher.
    async fn receive(&mut self) -> EngineResult<()> {
        let line = self.next_line().await?;
        read_answer(line.as_deref().unwrap_or_default().as_bytes(), self.step)
    }

    /// The next line of the launcher; `None` when it has ended.
    async fn next_line(&mut self) -> EngineResult<Option<String>> {
        let step = self.step;
        let late =
            |_| EngineError::failed(step, format!("no answer within {} s", LAUNCHER_TIMEOUT.as_secs()));
        let line = tokio::time::timeout(LAUNCHER_TIMEOUT, self.answers.next_line()).await.map_err(late)?;
        line.map_err(|error| EngineError::failed(step, error))
    }
}
