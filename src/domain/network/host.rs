//! Whose name does a request come under? Only our own are answered, so that no page of another site reaches us by having its
//! name point at our address (DNS rebinding; access.md A77).

use std::net::IpAddr;

/// The host in an authority, without its port (RFC 3986 section 3.2): a name, or an address without brackets. `None` when it is
/// no authority that a `Host` field may hold.
pub fn of(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            (address, port)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    let digits = port.is_empty() || port.strip_prefix(':')?.bytes().all(|byte| byte.is_ascii_digit());
    (digits && !host.is_empty() && host.chars().all(plain)).then_some(host)
}

/// Whether a host is this service: one of the given names, this machine, or an address. An address needs no list, because no
/// name can be made to point at it that would show in its place.
pub fn is_own<'a>(host: &str, mut names: impl Iterator<Item = &'a str>) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    host.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || names.any(|name| host.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_what_stands_before_the_port() {
        for (authority, host) in [
            ("desk.example", "desk.example"),
            ("desk.example:8700", "desk.example"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::1]:80", "::1"),
            ("[::1]", "::1"),
        ] {
            assert_eq!(of(authority), Some(host), "{authority}");
        }
        for bad in [
            "",
            ":80",
            "a/../b",
            "a\"b",
            "user@a",
            "a:b",
            "a:80:80",
            "[::1",
            "[a]",
            "[::1]80",
            "a b",
            "ä.example",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn own_are_named_hosts_this_machine_and_addresses() {
        let own = |host| is_own(host, ["desk.example", "other.example"].into_iter());
        for host in [
            "desk.example",
            "DESK.example",
            "desk.example.",
            "other.example",
            "localhost",
            "192.0.2.1",
            "::1",
        ] {
            assert!(own(host), "{host}");
        }
        for host in [
            "evil.example",
            "desk.example.evil",
            "a.desk.example",
            "127.0.0.1.evil.example",
            "localhost.evil",
            "",
        ] {
            assert!(!own(host), "{host}");
        }
    }
}
