//! Tickets: each opens one screen or one port of a computer once, for a short time, while the password and the
//! credential that created it are valid.
//!
//! Tickets are only in memory, as hashes. A restart of the controller drops them; their holders need new
//! ones.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::Method;
use sha2::{Digest, Sha256};

use crate::computers::fleet::Fleet;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::Credential;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_guest::QUICK_TIMEOUT;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::passwords::PasswordDigest;
use hotdesk_wire::computer::ticket::TicketMode;
use hotdesk_wire::desktop::action::ScreenList;

/// Default validity: time to hand a link over and open it.
pub const DEFAULT_LIFE: Duration = Duration::from_secs(60);
/// Longest validity. While valid, a ticket is as powerful as a password.
pub const MAX_LIFE: Duration = Duration::from_secs(3600);
/// Screen of a ticket that names none: the one that a computer boots with.
pub const DEFAULT_SCREEN: &str = "default";
/// Characters of a ticket: 32 of base62 are 190 random bits.
const CHARACTERS: usize = 32;
/// Unused tickets of one computer; 64 of about 150 bytes are 10 KB.
const MAX_UNUSED: usize = 64;

/// Rights that a ticket for a screen grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Mode of access.
    pub mode: TicketMode,
    /// The screen.
    pub screen: String,
    /// Credential that created it. The ticket ends with it.
    pub by: Credential,
    /// Who acts by it.
    pub actor: Actor,
}

#[derive(Debug)]
struct IssuedTicket<T> {
    ticket: T,
    /// The password that it stands for. Each boot has a new one, and a user who loses access to the computer
    /// loses both.
    pass: PasswordDigest,
    expires: Instant,
}

/// Valid unused tickets of one kind by their SHA-256.
#[derive(Debug)]
pub struct Tickets<T>(Mutex<HashMap<[u8; 32], IssuedTicket<T>>>);

impl<T> Default for Tickets<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

impl Tickets<Ticket> {
    /// Issues a ticket after a check that the computer has the screen. The computer is started if it sleeps.
    ///
    /// # Errors
    /// `NotFound` for an unknown screen; those of [`Fleet::guest`] and [`Tickets::issue`].
    pub async fn issue_for_screen(
        &self,
        fleet: &Fleet,
        computer: &Computer,
        ticket: Ticket,
        life: Duration,
    ) -> Result<Secret> {
        let guest = match ticket.mode {
            TicketMode::View => fleet.guest_to_read(computer).await?,
            TicketMode::Control => fleet.guest(computer).await?,
        };
        let seen: ScreenList = guest.call(Method::GET, "/screens", (), None::<&()>, QUICK_TIMEOUT).await?;
        if !seen.screens.iter().any(|seen| seen.id == ticket.screen) {
            return Err(Error::not_found(format!("Screen not found: {}", ticket.screen)));
        }
        self.issue(computer, ticket, life)
    }
}

impl<T: Clone> Tickets<T> {
    /// Issues a ticket for a computer with its current password.
    ///
    /// # Errors
    /// `RateLimited` when the computer has the most unused tickets.
    pub fn issue(&self, computer: &Computer, ticket: T, life: Duration) -> Result<Secret> {
        self.issue_at(computer.password_digest(), ticket, life, Instant::now())
    }

    /// Issues a ticket for a computer with its current password. When the computer has the most already, the one that would
    /// expire first makes room.
    pub fn issue_newest(&self, computer: &Computer, ticket: T, life: Duration) -> Secret {
        let (pass, now) = (computer.password_digest(), Instant::now());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, issued| issued.expires > now);
        let held = all.iter().filter(|(_, issued)| issued.pass.computer == pass.computer);
        if held.clone().count() >= MAX_UNUSED {
            let first = held.min_by_key(|(_, issued)| issued.expires).map(|(key, _)| *key);
            first.map(|key| all.remove(&key));
        }
        let text = Secret::random(CHARACTERS);
        all.insert(digest(text.reveal()), IssuedTicket { ticket, pass, expires: now + life });
        text
    }

    fn issue_at(&self, pass: PasswordDigest, ticket: T, life: Duration, now: Instant) -> Result<Secret> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, issued| issued.expires > now);
        let unused = all.values().filter(|issued| issued.pass.computer == pass.computer);
        if unused.clone().count() >= MAX_UNUSED {
            let first = unused.map(|issued| issued.expires).min().unwrap_or(now);
            let wait = u32::try_from(first.duration_since(now).as_secs()).unwrap_or(u32::MAX);
            return Err(Error::rate_limited(wait.saturating_add(1)));
        }
        let text = Secret::random(CHARACTERS);
        let issued = IssuedTicket { ticket, pass, expires: now + life };
        all.insert(digest(text.reveal()), issued);
        Ok(text)
    }

    /// Consumes a ticket. `None` when it is not valid for this computer.
    pub fn redeem(&self, computer: &Computer, shown: &str) -> Option<T> {
        self.redeem_at(computer.password_digest(), shown, Instant::now())
    }

    /// Returns what a ticket grants, without consuming it. `None` when it is not valid for this computer.
    pub fn look_up(&self, computer: &Computer, shown: &str) -> Option<T> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let issued = all.get(&digest(shown))?;
        let is_valid = issued.pass == computer.password_digest() && issued.expires > Instant::now();
        is_valid.then(|| issued.ticket.clone())
    }

    /// Returns the computer of an unused ticket.
    pub fn computer(&self, shown: &str) -> Option<ComputerId> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&digest(shown))
            .filter(|issued| issued.expires > Instant::now())
            .map(|issued| issued.pass.computer)
    }

    fn redeem_at(&self, pass: PasswordDigest, shown: &str, now: Instant) -> Option<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = digest(shown);
        // A request to the wrong computer does not consume it.
        if all.get(&key)?.pass.computer != pass.computer {
            return None;
        }
        let issued = all.remove(&key)?;
        (issued.pass == pass && issued.expires > now).then_some(issued.ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::KeyId;

    fn view() -> Ticket {
        let by = Credential::Key(KeyId::random());
        Ticket { mode: TicketMode::View, screen: "default".to_owned(), by, actor: Actor::Password }
    }

    fn some_pass() -> PasswordDigest {
        PasswordDigest::of(ComputerId::random(), &Secret::new("first"))
    }

    #[test]
    fn a_ticket_opens_its_computer_once() {
        let (tickets, now, pass, ticket) = (Tickets::default(), Instant::now(), some_pass(), view());
        let text = tickets.issue_at(pass, ticket.clone(), DEFAULT_LIFE, now).unwrap();
        assert_eq!(tickets.redeem_at(some_pass(), text.reveal(), now), None);
        assert_eq!(tickets.redeem_at(pass, "guess", now), None);
        assert_eq!(tickets.redeem_at(pass, text.reveal(), now), Some(ticket));
        assert_eq!(tickets.redeem_at(pass, text.reveal(), now), None);
    }

    #[test]
    fn a_ticket_ends_with_its_time_and_with_the_password() {
        let (tickets, now, pass) = (Tickets::default(), Instant::now(), some_pass());
        let issue = || tickets.issue_at(pass, view(), DEFAULT_LIFE, now).unwrap();
        let next = PasswordDigest::of(pass.computer, &Secret::new("second"));
        assert_eq!(tickets.redeem_at(pass, issue().reveal(), now + DEFAULT_LIFE), None);
        assert_eq!(tickets.redeem_at(next, issue().reveal(), now), None);
        assert!(tickets.0.lock().unwrap().is_empty());
    }

    #[test]
    fn unused_tickets_are_bounded_for_each_computer() {
        let (tickets, now, pass) = (Tickets::default(), Instant::now(), some_pass());
        for _ in 0..MAX_UNUSED {
            tickets.issue_at(pass, view(), DEFAULT_LIFE, now).unwrap();
        }
        let refused = tickets.issue_at(pass, view(), MAX_LIFE, now).unwrap_err();
        assert_eq!(refused.retry_after, Some(61));
        assert!(tickets.issue_at(some_pass(), view(), DEFAULT_LIFE, now).is_ok());
        assert!(tickets.issue_at(pass, view(), DEFAULT_LIFE, now + DEFAULT_LIFE).is_ok());
        assert_eq!(tickets.0.lock().unwrap().len(), 1, "nothing is kept of those that expired");
    }
}
