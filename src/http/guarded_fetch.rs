//! Fetch of a URL that a client chose, restricted to the public Internet (T6, docs/security.md).
//!
//! The host name is resolved once. All its addresses must be public and none may belong to this host; the
//! connection goes to a checked address. Only https, except for webhooks; no redirects, proxy or cookies; limits
//! on bytes, time and concurrency.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::{HeaderMap, Method, StatusCode, header};
use reqwest::{Certificate, Url};
use tokio::sync::Semaphore;

use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::network::address::is_public;

/// Most concurrent fetches; each may wait for a slow server.
const MAX_CONCURRENT: usize = 8;

/// A resolver of host names.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// The addresses of a host.
    ///
    /// # Errors
    /// When the name has no address, or the resolver fails.
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// This host's resolver.
struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 443)).await?.map(|address| address.ip()).collect())
    }
}

/// Trust settings of the fetcher. Only tests change them, because their servers are on this host.
#[derive(Clone)]
pub struct Trust {
    /// The resolver of host names.
    pub names: Arc<dyn Resolver>,
    /// Whether an address may be connected to.
    pub may_reach: fn(IpAddr) -> bool,
    /// The only trusted certificate authority; `None` for those of this host.
    pub authority: Option<Certificate>,
}

impl Default for Trust {
    fn default() -> Self {
        Self { names: Arc::new(SystemResolver), may_reach: is_outside, authority: None }
    }
}

/// Whether an address is public and not this host's own. A host can bind only its own addresses.
pub fn is_outside(address: IpAddr) -> bool {
    is_public(address) && UdpSocket::bind((address, 0)).is_err()
}

/// Limits of one fetch.
#[derive(Clone, Copy, Debug)]
pub struct FetchLimits {
    /// Largest body in bytes.
    pub bytes: usize,
    /// Longest fetch, including the resolution of the name.
    pub timeout: Duration,
}

/// The response to a fetch.
#[derive(Clone, Debug)]
pub struct FetchResponse {
    /// The status. Redirects are not followed, so it may be 3xx.
    pub status: StatusCode,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

/// A request to a URL that a client chose.
#[derive(Clone, Debug)]
pub struct OutgoingRequest {
    /// The method.
    pub method: Method,
    /// The URL; `http` or `https`.
    pub url: String,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

/// Which addresses a request may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Public ones that are not this host's.
    Public,
    /// All. An operator chose that.
    All,
}

/// Fetcher of URLs that clients chose.
pub struct GuardedFetcher {
    trust: Trust,
    permits: Semaphore,
}

impl fmt::Debug for GuardedFetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedFetcher").finish_non_exhaustive()
    }
}

impl Default for GuardedFetcher {
    fn default() -> Self {
        Self::new(Trust::default())
    }
}

impl GuardedFetcher {
    /// A fetcher with these trust settings.
    pub fn new(trust: Trust) -> Self {
        Self { trust, permits: Semaphore::new(MAX_CONCURRENT) }
    }

    /// A fetcher with the same trust settings, and permits of its own: neither waits for slow servers of the other.
    #[must_use]
    pub fn separate(&self, concurrent: usize) -> Self {
        Self { trust: self.trust.clone(), permits: Semaphore::new(concurrent) }
    }

    /// Sends a request, and returns the status of the answer. Its body is not read.
    ///
    /// # Errors
    /// `Invalid` for an invalid URL and an address that may not be reached; `Unavailable` when there is no answer within
    /// `timeout`. As with [`Self::get`], the details are only in the context.
    pub async fn send(
        &self,
        request: OutgoingRequest,
        reach: Reach,
        timeout: Duration,
    ) -> Result<StatusCode> {
        // The caller bounds this wait: slow receivers of others must not use up the time of this request.
        let _permit = self.permits.acquire().await.map_err(Error::internal)?;
        let sent = tokio::time::timeout(timeout, async {
            let (url, host) = parse(&request.url, &["https", "http"])?;
            let addresses = self.resolve_checked(&host, reach).await?;
            let client = self.client(&url, &host, &addresses, timeout)?;
            let sending = client.request(request.method, url).headers(request.headers).body(request.body);
            // The URL may hold a secret, such as that of a chat's webhook.
            Ok(sending.send().await.map_err(|error| unanswered(error.without_url()))?.status())
        });
        sent.await.unwrap_or_else(|_| Err(unanswered("no answer in time")))
    }

    /// Fetches an https URL with `GET`.
    ///
    /// # Errors
    /// `Invalid` for an invalid URL, an address that is not public, and a body above the limit; `Unavailable`
    /// when there is no answer in time. The details are only in the context, for the log: a client must not
    /// probe networks through this host.
    pub async fn get(&self, url: &str, accept: &'static str, limits: FetchLimits) -> Result<FetchResponse> {
        let fetched = tokio::time::timeout(limits.timeout, async {
            let _permit = self.permits.acquire().await.map_err(Error::internal)?;
            self.fetch(url, accept, limits).await
        });
        fetched.await.unwrap_or_else(|_| Err(unanswered("no answer in time")))
    }

    async fn fetch(&self, url: &str, accept: &'static str, limits: FetchLimits) -> Result<FetchResponse> {
        let (url, host) = parse(url, &["https"])?;
        let addresses = self.resolve_checked(&host, Reach::Public).await?;
        let client = self.client(&url, &host, &addresses, limits.timeout)?;
        let mut response = client.get(url).header(header::ACCEPT, accept).send().await.map_err(unanswered)?;
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(unanswered)? {
            if body.len() + part.len() > limits.bytes {
                return Err(Error::invalid(format!(
                    "What the URL leads to has more than {} bytes",
                    limits.bytes
                )));
            }
            body.extend_from_slice(&part);
        }
        Ok(FetchResponse { status: response.status(), headers: response.headers().clone(), body })
    }

    /// Resolves a host and checks every address: a name with a public and a private address is an attack.
    async fn resolve_checked(&self, host: &str, reach: Reach) -> Result<Vec<IpAddr>> {
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse();
        let addresses = match literal {
            Ok(address) => vec![address],
            Err(_) => self.trust.names.addresses(host).await.map_err(unanswered)?,
        };
        if addresses.is_empty() {
            return Err(unanswered("the name has no address"));
        }
        let is_refused = |address: &&IpAddr| reach == Reach::Public && !(self.trust.may_reach)(**address);
        match addresses.iter().find(is_refused) {
            Some(address) => {
                Err(Error::invalid("The URL does not lead to the public Internet").context(address))
            }
            None => Ok(addresses),
        }
    }

    /// A client for one request that connects only to the checked addresses.
    fn client(
        &self,
        url: &Url,
        host: &str,
        addresses: &[IpAddr],
        timeout: Duration,
    ) -> Result<reqwest::Client> {
        // A process has one crypto provider; an earlier one is equally good.
        drop(rustls::crypto::ring::default_provider().install_default());
        // Port 0 means the port of the URL.
        let addresses: Vec<SocketAddr> =
            addresses.iter().map(|address| SocketAddr::new(*address, 0)).collect();
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .resolve_to_addrs(host, &addresses)
            .timeout(timeout)
            .user_agent(concat!("hotdesk/", env!("CARGO_PKG_VERSION")));
        if let Some(authority) = &self.trust.authority {
            builder = builder.tls_certs_only([authority.clone()]);
        } else if url.scheme() == "http" {
            // No redirect leads to https, so the certificate authorities of the host need not be read.
            builder = builder.tls_certs_only([]);
        }
        builder.build().map_err(Error::internal)
    }
}

/// Parses a URL with one of these schemes; returns its host too.
fn parse(url: &str, schemes: &[&str]) -> Result<(Url, String)> {
    let url: Url = url.parse().map_err(|error| Error::invalid("The URL is invalid").context(error))?;
    let host = url.host_str().filter(|_| schemes.contains(&url.scheme())).map(ToOwned::to_owned);
    let host = host.ok_or_else(|| Error::invalid(format!("The URL is not {}", schemes.join(" or "))))?;
    Ok((url, host))
}

fn unanswered(why: impl fmt::Display) -> Error {
    Error::unavailable("The URL could not be fetched").context(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_host_are_not_outside() {
        for own in ["127.0.0.1", "::1", "10.0.0.1", "169.254.169.254"] {
            assert!(!is_outside(own.parse().unwrap()), "{own}");
        }
        assert!(is_outside("198.51.100.7".parse().unwrap()), "a public address that this host does not have");
    }
}
