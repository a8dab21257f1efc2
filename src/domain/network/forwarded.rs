//! Who is the client behind a proxy? The nearest address that the operator's own proxies did not have.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;

/// Proxies whose `X-Forwarded-For` is believed: `127.0.0.1, 10.0.0.0/8`. Empty: nobody's is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl FromStr for TrustedProxies {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let network = |part: &str| {
            let address = part.parse::<IpAddr>().map(IpNet::from);
            address.or_else(|_| part.parse()).map_err(|_| format!("{part:?} is no address and no network"))
        };
        parts.map(network).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for TrustedProxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.0.iter().map(IpNet::to_string).collect();
        f.write_str(&parts.join(", "))
    }
}

impl TrustedProxies {
    fn has(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The client's address, from the connection's and the values of `X-Forwarded-For` in their order. Each proxy adds at
    /// the end what it was connected from, so the list is read from there, while the one who says so is trusted; what
    /// stands before may be invented.
    pub fn client<'a>(&self, peer: IpAddr, forwarded: impl IntoIterator<Item = &'a str>) -> IpAddr {
        let said: Vec<&str> = forwarded.into_iter().flat_map(|value| value.split(',')).collect();
        let mut client = peer.to_canonical();
        for part in said.into_iter().rev().map(str::trim) {
            if !self.has(client) {
                break;
            }
            let address = part.parse::<IpAddr>().ok();
            let with_port = || part.parse::<SocketAddr>().ok().map(|address| address.ip());
            match address.or_else(with_port) {
                Some(address) => client = address.to_canonical(),
                None => break,
            }
        }
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_proxies_are_believed_and_only_what_they_added() {
        let trusted: TrustedProxies = "127.0.0.1, 10.0.0.0/8,2001:db8::/32".parse().unwrap();
        assert_eq!(trusted.to_string(), "127.0.0.1/32, 10.0.0.0/8, 2001:db8::/32");
        let table: &[(&str, &[&str], &str)] = &[
            ("192.0.2.1", &["198.51.100.7"], "192.0.2.1"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            ("::ffff:127.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            ("127.0.0.1", &["203.0.113.5, 198.51.100.7"], "198.51.100.7"),
            ("127.0.0.1", &["203.0.113.5", "198.51.100.7, 10.1.2.3"], "198.51.100.7"),
            ("127.0.0.1", &["203.0.113.5, junk"], "127.0.0.1"),
            ("127.0.0.1", &["[2001:db9::1]:443, 2001:db8::2"], "2001:db9::1"),
            ("127.0.0.1", &["10.0.0.1, 10.0.0.2"], "10.0.0.1"),
        ];
        for (peer, said, client) in table {
            let found = trusted.client(peer.parse().unwrap(), said.iter().copied());
            assert_eq!(found, client.parse::<IpAddr>().unwrap(), "{peer} {said:?}");
        }
        let nobody: TrustedProxies = "".parse().unwrap();
        assert_eq!(
            nobody.client("127.0.0.1".parse().unwrap(), ["192.0.2.9"]),
            "127.0.0.1".parse::<IpAddr>().unwrap()
        );
        assert!("10.0.0.0/33".parse::<TrustedProxies>().unwrap_err().contains("10.0.0.0/33"));
    }
}
