//! Interfaces of the host behind which guests reach other networks, from the host's routes. Plain data; nothing here
//! touches the host.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde::Deserialize;

use crate::host::network::VETH_PREFIX;

/// A route in the output of `ip -json -4 route show table all` (ip-route(8)).
#[derive(Debug, Deserialize)]
pub(super) struct Route {
    /// Absent for ordinary routes.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// A network, an address, or `default`.
    dst: Option<String>,
    gateway: Option<String>,
    via: Option<serde_json::Value>,
    dev: Option<String>,
    /// The ways of a route with several.
    #[serde(default)]
    nexthops: Vec<NextHop>,
}

#[derive(Debug, Deserialize)]
struct NextHop {
    dev: Option<String>,
}

impl Route {
    fn devices(&self) -> impl Iterator<Item = &String> {
        self.dev.iter().chain(self.nexthops.iter().filter_map(|hop| hop.dev.as_ref()))
    }

    /// Whether it leads beyond the networks that are attached to this host. Tunnels replace the default route by two
    /// halves, and some of them have no gateway.
    fn leads_away(&self) -> bool {
        let is_half = self.network().is_some_and(|(_, prefix)| prefix <= 1);
        is_half || self.gateway.is_some() || self.via.is_some() || !self.nexthops.is_empty()
    }

    fn contains(&self, address: Ipv4Addr) -> bool {
        self.network().is_some_and(|(base, prefix)| {
            let fixed = u32::MAX.checked_shl(u32::from(32 - prefix)).unwrap_or(0);
            (base.to_bits() ^ address.to_bits()) & fixed == 0
        })
    }

    /// The base address and the number of fixed bits, at most 32.
    fn network(&self) -> Option<(Ipv4Addr, u8)> {
        let text = self.dst.as_deref()?;
        if text == "default" {
            return Some((Ipv4Addr::UNSPECIFIED, 0));
        }
        let (base, prefix) = text.split_once('/').unwrap_or((text, "32"));
        Some((base.parse().ok()?, prefix.parse().ok().filter(|prefix| *prefix <= 32)?))
    }
}

/// The interfaces of routes that lead beyond this host's own networks, or to one of the name servers; with `all`, those
/// of every route.
pub(super) fn of_routes(routes: &[Route], resolvers: &[Ipv4Addr], all: bool) -> BTreeSet<String> {
    let is_wanted = |route: &&Route| {
        let reaches_resolver = || resolvers.iter().any(|resolver| route.contains(*resolver));
        let is_ordinary = route.kind.as_deref().is_none_or(|kind| kind == "unicast");
        is_ordinary && (all || route.leads_away() || reaches_resolver())
    };
    let names = routes.iter().filter(is_wanted).flat_map(Route::devices);
    names.filter(|name| is_other(name)).cloned().collect()
}

/// Whether it is neither a guest's interface nor loopback, and its name can stand in packet rules and in paths.
pub(super) fn is_other(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    name != "lo" && !name.starts_with(VETH_PREFIX) && !name.starts_with('.') && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uplinks_are_where_routes_lead_away_or_to_a_name_server() {
        let routes: Vec<Route> = serde_json::from_str(
            r#"[{"dst": "default", "gateway": "192.0.2.1", "dev": "eth0", "flags": []},
                {"dst": "default", "dev": "wg0", "table": "51820", "scope": "link"},
                {"dst": "0.0.0.0/1", "dev": "tun0"},
                {"dst": "10.9.0.0/16", "via": {"family": "inet6", "host": "fe80::1"}, "dev": "lan.9"},
                {"dst": "203.0.113.0/24", "nexthops": [{"gateway": "192.0.2.9", "dev": "two0"}, {"dev": "two1"}]},
                {"dst": "192.0.2.0/24", "dev": "eth0", "scope": "link"},
                {"dst": "172.17.0.0/16", "dev": "docker0", "scope": "link"},
                {"dst": "192.168.4.0/24", "dev": "dns0", "scope": "link"},
                {"dst": "192.168.5.1", "dev": "dns1", "scope": "link"},
                {"dst": "10.213.0.0/30", "dev": "hotdesk0000", "scope": "link"},
                {"type": "local", "dst": "192.0.2.2", "dev": "other0", "table": "local"},
                {"type": "blackhole", "dst": "default"},
                {"dst": "default", "dev": "a\"b"}]"#,
        )
        .unwrap();
        let resolvers = [Ipv4Addr::new(192, 168, 4, 53), Ipv4Addr::new(192, 168, 5, 1)];
        let found = |resolvers, all| of_routes(&routes, resolvers, all).into_iter().collect::<Vec<_>>();
        assert_eq!(found(&[], false), ["eth0", "lan.9", "tun0", "two0", "two1", "wg0"]);
        assert_eq!(
            found(&resolvers, false),
            ["dns0", "dns1", "eth0", "lan.9", "tun0", "two0", "two1", "wg0"]
        );
        assert_eq!(
            found(&[], true),
            ["dns0", "dns1", "docker0", "eth0", "lan.9", "tun0", "two0", "two1", "wg0"]
        );
    }
}
