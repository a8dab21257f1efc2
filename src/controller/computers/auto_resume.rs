//! Automatic resume: waits for a computer that starts, and wakes one that is asleep.

use super::fleet::{ACT_TIMEOUT, Fleet};
use super::runner::registry::stopping;
use super::runner::{Work, computer_not_found};
use hotdesk_domain::computer::lifecycle::{self, Command, Status};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::host::migration::migrating;
use hotdesk_domain::host::outage::unreachable;
use hotdesk_guest::Guest;
use hotdesk_store::fleet::computers::Computer;

tokio::task_local! {
    /// Set in a request that only looks.
    static LOOKING: ();
}

/// Runs a read that does not count as use of a computer: it wakes none, and holds no auto-stop off.
pub async fn only_looking<F: Future>(read: F) -> F::Output {
    LOOKING.scope((), read).await
}

/// Seconds after which a client may retry on a computer that wakes.
const WAKE_RETRY_SECONDS: u32 = 5;

/// Seconds after which a client may retry on a frozen computer: somebody must free space first.
const NO_SPACE_RETRY_SECONDS: u32 = 30;

impl Fleet {
    /// Returns the guest for an action. A suspended computer is resumed first, and one that auto-stop stopped
    /// is started (docs/lifecycle.md).
    ///
    /// # Errors
    /// The errors of [`Fleet::guest_awake`]; why it could not be woken; `Unavailable` (`resuming`) when that
    /// takes longer than configured.
    pub async fn guest(&self, computer: &Computer) -> Result<Guest> {
        let stored = (computer.status, computer.status_reason);
        let now = self.shared.presence(computer.id).map(|presence| presence.borrow().clone());
        let now = now.and_then(|now| now.status.map(|status| (status, now.because))).unwrap_or(stored);
        let [asleep, was_asleep] = [now, stored].map(|(status, reason)| lifecycle::is_asleep(status, reason));
        // A row with a saved token belongs to a computer that another request wakes.
        if !asleep && !was_asleep && computer.saved_token.is_none() {
            return self.guest_awake(computer).await;
        }
        // Recorded even if the wait is short, so that auto-stop does not suspend it before the client
        // retries.
        self.shared.note_action(computer.id);
        let deadline = tokio::time::Instant::now() + self.wake_wait;
        if asleep {
            let (accepted, woken) = self.shared.send(computer.id, Work::Command(Command::Act))?;
            // A refusal is reported however short the wait is. The runner may still be busy with a suspend.
            let accepted = tokio::time::timeout(ACT_TIMEOUT, accepted).await.map_err(|_| resuming())?;
            accepted.map_err(|_| stopping())??;
            let woken = tokio::time::timeout_at(deadline, woken).await.map_err(|_| resuming())?;
            woken.map_err(|_| stopping())??;
        }
        // Read again, because the row is older than the wake.
        let row = self.row(computer.id).await?;
        let guest = tokio::time::timeout_at(deadline, self.guest_awake(&row)).await;
        guest.unwrap_or_else(|_| Err(resuming()))
    }

    /// Returns the guest for a read. The configuration decides whether a read wakes the computer; one within
    /// [`only_looking`] never does.
    ///
    /// # Errors
    /// The errors of [`Fleet::guest`] or [`Fleet::guest_awake`].
    pub async fn guest_to_read(&self, computer: &Computer) -> Result<Guest> {
        if LOOKING.try_with(|()| ()).is_ok() {
            return self.guest_if_awake(computer).await;
        }
        if self.reads_wake { self.guest(computer).await } else { self.guest_awake(computer).await }
    }

    /// Returns the guest of a computer that runs or will run soon. One that is asleep is not woken.
    ///
    /// # Errors
    /// `Conflict` with the status when it does not run (`computer_asleep` when it is asleep); `Unavailable`
    /// when it is not ready in time, or is frozen (`no_capacity`).
    pub async fn guest_awake(&self, computer: &Computer) -> Result<Guest> {
        self.shared.note_action(computer.id);
        self.guest_if_awake(computer).await
    }

    /// The same for a request that does not count as an action on the computer: one of somebody without
    /// access, because strangers do not keep it from its auto-stop, and one that only looks.
    ///
    /// # Errors
    /// Those of [`Fleet::guest_awake`].
    pub async fn guest_if_awake(&self, computer: &Computer) -> Result<Guest> {
        let stored = (computer.status, computer.status_reason);
        let look = |(status, reason)| lifecycle::decide(status, reason, Command::Look);
        let starting = [Status::Creating, Status::Starting, Status::Restarting, Status::Running];
        if !starting.contains(&computer.status) {
            look(stored)?;
        }
        let Some(mut presence) = self.shared.presence(computer.id) else {
            return Err(Error::unavailable("The computer is being adopted; retry in a moment").retry_after(1));
        };
        if presence.borrow().guest.is_none()
            && let Some(outage) = self.engine().host_outage(computer.id)
        {
            return Err(unreachable(
                computer.status,
                computer.status_reason,
                &outage,
                computer.replica.as_ref(),
            ));
        }
        let ready = presence.wait_for(|now| {
            now.guest.is_some() || now.is_moving || now.status.is_some_and(|s| !starting.contains(&s))
        });
        let now = match tokio::time::timeout(ACT_TIMEOUT, ready).await {
            Ok(Ok(now)) => now.clone(),
            Ok(Err(_)) => return Err(computer_not_found()),
            Err(_) => {
                look(stored)?;
                return Err(Error::unavailable("The computer is not ready; retry in a moment").retry_after(5));
            }
        };
        match (now.guest, now.status) {
            (Some(_), _) if self.engine().is_frozen(computer.id) => Err(frozen()),
            (Some(guest), _) => Ok(guest),
            (None, _) if now.is_moving => Err(migrating()),
            (None, status) => {
                look(status.map_or(stored, |status| (status, now.because)))?;
                Err(Error::unavailable("The computer is not ready; retry in a moment").retry_after(1))
            }
        }
    }
}

/// The computer is frozen because the host has too little disk space (docs/operating.md#full-disk).
fn frozen() -> Error {
    Error::unavailable("Computer is frozen until there is space: the host is short of disk space")
        .code(ErrorCode::NoCapacity)
        .retry_after(NO_SPACE_RETRY_SECONDS)
}

/// The computer is still waking when the wait of an action ends (docs/api/errors.md).
fn resuming() -> Error {
    Error::unavailable("Computer is waking up; retry in a moment")
        .code(ErrorCode::Resuming)
        .retry_after(WAKE_RETRY_SECONDS)
}
