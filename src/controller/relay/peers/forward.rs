//! Forwarding of one request to the leader: body and answer as streams, and upgrades.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::fields;
use crate::relay::bounded_body::{BoundedBody, Progress};
use crate::web::source::Source;
use hotdesk_base::keyed_semaphore::{KeyedSemaphore, Permit};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::network::forwarded::TrustedProxies;
use hotdesk_http::edge::REQUEST_ID;
use hotdesk_http::serve::{ClientMayPause, Peer};
use hotdesk_http::socket::Sockets;

/// Longest time without a byte in either direction: the longest pause of any client. The leader has shorter ones.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// Most requests and sockets at the leader, whose listener takes 1024 connections of one address.
const MAX_FORWARDED: usize = 1000;
/// Most of them of one client address: a quarter, so that one client does not exclude the others.
const MAX_PER_SOURCE: usize = MAX_FORWARDED / 4;
/// How long a connection to the leader is kept for the next request. The leader closes idle ones after 10 s, and a request that
/// meets the close would fail.
const POOL_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a connection to the leader, in a network of the operator.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Silence after which a connection is probed, so that a leader that is gone without a trace is noticed in half a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Probes without an answer that end a connection.
const KEEP_ALIVE_RETRIES: u32 = 3;

/// Id of a request in the log of the leader, as an extension of its answer.
#[derive(Clone, Debug)]
pub(super) struct LeadersRequestId(pub(super) HeaderValue);

/// Permits of a forwarded request, until its answer or its socket ends.
type Permits = (OwnedSemaphorePermit, Option<Permit<Source>>);

/// Client of the leader.
#[derive(Debug)]
pub(super) struct Forwarder {
    http: reqwest::Client,
    sockets: Sockets,
    trusted: TrustedProxies,
    all: Arc<Semaphore>,
    sources: KeyedSemaphore<Source>,
}

impl Forwarder {
    /// Makes the client. Its sockets are tasks of the group. `trusted` are the proxies before this controller.
    ///
    /// # Errors
    /// `Internal` when TLS cannot be set up.
    pub(super) fn new(is_encrypted: bool, trusted: TrustedProxies, tasks: &Tasks) -> Result<Self> {
        // A follower has none of the services that install it before they speak TLS. Another one may be installed already.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_TIMEOUT)
            .tcp_keepalive(KEEP_ALIVE)
            .tcp_keepalive_interval(KEEP_ALIVE)
            .tcp_keepalive_retries(KEEP_ALIVE_RETRIES);
        if !is_encrypted {
            // Plain HTTP needs no certificate authorities.
            builder = builder.tls_certs_only([]);
        }
        Ok(Self {
            http: builder.build().map_err(Error::internal)?,
            sockets: Sockets::new(tasks.clone()),
            trusted,
            all: Arc::new(Semaphore::new(MAX_FORWARDED)),
            sources: KeyedSemaphore::default(),
        })
    }

    /// Takes the permits of a request.
    ///
    /// # Errors
    /// `Unavailable` when there are too many, in all or of its client address.
    fn permits(&self, parts: &Parts) -> Result<Permits> {
        let busy = || Error::unavailable("Too many requests are in progress").retry_after(1);
        let peer = parts.extensions.get::<ConnectInfo<Peer>>();
        let source = peer.map(|ConnectInfo(peer)| Source::of_request(&self.trusted, peer, &parts.headers));
        // A proxy on this machine that is not among the trusted ones stands for all clients.
        let source = source.filter(|source| !source.is_this_machine());
        let of_source =
            source.map(|source| self.sources.try_acquire(source, MAX_PER_SOURCE).ok_or_else(busy));
        let of_source = of_source.transpose()?;
        Ok((Arc::clone(&self.all).try_acquire_owned().map_err(|_| busy())?, of_source))
    }

    /// Sends a request to the leader at this address and returns its answer. `replaced` ends when another one leads; `closed`
    /// is the same for an upgraded connection.
    ///
    /// # Errors
    /// `Unavailable` when the leader cannot be reached, or too many requests are forwarded; `BadGateway` when it broke off, so
    /// that it is not known what it did; `TimedOut` after [`IDLE_TIMEOUT`] of silence.
    pub(super) async fn forward(
        &self,
        leader: &str,
        request: Request,
        replaced: impl Future<Output = ()>,
        closed: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Response> {
        let (mut parts, body) = request.into_parts();
        let permits = self.permits(&parts)?;
        let upgrade = fields::upgrade(&parts.headers).is_some();
        let client = upgrade.then(|| parts.extensions.remove::<OnUpgrade>()).flatten();
        let headers = fields::of_request(&parts, client.is_some());
        let mut sent = self.http.request(parts.method.clone(), target(leader, &parts.uri)?).headers(headers);
        let progress = Progress::starting();
        // Else a request without a body would become one with an empty body of unknown length.
        if parts.headers.contains_key(header::CONTENT_LENGTH)
            || parts.headers.contains_key(header::TRANSFER_ENCODING)
        {
            let body = BoundedBody::new(body, u64::MAX, IDLE_TIMEOUT, progress.clone());
            sent = sent.body(reqwest::Body::wrap_stream(Body::new(body).into_data_stream()));
        }
        let answer = tokio::select! {
            answer = sent.send() => answer.map_err(failure)?,
            () = progress.stalled(IDLE_TIMEOUT) => {
                return Err(Error::timed_out("The leading controller did not answer"));
            }
            () = replaced => return Err(broken_off()),
        };
        let mut answer: axum::http::Response<reqwest::Body> = answer.into();
        let status = answer.status();
        let is_switching = status == StatusCode::SWITCHING_PROTOCOLS;
        let mut headers = fields::passing(answer.headers(), is_switching);
        let id = headers.remove(REQUEST_ID);
        let may_pause = headers.remove(fields::MAY_PAUSE).is_some();
        let mut response = if is_switching {
            let Some(client) = client else {
                return Err(Error::bad_gateway("The leading controller changed the protocol unasked"));
            };
            let upgraded = (client, hyper::upgrade::on(&mut answer));
            let closed = async move {
                closed.await;
                drop(permits);
            };
            self.sockets.splice(&parts.extensions, "forwarded socket", upgraded, IDLE_TIMEOUT, closed)?;
            Response::new(Body::empty())
        } else {
            let content = Body::new(answer.into_body());
            let content = BoundedBody::new(content, u64::MAX, IDLE_TIMEOUT, Progress::starting());
            // The permits end with the body.
            let content = content.map_frame(move |frame| {
                let _held = &permits;
                frame
            });
            let mut response = Response::new(Body::new(content));
            // The leader does not see a client that stops to read what this controller has already received.
            if may_pause {
                response.extensions_mut().insert(ClientMayPause::unlimited());
            }
            response
        };
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        if let Some(id) = id {
            response.extensions_mut().insert(LeadersRequestId(id));
        }
        Ok(response)
    }
}

/// Returns the URL of a request at the leader.
///
/// # Errors
/// `NotFound` for a target that is no path; `Invalid` for a path that a URL cannot have: its dot segments would be resolved, so
/// that the leader would get another path than this controller.
fn target(leader: &str, uri: &Uri) -> Result<reqwest::Url> {
    let unknown = || Error::not_found("Not found");
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    // Anything else could change the host.
    let path = Some(path).filter(|path| path.starts_with('/')).ok_or_else(unknown)?;
    if is_resolved(uri.path()) {
        return Err(Error::invalid("the path has a backslash, or a segment . or .."));
    }
    format!("{leader}{path}").parse().map_err(|_| unknown())
}

/// Whether a URL changes the segments of a path (WHATWG URL standard).
fn is_resolved(path: &str) -> bool {
    let is_dots = |segment: &str| {
        let segment = segment.to_ascii_lowercase().replace("%2e", ".");
        segment == "." || segment == ".."
    };
    path.contains('\\') || path.split('/').any(is_dots)
}

fn failure(error: reqwest::Error) -> Error {
    let is_unreached = error.is_connect();
    // Its query may have a token.
    let error = error.without_url();
    if is_unreached {
        return Error::unavailable("The leading controller cannot be reached").retry_after(1).context(error);
    }
    broken_off().context(error)
}

fn broken_off() -> Error {
    Error::bad_gateway("The leading controller broke off: it is not known whether it ran the request")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_path_of_a_request_comes_from_the_client() {
        for (uri, url) in [
            ("/workspaces?a=b%20c", Some("http://10.0.0.5:8700/workspaces?a=b%20c")),
            ("//evil.example/x", Some("http://10.0.0.5:8700//evil.example/x")),
            ("/@evil.example", Some("http://10.0.0.5:8700/@evil.example")),
            ("http://evil.example/x", Some("http://10.0.0.5:8700/x")),
            ("http://evil.example", Some("http://10.0.0.5:8700/")),
            ("/a/.b/c..?d=/../e", Some("http://10.0.0.5:8700/a/.b/c..?d=/../e")),
            ("/a/../b", None),
            ("/a/.", None),
            ("/a/%2E./b", None),
            ("/a\\b", None),
            ("*", None),
        ] {
            let found = target("http://10.0.0.5:8700", &uri.parse().unwrap());
            assert_eq!(found.ok().as_ref().map(reqwest::Url::as_str), url, "{uri}");
        }
    }
}
