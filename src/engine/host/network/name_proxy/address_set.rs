//! Addresses of names in a guest's packet rules.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::host::command::{run_with, tool};
use crate::host::network::egress::{EgressNames, KnownAddress};
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

    /// Puts addresses of a name into the set, for at least `ttl` from now on. The set has at most `most` addresses then.
    ///
    /// # Errors
    /// `Failed` when the set is full, or `nft` fails.
    pub(super) async fn add(
        &self,
        name: &str,
        addresses: &[Ipv4Addr],
        ttl: Duration,
        most: usize,
    ) -> EngineResult<()> {
        let now = Instant::now();
        let mut known = self.known.lock().await;
        let missing: Vec<Ipv4Addr> =
            addresses.iter().copied().filter(|address| !lives(&known, *address, now + ttl)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        known.retain(|_, until| *until > now);
        let more = missing.iter().filter(|address| !known.contains_key(address)).count();
        if known.len() + more > most {
            return Err(EngineError::failed(STEP, format!("{most} addresses are in use")));
        }
        let life = ttl.max(MIN_LIFE) + MARGIN;
        let script: String = missing
            .iter()
            .map(|address| {
                let name = name.to_owned();
                KnownAddress { address: *address, name, seconds: life.as_secs() }.script(&self.set)
            })
            .collect();
        let changed = hotdesk_base::tasks::spawn_blocking(move || {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::network::name_proxy::answer::places;

    #[tokio::test]
    async fn t3_names_that_a_guest_asks_for_leave_places_for_the_names_of_its_policy() {
        let policy = "block *.attacker.test blocked.test".parse().unwrap();
        // No machine has the slot, so `nft` finds no set of it.
        let set = AddressSet::of(u16::MAX);
        let most = places(&policy, "1.attacker.test");
        let until = Instant::now() + Duration::from_secs(600);
        let taken = (0..u32::try_from(most).unwrap()).map(|number| (Ipv4Addr::from_bits(number), until));
        set.known.lock().await.extend(taken);
        let ttl = Duration::from_secs(60);
        let mut outcomes = Vec::new();
        for name in ["2.attacker.test", "blocked.test"] {
            let own = [Ipv4Addr::new(203, 0, 113, 7)];
            let refused = set.add(name, &own, ttl, places(&policy, name)).await.unwrap_err();
            outcomes.push(format!("{refused:#}").contains("addresses are in use"));
        }
        assert_eq!(outcomes, [true, false], "only the second one came to nft");
    }
}
