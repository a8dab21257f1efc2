//! Interfaces of the host behind which guests reach other networks, from the host's routes. Plain data; nothing here
//! touches the host.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use crate::host::network::VETH_PREFIX;

/// A route by which packets leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// Its destinations.
    pub(super) network: Ipv4Net,
    /// Whether it names a gateway, or several ways.
    pub(super) has_gateway: bool,
    /// The interfaces of its ways.
    pub(super) devices: Vec<String>,
}

impl Route {
    /// Whether it leads beyond the networks that are attached to this host. Tunnels replace the default route by two
    /// halves, and some of them have no gateway.
    fn leads_away(&self) -> bool {
        self.has_gateway || self.network.prefix_len() <= 1
    }
}

/// The interfaces of routes that lead beyond this host's own networks, or to one of the name servers; with `all`, those
/// of every route.
pub(super) fn of_routes(routes: &[Route], resolvers: &[Ipv4Addr], all: bool) -> BTreeSet<String> {
    let is_wanted = |route: &&Route| {
        all || route.leads_away() || resolvers.iter().any(|resolver| route.network.contains(resolver))
    };
    let names = routes.iter().filter(is_wanted).flat_map(|route| &route.devices);
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
        let routes = [
            ("0.0.0.0/0", true, vec!["eth0"]),
            ("0.0.0.0/0", false, vec!["wg0"]),
            ("0.0.0.0/1", false, vec!["tun0"]),
            ("10.9.0.0/16", true, vec!["lan.9"]),
            ("203.0.113.0/24", true, vec!["two0", "two1"]),
            ("192.0.2.0/24", false, vec!["eth0"]),
            ("172.17.0.0/16", false, vec!["docker0"]),
            ("192.168.4.0/24", false, vec!["dns0"]),
            ("192.168.5.1/32", false, vec!["dns1"]),
            ("10.213.0.0/30", false, vec!["hotdesk0000"]),
            ("0.0.0.0/0", true, vec!["a\"b", "lo"]),
        ];
        let routes = routes.map(|(network, has_gateway, devices)| Route {
            network: network.parse().unwrap(),
            has_gateway,
            devices: devices.into_iter().map(str::to_owned).collect(),
        });
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
