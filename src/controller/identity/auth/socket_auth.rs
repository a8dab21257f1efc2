//! Authentication of live channels by a computer's password or a ticket, A79 (docs/authentication-rules.md).

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::HeaderMap;

use super::tickets::{Ticket, Tickets};
use super::{KEY_FAMILY, keys};
use crate::web::failures::Failures;
use crate::web::source::Source;
use hotdesk_base::ids::{ComputerRef, WorkspaceId};
use hotdesk_base::revocation_registry::Lease;
use hotdesk_domain::desktop::channel::{Channel, Failure};
use hotdesk_domain::error::{Kind, Result};
use hotdesk_domain::identity::access::Credential;
use hotdesk_http::bearer::{self, Credentials};
use hotdesk_http::socket::CloseReason;
use hotdesk_store::Store;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::passwords::PasswordDigest;

/// Wrong passwords of one client address for one computer in [`WINDOW`], A79 (docs/authentication-rules.md).
const MAX_FAILURES: u32 = 10;
/// Wrong passwords of one client address in [`WINDOW`] after which they are no longer looked up: an office of people who
/// mistype stays below it, and a search for ids of computers does not.
const MAX_FAILURES_OF_SOURCE: u32 = 100;
/// Window in which failures are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Close reason when the credential that created the ticket was revoked.
pub const ISSUER_REVOKED: &str = "the key that made the ticket has ended";
/// Close reason after too many wrong passwords.
const TOO_MANY: &str = "too many wrong tokens, try again in a minute";

/// Successful authentication of a socket.
#[derive(Debug)]
pub struct AdmittedSocket<T> {
    /// The computer.
    pub computer: Computer,
    /// Rights that the credential grants.
    pub given: T,
    /// Ends when the computer's password changes while it runs.
    pub hold: Lease<PasswordDigest>,
    /// Ends with the credential that created the ticket; `None` for a password.
    pub by: Option<Lease<Credential>>,
}

/// Returns the password of a request: `?token=`, or a bearer credential (docs/channels.md).
pub fn token(headers: &HeaderMap, query: &[(String, String)]) -> Option<String> {
    if let Some((_, token)) = query.iter().find(|(name, token)| name == "token" && !token.is_empty()) {
        return Some(token.clone());
    }
    match bearer::credentials(headers) {
        Credentials::Bearer(token) => Some(token.to_owned()),
        Credentials::Missing | Credentials::Invalid => None,
    }
}

/// Authentication of sockets.
pub struct SocketAuth {
    store: Store,
    tickets: Arc<Tickets<Ticket>>,
    /// Recent wrong passwords by client address and computer, so that one address cannot lock out others. A reference that no
    /// computer has counts like one; `None` is a text that is no reference.
    wrong_passwords: Failures<(Source, Option<ComputerRef>)>,
    /// Recent wrong passwords by client address, for whichever computers.
    wrong_of_source: Failures<Source>,
}

impl SocketAuth {
    /// Creates the service with no wrong passwords.
    pub fn new(store: Store, tickets: Arc<Tickets<Ticket>>) -> Self {
        Self {
            store,
            tickets,
            wrong_passwords: Failures::new(MAX_FAILURES, WINDOW),
            wrong_of_source: Failures::new(MAX_FAILURES_OF_SOURCE, WINDOW),
        }
    }

    /// Authenticates a socket by the computer's password. Returns the computer, or how to close the socket.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn admit(
        &self,
        channel: Channel,
        reference: &str,
        shown: Option<&str>,
        source: Source,
    ) -> Result<std::result::Result<AdmittedSocket<()>, CloseReason>> {
        let password = |computer: &Computer, shown: &str| computer.vnc_password.matches(shown).then_some(());
        self.admit_by(channel, reference, shown, source, password).await
    }

    /// Authenticates a socket by a ticket (docs/channels.md), and consumes the ticket. The result holds a
    /// lease on the credential that created the ticket.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn admit_ticket(
        &self,
        channel: Channel,
        reference: &str,
        shown: &str,
        source: Source,
    ) -> Result<std::result::Result<AdmittedSocket<Ticket>, CloseReason>> {
        let ticket = |computer: &Computer, shown: &str| self.tickets.redeem(computer, shown);
        let mut admitted = match self.admit_by(channel, reference, Some(shown), source, ticket).await? {
            Ok(admitted) => admitted,
            Err(closing) => return Ok(Err(closing)),
        };
        let by = admitted.given.by;
        // Take the lease before the look-up, so that a later revocation is noticed.
        admitted.by = Some(self.store.credentials.lease(by));
        if !self.store.ended_credentials(&[by]).await?.is_empty() {
            return Ok(Err(CloseReason::new(channel.close_code(Failure::Unauthenticated), ISSUER_REVOKED)));
        }
        Ok(Ok(admitted))
    }

    /// Returns what a credential grants on a computer. Failures of `check` are counted. An unknown computer is
    /// answered like a known one with a wrong credential, unless the caller shows an API key, which may ask the API.
    async fn admit_by<T>(
        &self,
        channel: Channel,
        reference: &str,
        shown: Option<&str>,
        source: Source,
        check: impl Fn(&Computer, &str) -> Option<T>,
    ) -> Result<std::result::Result<AdmittedSocket<T>, CloseReason>> {
        let refused = |failure, reason| Ok(Err(CloseReason::new(channel.close_code(failure), reason)));
        let Some(shown) = shown else { return refused(Failure::Unauthenticated, "missing token") };
        // For every reference, so that the time tells nothing.
        let has_key = self.is_key(shown).await?;
        let reference = reference.parse::<ComputerRef>().ok();
        let changes = self.store.passwords.revocations();
        let computer = match &reference {
            Some(reference) => self.store.computer(reference).await?,
            None => None,
        };
        if has_key && computer.is_none() {
            return refused(Failure::Unknown, "computer not found");
        }
        let (now, workspace) = (Instant::now(), computer.as_ref().map(|computer| computer.workspace));
        let known = computer.as_ref().map(|computer| ComputerRef::Id(computer.id));
        let tried = (source, known.or(reference));
        let too_many = self.wrong_passwords.wait(&tried, now).is_some();
        // Many clients may share this address, so the correct password must pass. It has 95 bits and cannot
        // be guessed.
        if too_many && !source.is_this_machine() {
            return refused(Failure::Unauthenticated, TOO_MANY);
        }
        let admitted = computer.and_then(|computer| check(&computer, shown).map(|given| (computer, given)));
        let Some((computer, given)) = admitted else {
            // Do not read the passwords of all computers for a flood of wrong ones.
            if too_many || self.wrong_of_source.wait(&source, now).is_some() {
                return refused(Failure::Unauthenticated, TOO_MANY);
            }
            self.wrong_passwords.note(tried, now);
            self.wrong_of_source.note(source, now);
            let elsewhere = self.opens_elsewhere(shown, workspace).await?;
            let failure = if elsewhere { Failure::ElsewhereOnly } else { Failure::Unauthenticated };
            return refused(failure, "invalid token");
        };
        let hold = self.store.passwords.lease(computer.password_digest());
        // The password may have changed between the look-up and the lease.
        if self.store.passwords.revocations() != changes {
            let now = self.store.computer(&ComputerRef::Id(computer.id)).await?;
            if now.is_none_or(|now| now.password_digest() != computer.password_digest()) {
                return refused(Failure::Unauthenticated, "the password was changed");
            }
        }
        Ok(Ok(AdmittedSocket { computer, given, hold, by: None }))
    }

    /// Whether a credential opens a computer of another workspace (docs/channels.md). A client that mixes up
    /// its computers gets a specific code. An attacker learns nothing that it could not learn at that
    /// computer. An unknown computer is in no workspace.
    async fn opens_elsewhere(&self, shown: &str, workspace: Option<WorkspaceId>) -> Result<bool> {
        if let Some(computer) = self.tickets.computer(shown) {
            let found = self.store.computer(&ComputerRef::Id(computer)).await?;
            return Ok(found.is_some_and(|found| Some(found.workspace) != workspace));
        }
        self.store.is_password_outside(shown, workspace).await
    }

    /// Whether a credential is an API key.
    async fn is_key(&self, shown: &str) -> Result<bool> {
        if !shown.starts_with(KEY_FAMILY) {
            return Ok(false);
        }
        match keys::holder(&self.store, shown).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind == Kind::Unauthenticated => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::ComputerId;

    #[test]
    fn a79_ten_failures_a_minute_and_only_of_that_source_and_computer() {
        let (failures, began) = (Failures::new(MAX_FAILURES, WINDOW), Instant::now());
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
