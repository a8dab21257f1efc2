//! Client address of a request, by which rate limits are counted.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Once};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::HeaderMap;
use axum::http::request::Parts;

use crate::App;
use hotdesk_domain::error::Error;
use hotdesk_domain::network::address::customer;
use hotdesk_domain::network::forwarded::TrustedProxies;
use hotdesk_http::error_response::HttpError;
use hotdesk_http::serve::Peer;

/// The warning about a proxy that is not among the trusted ones, once for each start.
static UNNAMED_PROXY: Once = Once::new();

/// Client for rate limits: an IPv4 address, an IPv6 /64 network (one customer), or this machine (`None`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source(Option<IpAddr>);

impl Source {
    /// Returns the client of a request, behind any trusted proxies.
    pub fn of_request(trusted: &TrustedProxies, peer: &Peer, headers: &HeaderMap) -> Self {
        Self(address(trusted, peer, headers).and_then(customer))
    }

    /// Whether it is this machine. Many clients may share it: a proxy that is not among the trusted ones. Its
    /// wrong passwords must not lock out the correct one.
    pub fn is_this_machine(self) -> bool {
        self.0.is_none()
    }
}

/// Writes an address, a network with `/64`, or `this machine`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("this machine"),
            Some(IpAddr::V4(address)) => address.fmt(f),
            Some(IpAddr::V6(network)) => write!(f, "{network}/64"),
        }
    }
}

/// Returns the client's IP address, behind any trusted proxies (`X-Forwarded-For` is honoured from their
/// addresses); `None` for a process on this machine.
pub fn address(trusted: &TrustedProxies, peer: &Peer, headers: &HeaderMap) -> Option<IpAddr> {
    let Peer::Tcp(address) = peer else { return None };
    if address.ip().to_canonical().is_loopback()
        && headers.contains_key("x-forwarded-for")
        && !trusted.has(address.ip())
    {
        UNNAMED_PROXY.call_once(|| {
            tracing::warn!(
                "a proxy on this host sends X-Forwarded-For, but trusted_proxies does not name it: all its clients count \
                 as one for limits and in the audit log; set trusted_proxies = \"127.0.0.1, ::1\""
            );
        });
    }
    let forwarded = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    Some(trusted.client(address.ip(), forwarded))
}

impl FromRequestParts<Arc<App>> for Source {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, HttpError> {
        let peer = parts.extensions.get::<ConnectInfo<Peer>>();
        let ConnectInfo(peer) = peer.ok_or_else(|| Error::internal("a request without a peer"))?;
        Ok(Self::of_request(&app.trusted_proxies, peer, &parts.headers))
    }
}

#[cfg(test)]
impl Source {
    /// Returns the source of an address.
    pub fn parse(text: &str) -> Self {
        Self(customer(text.parse().expect("an address")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_an_address_or_a_customers_network() {
        let source = Source::parse;
        assert_eq!(source("192.0.2.1"), source("::ffff:192.0.2.1"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::2:3"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert!(source("127.0.0.1").is_this_machine() && source("::1").is_this_machine());
        assert!(!source("192.0.2.1").is_this_machine());
        for (text, shown) in
            [("192.0.2.1", "192.0.2.1"), ("2001:db8::7", "2001:db8::/64"), ("::1", "this machine")]
        {
            assert_eq!(source(text).to_string(), shown);
        }
    }
}
