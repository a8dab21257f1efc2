//! Validation of the `Host` header against DNS rebinding (A77, docs/authentication-rules.md).

use std::net::IpAddr;

/// Returns the host of an authority without its port (RFC 3986 section 3.2): a name, or an address without
/// brackets. `None` when the text is not valid in a `Host` header.
pub fn parse(authority: &str) -> Option<&str> {
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

/// Whether a host is this service: one of the given names, `localhost`, or any IP address. IP addresses need
/// no list, because DNS rebinding needs a name.
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
    fn a_host_is_the_part_before_the_port() {
        for (authority, host) in [
            ("desk.example", "desk.example"),
            ("desk.example:8700", "desk.example"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::1]:80", "::1"),
            ("[::1]", "::1"),
        ] {
            assert_eq!(parse(authority), Some(host), "{authority}");
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
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn own_hosts_are_configured_names_localhost_and_addresses() {
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
