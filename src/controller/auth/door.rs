//! Who may open a live channel? Whoever shows the computer's password, and has not guessed too often (access.md A79).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;

use super::tickets::Ticket;
use crate::base::ids::{ComputerId, ComputerRef, WorkspaceId};
use crate::controller::App;
use crate::domain::channel::{Channel, Failure};
use crate::domain::error::Result;
use crate::http::bearer::{self, Shown};
use crate::http::serve::Peer;
use crate::http::socket::Closing;
use crate::store::computers::Computer;

/// Wrong passwords that one source may show for one computer in [`WINDOW`] (access.md A79).
const MAX_FAILURES: u32 = 10;
/// The time in which failures are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Sources that are remembered; the oldest makes room. 10,000 x about 80 bytes stays below a megabyte.
const MAX_SOURCES: usize = 10_000;

/// Who shows passwords: an address, for IPv6 the network that one customer has, or this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source(Option<IpAddr>);

impl Source {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            address if address.is_loopback() => Self(None),
            IpAddr::V4(address) => Self(Some(IpAddr::V4(address))),
            IpAddr::V6(address) => {
                let mut parts = address.octets();
                parts[8..].fill(0);
                Self(Some(IpAddr::V6(parts.into())))
            }
        }
    }

    /// Whether it may be everybody: a proxy on this machine that is not among the trusted ones. Its wrong passwords must not
    /// lock the right one out, which is 95 bits.
    fn may_be_many(self) -> bool {
        self.0.is_none()
    }
}

/// Wrong passwords of late, by source and computer: junk from one place locks nobody else out.
#[derive(Debug, Default)]
pub struct Failures(Mutex<HashMap<(Source, ComputerId), (Instant, u32)>>);

impl Failures {
    fn too_many(&self, source: Source, computer: ComputerId, now: Instant) -> bool {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures
            .get(&(source, computer))
            .is_some_and(|(since, count)| now.duration_since(*since) < WINDOW && *count >= MAX_FAILURES)
    }

    fn note(&self, source: Source, computer: ComputerId, now: Instant) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= MAX_SOURCES && !failures.contains_key(&(source, computer)) {
            failures.retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
            let oldest = failures.iter().min_by_key(|(_, (since, _))| *since).map(|(key, _)| *key);
            if let Some(oldest) = oldest.filter(|_| failures.len() >= MAX_SOURCES) {
                failures.remove(&oldest);
            }
        }
        let entry = failures.entry((source, computer)).or_insert((now, 0));
        if now.duration_since(entry.0) >= WINDOW {
            *entry = (now, 0);
        }
        entry.1 += 1;
    }
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
    /// From where a request comes, behind whatever trusted proxies.
    pub fn source(&self, peer: &Peer, headers: &HeaderMap) -> Source {
        let Peer::Tcp(address) = peer else { return Source(None) };
        let forwarded = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
        Source::of(self.trusted_proxies.client(address.ip(), forwarded))
    }

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
    ) -> Result<std::result::Result<Computer, Closing>> {
        let password = |computer: &Computer, shown: &str| computer.vnc_password.matches(shown).then_some(());
        let admitted = self.admit_by(channel, reference, shown, source, password).await?;
        Ok(admitted.map(|(computer, ())| computer))
    }

    /// As [`App::admit`], for whoever shows a ticket (wire.md 10.3 knows the password alone); it is used up by that.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn admit_ticket(
        &self,
        reference: &str,
        shown: &str,
        source: Source,
    ) -> Result<std::result::Result<(Computer, Ticket), Closing>> {
        let ticket = |computer: &Computer, shown: &str| self.tickets.redeem(computer, shown);
        self.admit_by(Channel::Websockify, reference, Some(shown), source, ticket).await
    }

    /// What a credential gives its holder on a computer, by a check whose failures are counted.
    async fn admit_by<T>(
        &self,
        channel: Channel,
        reference: &str,
        shown: Option<&str>,
        source: Source,
        check: impl Fn(&Computer, &str) -> Option<T>,
    ) -> Result<std::result::Result<(Computer, T), Closing>> {
        let refused = |failure, reason| Ok(Err(Closing::new(channel.close_code(failure), reason)));
        let Some(shown) = shown else { return refused(Failure::Unauthenticated, "missing token") };
        let Ok(reference) = reference.parse::<ComputerRef>() else {
            return refused(Failure::Unknown, "computer not found");
        };
        let Some(computer) = self.store.computer(&reference).await? else {
            return refused(Failure::Unknown, "computer not found");
        };
        let now = Instant::now();
        let too_many = self.failures.too_many(source, computer.id, now);
        if too_many && !source.may_be_many() {
            return refused(Failure::Unauthenticated, "too many wrong tokens, try again in a minute");
        }
        let Some(given) = check(&computer, shown) else {
            self.failures.note(source, computer.id, now);
            let elsewhere = self.opens_elsewhere(shown, computer.workspace).await?;
            let failure = if elsewhere { Failure::ElsewhereOnly } else { Failure::Unauthenticated };
            return refused(failure, "invalid token");
        };
        Ok(Ok((computer, given)))
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

    fn peer(text: &str) -> Source {
        Source::of(text.parse().unwrap())
    }

    #[test]
    fn a_source_is_an_address_or_a_customers_network() {
        assert_eq!(peer("192.0.2.1"), peer("::ffff:192.0.2.1"));
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::2:3"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert!(peer("127.0.0.1").may_be_many() && peer("::1").may_be_many());
        assert!(!peer("192.0.2.1").may_be_many());
    }

    #[test]
    fn ten_failures_a_minute_and_only_of_that_source_and_computer() {
        let (failures, began) = (Failures::default(), Instant::now());
        let (computer, other) = (ComputerId::random(), ComputerId::random());
        let source = peer("192.0.2.1");
        for _ in 0..MAX_FAILURES {
            assert!(!failures.too_many(source, computer, began));
            failures.note(source, computer, began);
        }
        assert!(failures.too_many(source, computer, began));
        assert!(!failures.too_many(peer("192.0.2.2"), computer, began));
        assert!(!failures.too_many(source, other, began));
        assert!(!failures.too_many(source, computer, began + WINDOW));
        failures.note(source, computer, began + WINDOW);
        assert!(!failures.too_many(source, computer, began + WINDOW), "a new minute, a new count");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (failures, began) = (Failures::default(), Instant::now());
        for _ in 0..MAX_SOURCES + 10 {
            failures.note(peer("192.0.2.1"), ComputerId::random(), began);
        }
        assert_eq!(failures.0.lock().unwrap().len(), MAX_SOURCES);
    }
}
