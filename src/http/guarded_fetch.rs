//! How is a URL fetched that somebody else chose? So that it leads nowhere but to the public Internet (threats.md T6).
//!
//! Its name is resolved once, everything that it stands for must be public and none of this host's own addresses, and the
//! connection goes to what was checked. No redirects, no proxy, no cookies, https alone, and bounds on bytes, time and number.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::{HeaderMap, StatusCode, header};
use reqwest::{Certificate, Url};
use tokio::sync::Semaphore;

use hotdesk_domain::address::is_public;
use hotdesk_domain::error::{Error, Result};

/// Fetches at once: each waits for somebody else's server.
const AT_ONCE: usize = 8;

/// Who says what a name stands for.
#[async_trait]
pub trait Names: Send + Sync {
    /// The addresses of a host.
    ///
    /// # Errors
    /// When it has none, or nobody answers.
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// This host's own resolver.
struct System;

#[async_trait]
impl Names for System {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 443)).await?.map(|address| address.ip()).collect())
    }
}

/// What the fetcher takes for granted; only tests have a reason to change it, for their servers are on this host.
#[derive(Clone)]
pub struct Trust {
    /// Who says what a name stands for.
    pub names: Arc<dyn Names>,
    /// Which addresses may be connected to.
    pub may_reach: fn(IpAddr) -> bool,
    /// The only authority that is believed about certificates; `None`: those that this host believes.
    pub authority: Option<Certificate>,
}

impl Default for Trust {
    fn default() -> Self {
        Self { names: Arc::new(System), may_reach: is_outside, authority: None }
    }
}

/// Whether an address is public and not this host's own: only its own can be bound.
pub fn is_outside(address: IpAddr) -> bool {
    is_public(address) && UdpSocket::bind((address, 0)).is_err()
}

/// How much one fetch may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of the body.
    pub bytes: usize,
    /// Time for all of it, the name's resolution included.
    pub patience: Duration,
}

/// What was fetched.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The status; redirects are not followed, so it may be theirs.
    pub status: StatusCode,
    /// The header.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Vec<u8>,
}

/// The fetcher.
pub struct Guarded {
    trust: Trust,
    turns: Semaphore,
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").finish_non_exhaustive()
    }
}

impl Default for Guarded {
    fn default() -> Self {
        Self::new(Trust::default())
    }
}

impl Guarded {
    /// A fetcher with this trust.
    pub fn new(trust: Trust) -> Self {
        Self { trust, turns: Semaphore::new(AT_ONCE) }
    }

    /// Fetches an https URL with `GET`.
    ///
    /// # Errors
    /// `Invalid` for a URL that is none or leads where it may not, and for more bytes than may be; `Unavailable` when nobody
    /// answers in time. What exactly happened is in the context, for the log alone: who chose the URL must not look around
    /// through this host's eyes.
    pub async fn get(&self, url: &str, accept: &'static str, bounds: Bounds) -> Result<Fetched> {
        let fetched = tokio::time::timeout(bounds.patience, async {
            let _turn = self.turns.acquire().await.map_err(Error::internal)?;
            self.fetch(url, accept, bounds).await
        });
        fetched.await.unwrap_or_else(|_| Err(unanswered("no answer in time")))
    }

    async fn fetch(&self, url: &str, accept: &'static str, bounds: Bounds) -> Result<Fetched> {
        let url: Url = url.parse().map_err(|error| Error::invalid("The URL is none").context(error))?;
        let host = url.host_str().filter(|_| url.scheme() == "https");
        let host = host.ok_or_else(|| Error::invalid("The URL is not https"))?;
        let addresses = self.checked(host).await?;
        let client = self.client(host, &addresses, bounds)?;
        let mut response = client.get(url).header(header::ACCEPT, accept).send().await.map_err(unanswered)?;
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(unanswered)? {
            if body.len() + part.len() > bounds.bytes {
                return Err(Error::invalid(format!(
                    "What the URL leads to has more than {} bytes",
                    bounds.bytes
                )));
            }
            body.extend_from_slice(&part);
        }
        Ok(Fetched { status: response.status(), headers: response.headers().clone(), body })
    }

    /// What a host stands for, when it may be reached: all of it, for a name with a public and a private address is a trap.
    async fn checked(&self, host: &str) -> Result<Vec<IpAddr>> {
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse();
        let addresses = match literal {
            Ok(address) => vec![address],
            Err(_) => self.trust.names.addresses(host).await.map_err(unanswered)?,
        };
        if addresses.is_empty() {
            return Err(unanswered("the name has no address"));
        }
        match addresses.iter().find(|address| !(self.trust.may_reach)(**address)) {
            Some(address) => {
                Err(Error::invalid("The URL does not lead to the public Internet").context(address))
            }
            None => Ok(addresses),
        }
    }

    /// A client for one request: it knows one name, and nobody else's word for it.
    fn client(&self, host: &str, addresses: &[IpAddr], bounds: Bounds) -> Result<reqwest::Client> {
        // A process has one provider; whoever was first is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        // Port 0: the URL's own.
        let addresses: Vec<SocketAddr> =
            addresses.iter().map(|address| SocketAddr::new(*address, 0)).collect();
        let mut builder = reqwest::Client::builder()
            .https_only(true)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .resolve_to_addrs(host, &addresses)
            .timeout(bounds.patience)
            .user_agent(concat!("hotdesk/", env!("CARGO_PKG_VERSION")));
        if let Some(authority) = &self.trust.authority {
            builder = builder.tls_certs_only([authority.clone()]);
        }
        builder.build().map_err(Error::internal)
    }
}

fn unanswered(why: impl fmt::Display) -> Error {
    Error::unavailable("The URL could not be fetched").context(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_s_own_addresses_are_not_outside() {
        for own in ["127.0.0.1", "::1", "10.0.0.1", "169.254.169.254"] {
            assert!(!is_outside(own.parse().unwrap()), "{own}");
        }
        assert!(is_outside("198.51.100.7".parse().unwrap()), "a public address that is nobody's here");
    }
}
