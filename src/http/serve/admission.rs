//! Admission of connections: limits in all and for each source, and a share for sources that showed a valid key (T12,
//! docs/security.md).
//!
//! ```text
//!   4096 connections = 3072 for everybody + 1024 reserved
//!   a connection of this machine        takes any
//!   of a source without a valid key     takes one of the 3072, at most 1024 of them
//!   of a source that showed a valid key takes one of the 3072 as above, then one of the reserved, at most 128 of them
//! ```

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::Extensions;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use hotdesk_base::keyed_semaphore::{KeyedSemaphore, Permit};
use hotdesk_domain::network::address::customer;

use super::Peer;

/// Most concurrent connections, including WebSockets; more wait in the kernel's queue. At about 100 KB each
/// this is below half a gigabyte.
pub(crate) const MAX_CONNECTIONS: usize = 4096;
/// Connections that only this machine and sources with a valid key can take: a quarter, so that strangers with many
/// addresses do not exclude the callers who may work here.
const RESERVED: usize = MAX_CONNECTIONS / 4;
/// Most concurrent connections of one source (an IPv4 address or an IPv6 /64 network): a quarter of all, so that
/// one source cannot exclude the others. Loopback has no limit, because a reverse proxy there serves all clients.
const MAX_PER_SOURCE: usize = MAX_CONNECTIONS / 4;
/// Most reserved connections of one source: one with a valid key and bad intentions leaves the reserve to seven others.
const MAX_RESERVED_PER_SOURCE: usize = RESERVED / 8;
/// Most sources that are remembered; the one that showed its key longest ago makes room. As many as there can be
/// connections, in about 200 KB.
const MAX_REMEMBERED: usize = MAX_CONNECTIONS;
/// How long a source is remembered after its last valid key. Addresses change owners within days, and a client that
/// works every day stays remembered.
const MEMORY: Duration = Duration::from_secs(24 * 3600);

/// The counters of a listener's connections.
#[derive(Debug)]
pub(super) struct Admission {
    slots: Arc<Semaphore>,
    open: Arc<Semaphore>,
    sources: KeyedSemaphore<IpAddr>,
    reserved: KeyedSemaphore<IpAddr>,
    trusted: Arc<TrustedSources>,
}

/// One of all connections, for a peer that is not known yet.
#[derive(Debug)]
pub(super) struct Slot(OwnedSemaphorePermit);

/// The permits of a connection. They are held until the last clone is dropped: a WebSocket outlives hyper's
/// connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionPermit {
    _permits: Arc<(OwnedSemaphorePermit, Option<OwnedSemaphorePermit>, Option<Permit<IpAddr>>)>,
}

impl Admission {
    pub(super) fn new() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            open: Arc::new(Semaphore::new(MAX_CONNECTIONS - RESERVED)),
            sources: KeyedSemaphore::default(),
            reserved: KeyedSemaphore::default(),
            trusted: Arc::default(),
        }
    }

    /// Waits for a free connection; `None` never happens, because nobody closes the semaphore.
    pub(super) async fn free_slot(&self) -> Option<Slot> {
        Arc::clone(&self.slots).acquire_owned().await.ok().map(Slot)
    }

    /// Takes the permits for a peer; `None` when its source has too many connections, or when there is no free
    /// connection that it may take.
    pub(super) fn admit(&self, slot: Slot, peer: &Peer) -> Option<ConnectionPermit> {
        let open = Arc::clone(&self.open).try_acquire_owned().ok();
        let permit = match source_of(peer) {
            None => None,
            Some(source) if open.is_some() => Some(self.sources.try_acquire(source, MAX_PER_SOURCE)?),
            Some(source) if self.trusted.has(source, Instant::now()) => {
                Some(self.reserved.try_acquire(source, MAX_RESERVED_PER_SOURCE)?)
            }
            Some(_) => return None,
        };
        Some(ConnectionPermit { _permits: Arc::new((slot.0, open, permit)) })
    }

    /// The handle by which the handlers of a peer's requests report a valid key.
    pub(super) fn recognition(&self, peer: &Peer) -> Recognition {
        Recognition { source: source_of(peer), trusted: Arc::clone(&self.trusted) }
    }
}

/// The source of a peer; `None` for this machine.
fn source_of(peer: &Peer) -> Option<IpAddr> {
    match peer {
        Peer::Tcp(address) => customer(address.ip()),
        Peer::Local => None,
    }
}

/// Request extension by which a handler reports a valid credential.
#[derive(Clone, Debug)]
pub(super) struct Recognition {
    source: Option<IpAddr>,
    trusted: Arc<TrustedSources>,
}

impl Recognition {
    fn remember(&self) {
        if let Some(source) = self.source {
            self.trusted.remember(source, Instant::now());
        }
    }
}

/// Remembers the source of a request's connection for a day, because the request showed a valid key, token or session. The
/// source then keeps its access when strangers have all other connections. Takes the extensions of the request; does nothing
/// for a request without a connection.
pub fn remember_source(extensions: &Extensions) {
    if let Some(recognition) = extensions.get::<Recognition>() {
        recognition.remember();
    }
}

/// Sources that showed a valid key, with the time of the last one.
#[derive(Debug, Default)]
struct TrustedSources(Mutex<HashMap<IpAddr, Instant>>);

impl TrustedSources {
    fn remember(&self, source: IpAddr, now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_REMEMBERED && !known.contains_key(&source) {
            let oldest = known.iter().min_by_key(|(_, last)| **last).map(|(source, _)| *source);
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        known.insert(source, now);
    }

    fn has(&self, source: IpAddr, now: Instant) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&source).is_some_and(|last| now.saturating_duration_since(*last) < MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::Tcp(text.parse().unwrap())
    }

    /// Opens a connection as the server does.
    fn open(admission: &Admission, peer: &Peer) -> Option<ConnectionPermit> {
        let slot = Arc::clone(&admission.slots).try_acquire_owned().expect("a free slot");
        admission.admit(Slot(slot), peer)
    }

    fn open_many(admission: &Admission, peer: &Peer, most: usize) -> Vec<ConnectionPermit> {
        (0..most).map_while(|_| open(admission, peer)).collect()
    }

    #[test]
    fn one_address_cannot_take_every_connection() {
        let admission = Admission::new();
        let first = open_many(&admission, &peer("192.0.2.1:1"), MAX_CONNECTIONS);
        assert_eq!(first.len(), MAX_PER_SOURCE);
        assert!(open(&admission, &peer("[::ffff:192.0.2.1]:2")).is_none(), "the same address");
        assert!(open(&admission, &peer("192.0.2.2:1")).is_some());
        let network: Vec<_> = (0..MAX_PER_SOURCE)
            .map(|host| open(&admission, &peer(&format!("[2001:db8::{host:x}]:1"))).expect("a permit"))
            .collect();
        assert!(open(&admission, &peer("[2001:db8::ffff:1]:1")).is_none(), "another host of the network");
        assert!(open(&admission, &peer("[2001:db8:0:1::1]:1")).is_some());
        drop(network);
        let local = open_many(&admission, &peer("127.0.0.1:1"), MAX_PER_SOURCE + 1);
        assert_eq!(local.len(), MAX_PER_SOURCE + 1, "a proxy on this host serves all clients");
        drop(first);
        assert!(open(&admission, &peer("192.0.2.1:3")).is_some());
    }

    #[test]
    fn t12_strangers_cannot_take_the_connections_of_those_who_showed_a_key() {
        let admission = Admission::new();
        let strangers: Vec<_> = (1..=4)
            .flat_map(|network| {
                open_many(&admission, &peer(&format!("[2001:db8:0:{network}::1]:1")), MAX_CONNECTIONS)
            })
            .collect();
        assert_eq!(strangers.len(), MAX_CONNECTIONS - RESERVED);
        let guest = peer("198.51.100.7:1");
        assert!(open(&admission, &guest).is_none(), "it showed no key yet");
        admission.recognition(&guest).remember();
        let known = open_many(&admission, &guest, MAX_CONNECTIONS);
        assert_eq!(known.len(), MAX_RESERVED_PER_SOURCE, "one source cannot take the reserve either");
        assert!(open(&admission, &peer("198.51.100.8:1")).is_none(), "its neighbour showed no key");
        let local = open_many(&admission, &Peer::Local, 10);
        assert_eq!(local.len(), 10, "this machine may always connect");
        drop(strangers);
        assert!(open(&admission, &peer("198.51.100.8:1")).is_some());
    }

    #[test]
    fn the_memory_of_sources_is_bounded_and_ends_after_a_day() {
        let sources = TrustedSources::default();
        let address = |number: usize| IpAddr::from((number as u128).to_be_bytes());
        let start = Instant::now();
        let at = |seconds: usize| start + Duration::from_secs(seconds as u64);
        (0..MAX_REMEMBERED).for_each(|number| sources.remember(address(number), at(number)));
        sources.remember(address(0), at(MAX_REMEMBERED));
        sources.remember(address(MAX_REMEMBERED), at(MAX_REMEMBERED + 1));
        assert_eq!(sources.0.lock().unwrap().len(), MAX_REMEMBERED);
        let now = at(MAX_REMEMBERED + 1);
        assert!(sources.has(address(0), now), "it showed its key again");
        assert!(!sources.has(address(1), now), "the oldest made room");
        assert!(sources.has(address(MAX_REMEMBERED), now));
        assert!(!sources.has(address(MAX_REMEMBERED), now + MEMORY), "a day later it is a stranger again");
    }
}
