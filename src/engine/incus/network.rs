//! Network of computers: the managed bridge, its rules, and an address for each computer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde_json::Value;
use tokio::sync::Mutex;

use crate::incus::client::Client;
use crate::incus::documents::{self, GuestAddress, Instance};
use crate::incus::settings::IncusSettings;
use crate::{EngineError, EngineResult, NetworkConfig};
use hotdesk_base::ids::ComputerId;

const READ: &str = "read the network of computers";
const CLAIM: &str = "choose an address for the computer";
/// Networks that computers must not reach (`container.allow_private_egress`). The host of the bridge has an address in one
/// of them.
const PRIVATE: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"];
/// Keys of a rule that would narrow it.
const NARROWING: [&str; 4] = ["source", "protocol", "source_port", "destination_port"];

/// The managed bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bridge {
    /// Its own address.
    gateway: Ipv4Addr,
    prefix: u8,
}

impl Bridge {
    /// Reads the bridge and checks its rules; `None` where computers have no network.
    ///
    /// # Errors
    /// `Failed` when the server has no such bridge, or it would let computers reach what the configuration forbids.
    pub(super) async fn read(
        client: &Client,
        settings: &IncusSettings,
        network: &NetworkConfig,
    ) -> EngineResult<Option<Self>> {
        if !network.enabled {
            return Ok(None);
        }
        let path = format!("/1.0/networks/{}", settings.network);
        let found = client.get(&path).await.map_err(|error| error.at(READ))?;
        let refused = |why: String| EngineError::failed(READ, format!("{}: {why}", settings.network));
        let this = Self::parse(&found).map_err(refused)?;
        if !network.allow_private_egress {
            let mut rules = Vec::new();
            for acl in acls(&found) {
                let path = format!("/1.0/network-acls/{acl}");
                rules.push(client.get(&path).await.map_err(|error| error.at(READ))?);
            }
            check_rules(&rules).map_err(refused)?;
        }
        Ok(Some(this))
    }

    fn parse(network: &Value) -> Result<Self, String> {
        if network["type"] != "bridge" || network["managed"] != true {
            return Err("it is no managed bridge".to_owned());
        }
        let config = &network["config"];
        if config["ipv6.address"] != "none" {
            return Err("its ipv6.address must be none: computers have IPv4 addresses only".to_owned());
        }
        let parsed = config["ipv4.address"].as_str().and_then(|text| {
            let (gateway, prefix) = text.split_once('/')?;
            Some(Self { gateway: gateway.parse().ok()?, prefix: prefix.parse().ok()? })
        });
        parsed
            .filter(|bridge| (8..=29).contains(&bridge.prefix))
            .ok_or_else(|| "its ipv4.address must be an address with a prefix of /8 to /29".to_owned())
    }

    /// The network of a computer with this address.
    pub(super) fn guest(&self, address: Ipv4Addr) -> GuestAddress {
        GuestAddress { address, prefix: self.prefix, gateway: self.gateway }
    }

    /// The name server of computers, as a resolv.conf(5).
    pub(super) fn resolv_conf(&self) -> String {
        format!("nameserver {}\n", self.gateway)
    }

    /// An address that is not taken. Most computers get one that their id alone decides.
    fn choose(&self, id: ComputerId, taken: &BTreeSet<Ipv4Addr>) -> Option<Ipv4Addr> {
        let hosts = 1_u32 << (32 - u32::from(self.prefix));
        let base = self.gateway.to_bits() & !(hosts - 1);
        // Neither the address of the network nor that of its broadcast.
        let usable = hosts - 2;
        let first = u32::try_from(id.0.as_u128() % u128::from(usable)).unwrap_or_default();
        (0..usable)
            .map(|step| Ipv4Addr::from_bits(base + 1 + (first + step) % usable))
            .find(|address| *address != self.gateway && !taken.contains(address))
    }
}

/// The names of a network's rule sets.
fn acls(network: &Value) -> impl Iterator<Item = &str> {
    let names = network["config"]["security.acls"].as_str().unwrap_or_default();
    names.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Whether the rule sets keep computers from all private networks. Incus applies rules that drop or reject before those that
/// allow.
fn check_rules(acls: &[Value]) -> Result<(), String> {
    let rules = acls.iter().filter_map(|acl| acl["egress"].as_array()).flatten();
    let forbids = |rule: &&Value| {
        rule["state"] == "enabled"
            && (rule["action"] == "reject" || rule["action"] == "drop")
            && NARROWING.iter().all(|key| rule[*key].as_str().is_none_or(str::is_empty))
    };
    let forbidden: BTreeSet<&str> = rules
        .filter(forbids)
        .filter_map(|rule| rule["destination"].as_str())
        .flat_map(|networks| networks.split(','))
        .map(str::trim)
        .collect();
    let open: Vec<&str> = PRIVATE.into_iter().filter(|network| !forbidden.contains(network)).collect();
    if open.is_empty() {
        return Ok(());
    }
    Err(format!(
        "no rule in its security.acls rejects {}; add one (docs/engines/incus.md), or set \
         container.allow_private_egress = true",
        open.join(", ")
    ))
}

/// The addresses of the computers of a project.
#[derive(Debug, Default)]
pub(super) struct AddressBook {
    /// Empty until the first computer is made.
    taken: Mutex<Option<BTreeMap<ComputerId, Ipv4Addr>>>,
}

impl AddressBook {
    /// Claims an address for a computer: the one that it has, else one that no instance of the project has. The server refuses
    /// to start two instances of one address.
    ///
    /// # Errors
    /// `Failed` when all are taken, or the instances cannot be listed.
    pub(super) async fn claim(
        &self,
        client: &Client,
        bridge: &Bridge,
        id: ComputerId,
    ) -> EngineResult<GuestAddress> {
        let mut taken = self.taken.lock().await;
        if taken.is_none() {
            // Instances of other controllers may come later; then the start of one of the two is refused.
            *taken = Some(Self::read(client).await?);
        }
        let known = taken.get_or_insert_default();
        if let Some(own) = known.get(&id) {
            return Ok(bridge.guest(*own));
        }
        let all: BTreeSet<Ipv4Addr> = known.values().copied().collect();
        let chosen = bridge
            .choose(id, &all)
            .ok_or_else(|| EngineError::failed(CLAIM, format!("all {} are taken", all.len())))?;
        known.insert(id, chosen);
        Ok(bridge.guest(chosen))
    }

    /// Gives the address of a removed computer back.
    pub(super) async fn release(&self, id: ComputerId) {
        if let Some(known) = &mut *self.taken.lock().await {
            known.remove(&id);
        }
    }

    async fn read(client: &Client) -> EngineResult<BTreeMap<ComputerId, Ipv4Addr>> {
        let listed = client.get("/1.0/instances?recursion=1").await.map_err(|error| error.at(CLAIM))?;
        let instances: Vec<NamedInstance> =
            serde_json::from_value(listed).map_err(|error| EngineError::failed(CLAIM, error))?;
        let address = |it: &NamedInstance| Some((documents::id_of(&it.name)?, it.instance.address()?));
        Ok(instances.iter().filter_map(address).collect())
    }
}

#[derive(serde::Deserialize)]
struct NamedInstance {
    name: String,
    #[serde(flatten)]
    instance: Instance,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use uuid::Uuid;

    fn network(config: &Value) -> Value {
        json!({"type": "bridge", "managed": true, "config": config})
    }

    #[test]
    fn the_bridge_is_managed_and_has_no_ipv6() {
        let good = network(&json!({"ipv4.address": "10.77.0.1/16", "ipv6.address": "none"}));
        let bridge = Bridge::parse(&good).unwrap();
        assert_eq!(bridge, Bridge { gateway: Ipv4Addr::new(10, 77, 0, 1), prefix: 16 });
        assert_eq!(bridge.resolv_conf(), "nameserver 10.77.0.1\n");
        for (wrong, part) in [
            (json!({"type": "ovn", "managed": true, "config": good["config"]}), "managed bridge"),
            (json!({"type": "bridge", "managed": false, "config": good["config"]}), "managed bridge"),
            (network(&json!({"ipv4.address": "10.77.0.1/16", "ipv6.address": "fd42::1/64"})), "ipv6"),
            (network(&json!({"ipv4.address": "none", "ipv6.address": "none"})), "ipv4"),
            (network(&json!({"ipv4.address": "10.77.0.1/30", "ipv6.address": "none"})), "ipv4"),
        ] {
            let refused = Bridge::parse(&wrong).unwrap_err();
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn rules_must_reject_every_private_network() {
        let rule = |action: &str, destination: &str, port: &str| {
            let rule = json!({
                "action": action, "state": "enabled", "destination": destination, "destination_port": port,
            });
            json!({"egress": [rule]})
        };
        let all = PRIVATE.join(",");
        assert_eq!(check_rules(&[rule("reject", &all, "")]), Ok(()));
        let split = [rule("drop", &PRIVATE[..2].join(", "), ""), rule("reject", &PRIVATE[2..].join(","), "")];
        assert_eq!(check_rules(&split), Ok(()));
        for (rules, missing) in [
            (vec![], "10.0.0.0/8"),
            (vec![rule("allow", &all, "")], "10.0.0.0/8"),
            (vec![rule("reject", &all, "22")], "10.0.0.0/8"),
            (vec![rule("reject", &PRIVATE[..3].join(","), "")], "rejects 169.254.0.0/16"),
        ] {
            let refused = check_rules(&rules).unwrap_err();
            assert!(refused.contains(missing), "{refused}");
        }
        let named = network(&json!({"security.acls": "hotdesk, web"}));
        assert_eq!(acls(&named).collect::<Vec<_>>(), ["hotdesk", "web"]);
        assert_eq!(acls(&network(&json!({}))).count(), 0);
    }

    #[test]
    fn addresses_are_used_once_until_none_is_left() {
        let bridge = Bridge { gateway: Ipv4Addr::new(10, 77, 0, 1), prefix: 29 };
        let mut taken = BTreeSet::new();
        for _ in 0..5 {
            let chosen = bridge.choose(ComputerId(Uuid::from_u128(0)), &taken).unwrap();
            assert!((2..=6).contains(&chosen.octets()[3]), "{chosen}");
            assert!(taken.insert(chosen), "{chosen}");
        }
        assert_eq!(bridge.choose(ComputerId::random(), &taken), None);
    }
}
