//! How is a computer reached by whoever acts on it, or looks at it? One that is on its way up is waited for, and one that sleeps
//! is woken where that is wanted.

use std::time::Duration;

use super::fleet::{Fleet, stopping};
use super::runner::{Work, gone};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::lifecycle::{self, Command, Status};
use hotdesk_guest::Guest;
use hotdesk_store::computers::Computer;

/// How long an action waits for a computer that is on its way up: clients act right after create or start without
/// polling (wire.md 16 A), and a boot takes seconds.
pub(super) const ACT_TIMEOUT: Duration = Duration::from_secs(45);
/// When a client may ask again for a computer that is waking, in seconds.
const WAKE_RETRY_SECONDS: u32 = 5;

impl Fleet {
    /// The guest of a computer that is acted on: one that sleeps is woken first (wire.md 5.2, "Auto-resume").
    ///
    /// # Errors
    /// As [`Fleet::guest_awake`]; why it could not be woken; `resuming` when that is not done in the time that is configured.
    pub async fn guest(&self, computer: &Computer) -> Result<Guest> {
        let asleep = |status: Status| matches!(status, Status::Suspending | Status::Suspended);
        let now = self.presence(computer.id).and_then(|presence| presence.borrow().status);
        let sleeps = asleep(now.unwrap_or(computer.status));
        // A row with a saved token is of one that wakes for somebody else.
        if !sleeps && !asleep(computer.status) && computer.saved_token.is_none() {
            return self.guest_awake(computer).await;
        }
        // Also where nobody waits for the wake: it must not fall asleep again before it is asked anew.
        self.note_action(computer.id);
        let deadline = tokio::time::Instant::now() + self.shared.wake_wait;
        if sleeps {
            let (accepted, woken) = self.send(computer.id, Work::Command(Command::Act))?;
            // Why it may not wake is told however little is waited for the wake; its runner may be at a suspend still.
            let accepted = tokio::time::timeout(ACT_TIMEOUT, accepted).await.map_err(|_| resuming())?;
            accepted.map_err(|_| stopping())??;
            let woken = tokio::time::timeout_at(deadline, woken).await.map_err(|_| resuming())?;
            woken.map_err(|_| stopping())??;
        }
        // As it is by now: it was read before somebody woke it.
        let row = self.row(computer.id).await?;
        let arrived = tokio::time::timeout_at(deadline, self.guest_awake(&row)).await;
        arrived.unwrap_or_else(|_| Err(resuming()))
    }

    /// The guest of a computer that is read from: whether that wakes it is a matter of the configuration.
    ///
    /// # Errors
    /// As [`Fleet::guest`] or [`Fleet::guest_awake`].
    pub async fn guest_to_read(&self, computer: &Computer) -> Result<Guest> {
        if self.shared.reads_wake { self.guest(computer).await } else { self.guest_awake(computer).await }
    }

    /// The guest of a computer that runs, or that is on its way up and gets there in time; one that sleeps is let sleep.
    ///
    /// # Errors
    /// `Conflict` with the status when it does not run, with `computer_asleep` when it sleeps.
    pub async fn guest_awake(&self, computer: &Computer) -> Result<Guest> {
        self.note_action(computer.id);
        let on_its_way = [Status::Creating, Status::Starting, Status::Restarting, Status::Running];
        if !on_its_way.contains(&computer.status) {
            lifecycle::decide(computer.status, Command::Look)?;
        }
        let Some(mut presence) = self.presence(computer.id) else {
            return Err(Error::unavailable("The computer is being adopted; retry in a moment").retry_after(1));
        };
        let arrived = presence
            .wait_for(|now| now.guest.is_some() || now.status.is_some_and(|s| !on_its_way.contains(&s)));
        let now = match tokio::time::timeout(ACT_TIMEOUT, arrived).await {
            Ok(Ok(now)) => now.clone(),
            Ok(Err(_)) => return Err(gone()),
            Err(_) => {
                lifecycle::decide(computer.status, Command::Look)?;
                return Err(Error::unavailable("The computer is not ready; retry in a moment").retry_after(5));
            }
        };
        match (now.guest, now.status) {
            (Some(guest), _) => Ok(guest),
            (None, status) => {
                lifecycle::decide(status.unwrap_or(computer.status), Command::Look)?;
                Err(Error::unavailable("The computer is not ready; retry in a moment").retry_after(1))
            }
        }
    }
}

/// The computer wakes; whoever acts on it does not wait any longer (codes: wire.md 2).
fn resuming() -> Error {
    Error::unavailable("Computer is waking up; retry in a moment")
        .code("resuming")
        .retry_after(WAKE_RETRY_SECONDS)
}
