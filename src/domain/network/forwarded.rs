//! Client address behind trusted proxies, from `X-Forwarded-For`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;

use hotdesk_base::step_error::StepError;

/// Trusted proxies, whose `X-Forwarded-For` is used: `127.0.0.1, 10.0.0.0/8`. Empty means none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl FromStr for TrustedProxies {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Self, StepError> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let network = |part: &str| {
            let address = part.parse::<IpAddr>().map(IpNet::from);
            address
                .or_else(|_| part.parse())
                .map_err(|_| StepError::new(format!("{part:?} is no address and no network")))
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
    /// Whether an address is one of theirs.
    pub fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the client's address, from the peer address and the values of `X-Forwarded-For` in their
    /// order.
    ///
    /// Each proxy appends the address of its own peer. The list is read from its end, as long as the address
    /// that added an entry is trusted. Earlier entries may be forged.
    pub fn client<'a>(&self, peer: IpAddr, forwarded: impl IntoIterator<Item = &'a str>) -> IpAddr {
        let entries: Vec<&str> = forwarded.into_iter().flat_map(|value| value.split(',')).collect();
        let mut client = peer.to_canonical();
        for part in entries.into_iter().rev().map(str::trim) {
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
    fn only_entries_of_trusted_proxies_count() {
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
        for (peer, entries, client) in table {
            let found = trusted.client(peer.parse().unwrap(), entries.iter().copied());
            assert_eq!(found, client.parse::<IpAddr>().unwrap(), "{peer} {entries:?}");
        }
        let nobody: TrustedProxies = "".parse().unwrap();
        assert_eq!(
            nobody.client("127.0.0.1".parse().unwrap(), ["192.0.2.9"]),
            "127.0.0.1".parse::<IpAddr>().unwrap()
        );
        assert!("10.0.0.0/33".parse::<TrustedProxies>().unwrap_err().to_string().contains("10.0.0.0/33"));
    }
}
