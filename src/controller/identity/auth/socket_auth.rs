//! Who may open a live channel? Whoever shows the computer's password, and has not guessed too often (access.md A79).

use std::time::{Duration, Instant};

use axum::http::HeaderMap;

use super::failures::Failures;
use super::source::Source;
use super::tickets::Ticket;
use crate::App;
use hotdesk_base::ids::{ComputerId, ComputerRef, WorkspaceId};
use hotdesk_base::living::Hold;
use hotdesk_domain::access::Credential;
use hotdesk_domain::channel::{Channel, Failure};
use hotdesk_domain::error::Result;
use hotdesk_http::bearer::{self, Shown};
use hotdesk_http::socket::Closing;
use hotdesk_store::computers::Computer;
use hotdesk_store::passwords::Pass;

/// Wrong passwords that one source may show for one computer in [`WINDOW`] (access.md A79).
const MAX_FAILURES: u32 = 10;
/// The time in which failures are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Why a socket is closed whose ticket's maker is gone.
pub const MAKER_ENDED: &str = "the key that made the ticket has ended";
/// Why a socket is closed for wrong passwords before it.
const TOO_MANY: &str = "too many wrong tokens, try again in a minute";

/// Wrong passwords of late, by source and computer: junk from one place locks nobody else out.
pub type WrongPasswords = Failures<(Source, ComputerId)>;

/// Somebody who was let in.
#[derive(Debug)]
pub struct Admitted<T> {
    /// The computer.
    pub computer: Computer,
    /// What the credential gives.
    pub given: T,
    /// Ends when the computer's password is changed while it runs: whoever came in by it, or by a ticket of its time, goes.
    pub hold: Hold<Pass>,
    /// Ends with what made the ticket; `None` when the password was shown, which is no key's.
    pub by: Option<Hold<Credential>>,
}

/// None yet.
pub fn wrong_passwords() -> WrongPasswords {
    Failures::new(MAX_FAILURES, WINDOW)
}

/// The password that a request shows: `?token=`, or one bearer credential (wire.md 10.2).
pub fn token(headers: &HeaderMap, query: &[(String, String)]) -> Option<String> {
    if let Some((_, token)) = query.iter().find(|(name, token)| name == "token" && !token.is_empty()) {
        return Some(token.clone());
    }
    match bearer::shown(headers) {
        Shown::Bearer(token) => Some(token.to_owned()),
        Shown::Nothing | Shown::Unusable => None,
    }
}

impl App {
    /// Finds the computer of a channel for whoever shows its password; else how the socket is to be closed.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn admit(
        &self,
        channel: Channel,
        reference: &str,
        shown: Option<&str>,
        source: Source,
    ) -> Result<std::result::Result<Admitted<()>, Closing>> {
        let password = |computer: &Computer, shown: &str| computer.vnc_password.matches(shown).then_some(());
        self.admit_by(channel, reference, shown, source, password).await
    }

    /// As [`App::admit`], for whoever shows a ticket (wire.md 10.3 knows the password alone); it is used up by that. What made the
    /// ticket is held as well: what was opened by it ends with that.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn admit_ticket(
        &self,
        reference: &str,
        shown: &str,
        source: Source,
    ) -> Result<std::result::Result<Admitted<Ticket>, Closing>> {
        let channel = Channel::Websockify;
        let ticket = |computer: &Computer, shown: &str| self.tickets.redeem(computer, shown);
        let mut admitted = match self.admit_by(channel, reference, Some(shown), source, ticket).await? {
            Ok(admitted) => admitted,
            Err(closing) => return Ok(Err(closing)),
        };
        let by = admitted.given.by;
        // Held before it is looked for: whatever ends it after the look is heard.
        admitted.by = Some(self.store.live.hold(by));
        if !self.store.gone(&[by]).await?.is_empty() {
            return Ok(Err(Closing::new(channel.close_code(Failure::Unauthenticated), MAKER_ENDED)));
        }
        Ok(Ok(admitted))
    }

    /// What a credential gives its holder on a computer, by a check whose failures are counted.
    async fn admit_by<T>(
        &self,
        channel: Channel,
        reference: &str,
        shown: Option<&str>,
        source: Source,
        check: impl Fn(&Computer, &str) -> Option<T>,
    ) -> Result<std::result::Result<Admitted<T>, Closing>> {
        let refused = |failure, reason| Ok(Err(Closing::new(channel.close_code(failure), reason)));
        let Some(shown) = shown else { return refused(Failure::Unauthenticated, "missing token") };
        let Ok(reference) = reference.parse::<ComputerRef>() else {
            return refused(Failure::Unknown, "computer not found");
        };
        let changes = self.store.passes.ends();
        let Some(computer) = self.store.computer(&reference).await? else {
            return refused(Failure::Unknown, "computer not found");
        };
        let (now, tried) = (Instant::now(), (source, computer.id));
        let too_many = self.failures.wait(&tried, now).is_some();
        // From where everybody may come, the right one must go through: it is 95 bits, and nobody guesses that.
        if too_many && !source.may_be_many() {
            return refused(Failure::Unauthenticated, TOO_MANY);
        }
        let Some(given) = check(&computer, shown) else {
            // A flood of wrong ones does not have all computers' passwords read.
            if too_many {
                return refused(Failure::Unauthenticated, TOO_MANY);
            }
            self.failures.note(tried, now);
            let elsewhere = self.opens_elsewhere(shown, computer.workspace).await?;
            let failure = if elsewhere { Failure::ElsewhereOnly } else { Failure::Unauthenticated };
            return refused(failure, "invalid token");
        };
        let hold = self.store.passes.hold(computer.pass());
        // It may have been changed between the look and the hold, which has not heard of that then.
        if self.store.passes.ends() != changes {
            let now = self.store.computer(&ComputerRef::Id(computer.id)).await?;
            if now.is_none_or(|now| now.pass() != computer.pass()) {
                return refused(Failure::Unauthenticated, "the password was changed");
            }
        }
        Ok(Ok(Admitted { computer, given, hold, by: None }))
    }

    /// Whether a credential opens a computer of another workspace (wire.md 10.3): a client that mixes up its own computers
    /// is told so, and a guesser learns it no sooner than it would at that computer's door.
    async fn opens_elsewhere(&self, shown: &str, workspace: WorkspaceId) -> Result<bool> {
        if let Some(computer) = self.tickets.computer(shown) {
            let found = self.store.computer(&ComputerRef::Id(computer)).await?;
            return Ok(found.is_some_and(|found| found.workspace != workspace));
        }
        self.store.is_password_outside(shown, workspace).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a79_ten_failures_a_minute_and_only_of_that_source_and_computer() {
        let (failures, began) = (wrong_passwords(), Instant::now());
        let (computer, other) = (ComputerId::random(), ComputerId::random());
        let source = Source::parse("192.0.2.1");
        for _ in 0..MAX_FAILURES {
            assert!(failures.wait(&(source, computer), began).is_none());
            failures.note((source, computer), began);
        }
        assert!(failures.wait(&(source, computer), began).is_some());
        assert!(failures.wait(&(Source::parse("192.0.2.2"), computer), began).is_none());
        assert!(failures.wait(&(source, other), began).is_none());
        assert!(failures.wait(&(source, computer), began + WINDOW).is_none());
    }
}
