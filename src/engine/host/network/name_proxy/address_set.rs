//! Addresses of names in a guest's packet rules.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::host::command::{run_with, tool};
use crate::host::network::egress::{EgressNames, KnownAddress, MAX_ADDRESSES};
use crate::{EngineError, EngineResult};

const STEP: &str = "permit the addresses of a name";
/// Shortest time for which an address is in the set. Programs resolve a name, and connect when they are ready; TTLs of a few
/// seconds are common.
const MIN_LIFE: Duration = Duration::from_secs(60);
/// How much longer than its TTL an address is in the set: programs count the TTL from the moment at which they got the answer.
const MARGIN: Duration = Duration::from_secs(30);

/// The set of a guest.
#[derive(Debug)]
pub(super) struct AddressSet {
    set: String,
    /// Until when each address is in the set. Held while the set is changed, so one `nft` runs at a time.
    known: Mutex<HashMap<Ipv4Addr, Instant>>,
}

impl AddressSet {
    pub(super) fn of(slot: u16) -> Self {
        Self { set: EgressNames::of(slot).names, known: Mutex::default() }
    }

    /// Puts addresses of a name into the set, for at least `ttl` from now on.
    ///
    /// # Errors
    /// `Failed` when the set is full, or `nft` fails.
    pub(super) async fn add(&self, name: &str, addresses: &[Ipv4Addr], ttl: Duration) -> EngineResult<()> {
        let now = Instant::now();
        let mut known = self.known.lock().await;
        let missing: Vec<Ipv4Addr> =
            addresses.iter().copied().filter(|address| !lives(&known, *address, now + ttl)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        known.retain(|_, until| *until > now);
        let more = missing.iter().filter(|address| !known.contains_key(address)).count();
        if known.len() + more > MAX_ADDRESSES {
            return Err(EngineError::failed(STEP, format!("{MAX_ADDRESSES} addresses are in use")));
        }
        let life = ttl.max(MIN_LIFE) + MARGIN;
        let script: String = missing
            .iter()
            .map(|address| {
                let name = name.to_owned();
                KnownAddress { address: *address, name, seconds: life.as_secs() }.script(&self.set)
            })
            .collect();
        let changed = tokio::task::spawn_blocking(move || {
            let mut nft = tool("nft");
            nft.args(["-f", "-"]);
            run_with(STEP, nft, &script)
        });
        changed.await.map_err(|error| EngineError::failed(STEP, error))??;
        known.extend(missing.into_iter().map(|address| (address, now + life)));
        Ok(())
    }
}

/// Whether an address is in the set until an instant.
fn lives(known: &HashMap<Ipv4Addr, Instant>, address: Ipv4Addr, until: Instant) -> bool {
    known.get(&address).is_some_and(|end| *end >= until)
}
