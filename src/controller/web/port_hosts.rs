//! Sub-domains of ports: each port of each computer has a host, and so an origin, of its own (docs/operating.md).
//!
//! With `web.ports_host = "*.computers.example"` port 3000 of a computer is at `3000-COMPUTER.computers.example`.

use axum::http::{HeaderMap, header};

use crate::web::origin::Origin;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::network::host;

/// Longest suffix: the label before it has at most 42 characters, and a name 253 (RFC 1035 section 2.3.4).
const MAX_SUFFIX: usize = 210;

/// The wildcard of `web.ports_host`.
#[derive(Clone, Debug)]
pub struct PortHosts {
    /// Suffix behind the label of a port, with its dot.
    suffix: String,
}

/// The host of a request to a port. An extension of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortHost {
    /// The computer.
    pub computer: ComputerId,
    /// The port.
    pub port: u16,
    /// Host and port, as the client wrote them.
    pub authority: String,
}

impl PortHosts {
    /// Reads the setting; `None` when it is empty.
    ///
    /// # Errors
    /// `Internal` with a sentence for what is no wildcard of a domain.
    pub fn parse(setting: &str) -> Result<Option<Self>> {
        if setting.is_empty() {
            return Ok(None);
        }
        let domain = setting.strip_prefix("*.").map(str::to_ascii_lowercase);
        let is_name = |name: &String| {
            let labels = name.split('.').all(|label| {
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
                (1..=63).contains(&label.len()) && label.chars().all(plain)
            });
            labels && name.len() < MAX_SUFFIX && name.parse::<std::net::IpAddr>().is_err()
        };
        let domain = domain.filter(is_name).ok_or_else(|| {
            Error::failed(format!(
                "configuration: web.ports_host: {setting:?} is no wildcard: write a domain such as *.computers.example"
            ))
        })?;
        Ok(Some(Self { suffix: format!(".{domain}") }))
    }

    /// Returns the computer and the port of a host name.
    pub fn find(&self, name: &str) -> Option<(ComputerId, u16)> {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let (port, computer) = name.strip_suffix(&self.suffix)?.split_once('-')?;
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
        let port = port.parse().ok().filter(|_| is_number)?;
        let found: ComputerId = computer.parse().ok()?;
        // One spelling, so that one port has one origin.
        (found.to_string() == computer).then_some((found, port))
    }

    /// Returns where a request with these fields leads; `None` for every other host.
    pub fn of(&self, headers: &HeaderMap) -> Option<PortHost> {
        let authority = headers.get(header::HOST)?.to_str().ok()?;
        let (computer, port) = self.find(host::parse(authority)?)?;
        Some(PortHost { computer, port, authority: authority.to_owned() })
    }

    /// Returns the origin of a port, with the scheme and the port of the service's own origin.
    pub fn origin(&self, own: &Origin, computer: ComputerId, port: u16) -> String {
        let (scheme, authority) = own.0.split_once("://").unwrap_or(("http", &own.0));
        let listening = match authority.rsplit_once(':') {
            Some((_, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => format!(":{number}"),
            _ => String::new(),
        };
        format!("{scheme}://{port}-{computer}{}{listening}", self.suffix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4fc9f044-04b4-47c3-9bf5-1abb3902fdf2";

    #[test]
    fn only_wildcards_of_domains_are_settings() {
        assert!(PortHosts::parse("").unwrap().is_none());
        for good in ["*.computers.example", "*.Computers.Example", "*.localhost"] {
            assert!(PortHosts::parse(good).unwrap().is_some(), "{good}");
        }
        for bad in
            ["computers.example", "*", "*.", "*.a..b", "*.10.0.0.1", "*.a/b", "https://*.a", "a*.b", "*.a:80"]
        {
            let refused = PortHosts::parse(bad).unwrap_err();
            assert!(refused.message.contains("web.ports_host"), "{bad}: {refused}");
        }
    }

    #[test]
    fn a_name_has_one_computer_and_one_port() {
        let hosts = PortHosts::parse("*.Computers.example").unwrap().unwrap();
        let id: ComputerId = ID.parse().unwrap();
        for name in
            [format!("3000-{ID}.computers.example"), format!("3000-{}.COMPUTERS.example.", ID.to_uppercase())]
        {
            assert_eq!(hosts.find(&name), Some((id, 3000)), "{name}");
        }
        for name in [
            "computers.example".to_owned(),
            format!("{ID}.computers.example"),
            format!("03000-{ID}.computers.example"),
            format!("+3000-{ID}.computers.example"),
            format!("70000-{ID}.computers.example"),
            format!("a.3000-{ID}.computers.example"),
            format!("3000-{ID}.computers.example.evil"),
            format!("3000-{ID}.evilcomputers.example"),
            format!("3000-{}.computers.example", ID.replace('-', "")),
        ] {
            assert_eq!(hosts.find(&name), None, "{name}");
        }
        for (own, expected) in [
            ("https://desk.example", format!("https://3000-{ID}.computers.example")),
            ("http://127.0.0.1:8700", format!("http://3000-{ID}.computers.example:8700")),
            ("http://[::1]", format!("http://3000-{ID}.computers.example")),
        ] {
            assert_eq!(hosts.origin(&Origin(own.to_owned()), id, 3000), expected, "{own}");
        }
    }
}
