//! Who may open a screen without the password? Whoever shows a ticket: for one screen, once, soon, and while the password is
//! the one that it was and the credential that made the ticket is there.
//!
//! Tickets are kept in memory only, as hashes: a controller that starts again has forgotten them, which costs their
//! holders a new one and spares a table that would have to be swept.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use hotdesk_base::ids::ComputerId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::access::Credential;
use hotdesk_domain::error::{Error, Result};
use hotdesk_store::computers::Computer;
use hotdesk_store::passwords::Pass;
use hotdesk_wire::ticket::Mode;

/// How long a ticket lasts when nobody says: the time to hand a link over and open it.
pub const DEFAULT_LIFE: Duration = Duration::from_secs(60);
/// How long a ticket may last: it is a password as long as it does.
pub const MAX_LIFE: Duration = Duration::from_secs(3600);
/// Characters of a ticket: 32 of base62 are 190 random bits.
const CHARACTERS: usize = 32;
/// Unused tickets of one computer at once; 64 x about 150 bytes are 10 KB.
const MAX_UNUSED: usize = 64;

/// What a ticket opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// What its holder may do.
    pub mode: Mode,
    /// The screen.
    pub screen: String,
    /// What made it; it ends with that.
    pub by: Credential,
}

#[derive(Debug)]
struct Issued {
    ticket: Ticket,
    /// The password in whose place it stands: each boot has another one, and whoever loses the computer loses both.
    pass: Pass,
    expires: Instant,
}

/// The tickets that were issued and neither used nor expired, by their SHA-256.
#[derive(Debug, Default)]
pub struct Tickets(Mutex<HashMap<[u8; 32], Issued>>);

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

impl Tickets {
    /// Issues a ticket for a computer as it is opened now.
    ///
    /// # Errors
    /// `RateLimited` when the computer has as many unused ones as may be.
    pub fn issue(&self, computer: &Computer, ticket: Ticket, life: Duration) -> Result<Secret> {
        self.issue_at(computer.pass(), ticket, life, Instant::now())
    }

    fn issue_at(&self, pass: Pass, ticket: Ticket, life: Duration, now: Instant) -> Result<Secret> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, issued| issued.expires > now);
        let unused = all.values().filter(|issued| issued.pass.computer == pass.computer);
        if unused.clone().count() >= MAX_UNUSED {
            let first = unused.map(|issued| issued.expires).min().unwrap_or(now);
            let wait = u32::try_from(first.duration_since(now).as_secs()).unwrap_or(u32::MAX);
            return Err(Error::rate_limited(wait.saturating_add(1)));
        }
        let text = Secret::random(CHARACTERS);
        let issued = Issued { ticket, pass, expires: now + life };
        all.insert(digest(text.reveal()), issued);
        Ok(text)
    }

    /// Uses a ticket up; `None` when it opens nothing on this computer now.
    pub fn redeem(&self, computer: &Computer, shown: &str) -> Option<Ticket> {
        self.redeem_at(computer.pass(), shown, Instant::now())
    }

    /// The computer that a ticket is for, which may be used yet.
    pub fn computer(&self, shown: &str) -> Option<ComputerId> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&digest(shown))
            .filter(|issued| issued.expires > Instant::now())
            .map(|issued| issued.pass.computer)
    }

    fn redeem_at(&self, pass: Pass, shown: &str, now: Instant) -> Option<Ticket> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = digest(shown);
        // At another computer's door it is left as it is: a wrong address uses nothing up.
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
        Ticket { mode: Mode::View, screen: "default".to_owned(), by }
    }

    fn some_pass() -> Pass {
        Pass::of(ComputerId::random(), &Secret::new("first"))
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
        let next = Pass::of(pass.computer, &Secret::new("second"));
        assert_eq!(tickets.redeem_at(pass, issue().reveal(), now + DEFAULT_LIFE), None);
        assert_eq!(tickets.redeem_at(next, issue().reveal(), now), None);
        assert!(tickets.0.lock().unwrap().is_empty());
    }

    #[test]
    fn a_computer_has_so_many_unused_tickets_and_another_one_has_its_own() {
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
