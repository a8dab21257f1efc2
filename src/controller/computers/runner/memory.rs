//! How does a runner suspend a computer, and wake it? What failed is asked of the engine, and a computer that woke is
//! reachable only once its agent has taken the new token (threats.md T18, T21).

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Runner, WithoutMemory, boot, machine, refused};
use hotdesk_base::clock::now_ms;
use hotdesk_base::hex::hex;
use hotdesk_base::wait;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::lifecycle::Status;
use hotdesk_engine::{Endpoint, EngineError, Observation};
use hotdesk_guest::{Guest, refuses};
use hotdesk_store::computers::Computer;
use hotdesk_wire::agent::{Renewal, Renewed};

/// How long an agent may take to answer after its machine goes on: seconds when memory is read back page by page; "about
/// a minute" is what interface.md gives the whole wake.
const WAKE_TIMEOUT: Duration = Duration::from_secs(45);
/// How long an agent may refuse its new token. One that does not answer at all has [`WAKE_TIMEOUT`]: its host may be busy.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);
/// When a wake that failed may be tried again, in seconds: what a host lacked may be there then.
const WAKE_RETRY_SECONDS: u32 = 30;

/// Longest part of an agent's reason that is logged, in characters; an honest one is a sentence.
const MAX_REASON: usize = 200;

/// Which token an agent takes.
enum Knows {
    Saved,
    New,
}

impl Runner {
    /// Saves memory and ends the machine. When that fails the computer is what the engine sees: it runs on, as a rule.
    pub(super) async fn suspend(&mut self, row: &Computer) -> Result<()> {
        let Err(error) = self.shared.engine.suspend(self.id).await else {
            return self.fall_asleep(row).await.map(drop);
        };
        // As it is now stored: on its way to sleep, so that a sleep whose end failed is carried to its end.
        let status = self.adopt(&self.row().await?).await?;
        if matches!(status, Status::Suspended | Status::Suspending) {
            // Only the answer was lost.
            return Ok(());
        }
        if status != Status::Running {
            let text = format!("Computer can't be suspended right now (status: {})", status.name());
            return Err(Error::conflict(text).context(error));
        }
        if matches!(error, EngineError::Unsupported(_)) {
            return Err(suspend_unsupported().context(error));
        }
        let mut failed = Error::internal(error);
        "Computer could not be suspended".clone_into(&mut failed.message);
        Err(failed)
    }

    /// Goes on from saved memory, for the boot that is stored.
    pub(in super::super) async fn wake(&mut self, without_memory: WithoutMemory) -> Result<()> {
        let row = self.row().await?;
        if let Err(error) = self.bring_home(true).await {
            self.sleep_on().await?;
            return Err(not_woken(&error));
        }
        let shared = Arc::clone(&self.shared);
        let turn = shared.starts.acquire().await.map_err(Error::internal)?;
        let endpoint = match shared.engine.resume(&machine(&row), &boot(&row)).await {
            Ok(endpoint) => endpoint,
            Err(error) => match shared.engine.observe(self.id).await {
                // Only the answer was lost.
                Ok(Observation::Running { generation, endpoint, .. }) if generation == row.generation => {
                    endpoint
                }
                // Nothing else is: it can be tried again.
                Ok(Observation::Suspended { .. }) | Err(_) => {
                    if row.converging {
                        self.sleep_on().await?
                    } else {
                        self.rest(Status::Suspended).await?
                    }
                    return Err(not_woken(&error));
                }
                Ok(Observation::Running { .. } | Observation::Stopped | Observation::Absent) => {
                    drop(turn);
                    return match without_memory {
                        WithoutMemory::Boot => self.restart_boot("Computer could not be started").await,
                        WithoutMemory::Refuse => {
                            self.halt().await?;
                            Err(memory_is_lost().context(error))
                        }
                    };
                }
            },
        };
        let guest = self.identify(&row, endpoint).await?;
        drop(turn);
        let address = self.address().await;
        self.go_live(&row, guest, address).await
    }

    /// Has its disk on the host before it gives up its memory. Where that cannot be fetched it sleeps on.
    pub(super) async fn disk_home(&mut self) -> Result<()> {
        // Where the engine cannot tell, its verbs refuse what is away.
        if !self.is_in_storage().await.unwrap_or(false) {
            return Ok(());
        }
        let Err(error) = self.bring_home(false).await else { return Ok(()) };
        self.sleep_on().await?;
        Err(not_woken(&error))
    }

    /// Has the agent of a computer that goes on take the row's token. One that does not is stopped: nothing may be reached
    /// by a token that was saved.
    pub(super) async fn identify(&mut self, row: &Computer, endpoint: Endpoint) -> Result<Guest> {
        let error = match self.renewed(row, endpoint).await {
            Ok(guest) => return Ok(guest),
            Err(error) => error,
        };
        // Nobody has reached it since it woke, and it holds up those who start.
        if let Err(again) = self.shared.engine.stop(self.id, Duration::ZERO).await {
            tracing::error!(computer = %self.id, error = %again, "clean-up after a failed renewal failed");
        }
        self.rest(Status::Error).await?;
        let text = "Computer woke and could not be given a new identity";
        Err(Error::unavailable(text).code("wake_failed").context(error))
    }

    pub(in super::super) async fn renewed(&self, row: &Computer, endpoint: Endpoint) -> Result<Guest> {
        tokio::select! {
            renewed = renew(row, endpoint) => renewed,
            _ = self.shared.engine.stopped(self.id) => Err(Error::internal("the machine ended while it woke")),
        }
    }
}

async fn renew(row: &Computer, endpoint: Endpoint) -> Result<Guest> {
    let new = Guest::new(endpoint.clone(), &row.agent_token)?;
    let saved = Guest::new(endpoint, row.saved_token.as_ref().unwrap_or(&row.agent_token))?;
    let knows = wait::until(WAKE_TIMEOUT, || async {
        match saved.health().await {
            Ok(_) => Some(Knows::Saved),
            Err(_) => new.health().await.ok().map(|_| Knows::New),
        }
    });
    match knows.await {
        None => return Err(Error::internal("the agent did not answer in time")),
        // It was renewed before; the answer or the controller was lost.
        Some(Knows::New) => return Ok(new),
        Some(Knows::Saved) => {}
    }
    match saved.renew(&renewal(row)).await {
        Ok(renewed) => {
            tell_what_failed(row, &renewed);
            if !renewed.renewed.iter().any(|part| part == "token") {
                return Err(Error::internal("the agent keeps the token that was saved"));
            }
        }
        Err(error) => tracing::warn!(computer = %row.id, %error, "a renewal was not answered well"),
    }
    let renewed = Instant::now();
    let answers = wait::until(WAKE_TIMEOUT, || async {
        match new.health().await {
            Ok(_) => Some(true),
            Err(error) => (refuses(&error) && renewed.elapsed() >= TOKEN_TIMEOUT).then_some(false),
        }
    });
    match answers.await {
        Some(true) => Ok(new),
        Some(false) => Err(Error::internal("the agent does not take its new token")),
        None => Err(Error::internal("the agent does not answer to its new token")),
    }
}

pub(super) fn renewal(row: &Computer) -> Renewal {
    let seed: [u8; 32] = rand::random();
    Renewal {
        agent_token: row.agent_token.reveal().to_owned(),
        unix_ms: now_ms(),
        seed: hex(&seed),
        hostname: row.id.hostname(),
        // One that is being made has another's memory.
        another: row.status == Status::Creating,
    }
}

/// Logs what of an identity is not new: an agent's words, so bounded.
pub(super) fn tell_what_failed(row: &Computer, renewed: &Renewed) {
    if let Some(first) = renewed.failed.first() {
        let first: String = first.chars().take(MAX_REASON).collect();
        tracing::warn!(computer = %row.id, first, "not all of an identity was renewed");
    }
}

/// The engine, or this machine as it is set up, keeps no memory (interface.md, errors of suspend).
pub(in super::super) fn suspend_unsupported() -> Error {
    Error::invalid("This computer cannot be suspended").code("suspend_unsupported")
}

/// Why a computer sleeps on that was to wake (codes: wire.md 2).
fn not_woken(error: &EngineError) -> Error {
    match error {
        EngineError::Damaged(_) => memory_is_lost().context(error),
        EngineError::NoCapacity(_) => refused("Computer could not be woken", error),
        EngineError::Absent | EngineError::Unsupported(_) | EngineError::Failed { .. } => {
            Error::unavailable("Computer could not be woken")
                .code("wake_failed")
                .retry_after(WAKE_RETRY_SECONDS)
                .context(error)
        }
    }
}

fn memory_is_lost() -> Error {
    let text =
        "The computer's saved memory is damaged or missing; stop it and start it to boot from its disk";
    Error::unavailable(text).code("saved_state_unavailable")
}
