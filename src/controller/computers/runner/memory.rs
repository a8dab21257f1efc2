//! Suspend and resume of a computer.
//!
//! After a failure the engine's observation decides the status. A resumed computer is reachable only after
//! its agent accepted the new token, T18 and T21 (docs/security.md).

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Runner, WithoutMemory, boot_spec, machine_spec, refused};
use hotdesk_base::clock;
use hotdesk_base::hex::hex;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::secret::Secret;
use hotdesk_base::time::phase::PhaseTimer;
use hotdesk_base::wait;
use hotdesk_domain::computer::MEMORY_SETTINGS;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_engine::{Endpoint, Engine, EngineError, EngineResult, Observation};
use hotdesk_guest::{Guest, is_error_status, is_token_refused};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::agent::{Renewal, RenewalResult};

/// Time in which an agent must respond after its machine resumed. Reading memory back page by page takes
/// seconds; a whole wake may take about a minute (docs/lifecycle.md).
const WAKE_TIMEOUT: Duration = Duration::from_secs(45);
/// Time in which an agent may refuse its new token. One that does not respond has [`WAKE_TIMEOUT`], because
/// its host may be busy.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Seconds after which a failed wake may be retried; the host may have free capacity then.
const WAKE_RETRY_SECONDS: u32 = 30;

/// Characters of an agent's reason that are logged. An honest one is a sentence.
const MAX_REASON: usize = 200;

/// What came of the request for a new identity.
enum RenewalOutcome {
    /// The agent's answer, or its error.
    Answer(Result<RenewalResult>),
    /// It was renewed before, but the response or the controller was lost.
    Earlier,
}

impl Runner {
    /// Suspends the computer. After a failure its status is what the engine observes, usually `running`.
    pub(super) async fn suspend(&mut self, row: &Computer) -> Result<()> {
        let Err(error) = self.shared.engine.suspend(self.id).await else {
            return self.finish_suspend(row).await.map(drop);
        };
        // Reads the row again: its status is `suspending`, so that a partly failed suspend is completed.
        let status = self.adopt(&self.row().await?).await?;
        if matches!(status, Status::Suspended | Status::Suspending) {
            // Only the response was lost.
            return Ok(());
        }
        if status != Status::Running {
            let text = format!("Computer can't be suspended right now (status: {})", status.name());
            return Err(Error::conflict(text).context(error));
        }
        if matches!(error, EngineError::Unsupported(_)) {
            return Err(suspend_unsupported().context(error));
        }
        Err(refused("Computer could not be suspended", &error))
    }

    /// Resumes from saved memory, for the boot that is stored.
    pub(in super::super) async fn wake(&mut self, without_memory: WithoutMemory) -> Result<()> {
        let row = self.row().await?;
        let phase = PhaseTimer::begin(self.id, "fetch");
        let fetched = self.fetch_state(true).await;
        drop(phase);
        if let Err(error) = fetched {
            self.stay_suspended().await?;
            return Err(wake_error(&error));
        }
        let shared = Arc::clone(&self.shared);
        let turn = shared.starts.acquire().await.map_err(Error::internal)?;
        let endpoint = match shared.engine.resume(&machine_spec(&row), &boot_spec(&row)).await {
            Ok(endpoint) => endpoint,
            Err(error) => match self.observe_after_failed_wake().await {
                // Only the response was lost.
                Ok(Observation::Running { generation, endpoint, .. }) if generation == row.generation => {
                    endpoint
                }
                // The memory is still there, so it can be tried again.
                Ok(Observation::Suspended { .. }) | Err(_) => {
                    if row.converging {
                        self.stay_suspended().await?
                    } else {
                        self.settle_as(Status::Suspended).await?
                    }
                    return Err(wake_error(&error));
                }
                Ok(Observation::Running { .. } | Observation::Stopped | Observation::Absent) => {
                    drop(turn);
                    return match without_memory {
                        WithoutMemory::Boot => self.restart_boot("Computer could not be started").await,
                        WithoutMemory::Refuse => {
                            self.halt().await?;
                            Err(lost_memory().context(error))
                        }
                    };
                }
            },
        };
        let guest = self.renew_identity(&row, endpoint).await?;
        drop(turn);
        let address = self.address().await;
        self.tell_template_of_wake(&row, &guest);
        self.publish_resumed(&row, guest, address).await
    }

    /// Observes the machine after a failed resume. If its host does not answer, the machine may run: it is adopted when the
    /// host answers.
    async fn observe_after_failed_wake(&mut self) -> EngineResult<Observation> {
        let observed = self.shared.engine.observe(self.id).await;
        if observed.is_err() {
            // The last look may be older than the outage of its host.
            self.shared.engine.watch_hosts().await;
            self.notes_outage();
        }
        observed
    }

    /// Fetches the disk to this host before the memory is discarded. If that fails the computer stays
    /// suspended.
    pub(super) async fn fetch_disk(&mut self) -> Result<()> {
        // If the engine cannot tell, its operations refuse an evicted disk.
        if !self.is_in_storage().await.unwrap_or(false) {
            return Ok(());
        }
        let Err(error) = self.fetch_state(false).await else { return Ok(()) };
        self.stay_suspended().await?;
        Err(wake_error(&error))
    }

    /// Gives the row's token to the agent of a resumed computer. If that fails the machine is stopped,
    /// because the saved token must not grant access.
    pub(super) async fn renew_identity(&mut self, row: &Computer, endpoint: Endpoint) -> Result<Guest> {
        let identity = NewIdentity::of(row, false);
        let error = match identity.give(&*self.shared.engine, endpoint).await {
            Ok(guest) => return Ok(guest),
            Err(error) => error,
        };
        // Nobody used it since it resumed, and it occupies one of the start permits.
        if let Err(again) = self.shared.engine.stop(self.id, Duration::ZERO).await {
            tracing::error!(
                computer = %self.id,
                error = format_args!("{again:#}"),
                "could not stop a machine that did not accept its new identity"
            );
        }
        self.settle_as(Status::Error).await?;
        let text = "Computer was resumed but did not accept its new identity; start it again";
        Err(Error::unavailable(text).code(ErrorCode::WakeFailed).context(error))
    }
}

/// A new identity for the agent of a machine that continues from memory, or that another one booted.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct NewIdentity<'a> {
    /// The machine.
    pub(in super::super) machine: ComputerId,
    /// The token that the agent has.
    pub(in super::super) saved_token: &'a Secret,
    /// Its new token.
    pub(in super::super) token: &'a Secret,
    /// Whether the memory is of a machine with another identity.
    pub(in super::super) another: bool,
}

impl<'a> NewIdentity<'a> {
    /// Returns that of a computer.
    pub(in super::super) fn of(row: &'a Computer, another: bool) -> Self {
        let token = &row.agent_token;
        Self { machine: row.id, saved_token: row.saved_token.as_ref().unwrap_or(token), token, another }
    }

    /// Gives it to the agent, and waits until that has accepted it. After an error the caller must end the
    /// machine.
    pub(in super::super) async fn give(self, engine: &dyn Engine, endpoint: Endpoint) -> Result<Guest> {
        tokio::select! {
            renewed = renew(self, endpoint) => renewed,
            _ = engine.wait_stopped(self.machine) => Err(Error::internal("the machine ended while it resumed")),
        }
    }

    /// The request to the agent.
    pub(super) fn renewal(self) -> Renewal {
        let seed: [u8; 32] = rand::random();
        Renewal {
            agent_token: self.token.reveal().to_owned(),
            unix_ms: clock::now().as_i64(),
            seed: hex(&seed),
            hostname: self.machine.hostname(),
            another: self.another,
        }
    }
}

async fn renew(identity: NewIdentity<'_>, endpoint: Endpoint) -> Result<Guest> {
    let new = Guest::new(endpoint.clone(), identity.token)?;
    let saved = Guest::new(endpoint, identity.saved_token)?;
    let phase = PhaseTimer::begin(identity.machine, "agent");
    // The renewal is the first request, because each one costs gVisor some milliseconds. A repeated one is
    // refused or changes nothing.
    let outcome = wait::until(WAKE_TIMEOUT, || async {
        match saved.renew(&identity.renewal()).await {
            Err(error) if is_token_refused(&error) => {
                new.health().await.ok().map(|_| RenewalOutcome::Earlier)
            }
            Err(error) if !is_error_status(&error) => None,
            answer => Some(RenewalOutcome::Answer(answer)),
        }
    });
    let outcome = outcome.await;
    drop(phase);
    let answer = match outcome {
        None => return Err(Error::internal("the agent did not answer in time")),
        Some(RenewalOutcome::Earlier) => return Ok(new),
        Some(RenewalOutcome::Answer(answer)) => answer,
    };
    let _phase = PhaseTimer::begin(identity.machine, "identity");
    match answer {
        Ok(renewed) => {
            log_renewal_failures(identity.machine, &renewed);
            if !renewed.renewed.iter().any(|part| part == "token") {
                return Err(Error::internal("the agent still uses its saved token"));
            }
        }
        Err(error) => tracing::warn!(
            computer = %identity.machine,
            error = format_args!("{error:#}"),
            "the agent's response to a renewal was an error"
        ),
    }
    let renewed = Instant::now();
    let answers = wait::until(WAKE_TIMEOUT, || async {
        match new.health().await {
            Ok(_) => Some(true),
            Err(error) => (is_token_refused(&error) && renewed.elapsed() >= TOKEN_TIMEOUT).then_some(false),
        }
    });
    match answers.await {
        Some(true) => Ok(new),
        Some(false) => Err(Error::internal("the agent refuses its new token")),
        None => Err(Error::internal("the agent does not respond to its new token")),
    }
}

/// Logs which parts of an identity were not renewed. The text comes from the agent, so it is truncated.
pub(super) fn log_renewal_failures(machine: ComputerId, renewed: &RenewalResult) {
    if let Some(first) = renewed.failed.first() {
        let first: String = first.chars().take(MAX_REASON).collect();
        tracing::warn!(computer = %machine, first, "the agent could not renew all parts of its identity");
    }
}

/// The engine, or this machine's setup, cannot save memory (docs/lifecycle.md#suspend).
pub(in super::super) fn suspend_unsupported() -> Error {
    Error::invalid(format!(
        "This computer cannot be suspended: its engine saves no memory. {MEMORY_SETTINGS}"
    ))
    .code(ErrorCode::SuspendUnsupported)
}

/// Error of a computer that could not be resumed (docs/api/errors.md).
fn wake_error(error: &EngineError) -> Error {
    match error {
        EngineError::Damaged(_) => lost_memory().context(error),
        EngineError::NoCapacity(..) => refused("Computer could not be woken", error),
        EngineError::Absent
        | EngineError::MemoryInUse { .. }
        | EngineError::Unsupported(_)
        | EngineError::Failed { .. } => Error::unavailable("Computer could not be woken")
            .code(ErrorCode::WakeFailed)
            .retry_after(WAKE_RETRY_SECONDS)
            .context(error),
    }
}

fn lost_memory() -> Error {
    let text =
        "The computer's saved memory is damaged or missing; stop it and start it to boot from its disk";
    Error::unavailable(text).code(ErrorCode::SavedStateUnavailable)
}
