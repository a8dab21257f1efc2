//! HTTP and WebSocket between a client and a program in a computer: any method, bodies streamed both ways.
//!
//! The program's answers come from the controller's origin, so they are confined as other content of computers is
//! (T4, docs/security.md): see [`super::fields`].

use std::future::pending;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::access::{self, AdmittedRequest};
use super::fields::{self, ForwardedRequest};
use super::{links, prefix};
use crate::AppState;
use crate::identity::auth::revocation::under;
use crate::relay::bounded_body::{BoundedBody, Progress};
use crate::web::origin::Origin;
use crate::web::port_hosts::PortHost;
use crate::web::request_lease::RequestLease;
use crate::web::source::{self, Source};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::keyed_semaphore::Permit;
use hotdesk_domain::error::Error;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::Caller;
use hotdesk_http::error_response::Result;
use hotdesk_http::serve::Peer;
use hotdesk_http::untrusted_content::ProgramAnswer;

/// Most requests and sockets of one computer at a time: a browser's page takes six and its sockets. Each holds up to
/// 160 KiB here for a client that does not read.
const MAX_PER_COMPUTER: usize = 128;
/// Most of them while strangers send more, to open ports: keys have room beside them.
const MAX_OPEN_PER_COMPUTER: usize = MAX_PER_COMPUTER / 2;
/// Most of a stranger's, to open ports of one computer: a browser's six connections, and two sockets.
const MAX_OPEN_PER_SOURCE: usize = 8;
/// Longest time in which neither body moves: programs answer long questions, and their event streams have heartbeats.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// The same for strangers, who could hold all that they may have for nothing.
const OPEN_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Beginning of the routes of hosts of ports.
const AT_HOST: &str = "/port-hosts/";
/// Name of the socket's task.
const SOCKET: &str = "port socket";

/// Permits of a request: of its computer, and of a stranger's client address there.
type Permits = (Permit<ComputerId>, Option<Permit<(ComputerId, Source)>>);

/// A request to a program, and where its root is.
struct PortRequest {
    admitted: AdmittedRequest,
    /// Public origin of the controller, or of the port.
    origin: String,
    /// Path of the program's root there; empty at a host of its own.
    prefix: String,
    /// Path and query at the program; `None` without a slash behind the port.
    target: Option<Uri>,
}

/// `ANY /computers/{id}/ports/{port}/{path}`. A computer that is asleep is woken by a request with a key, as by any other
/// command.
pub async fn forward(State(app): State<AppState>, origin: Origin, request: Request) -> Result<Response> {
    let request = request.into_parts();
    let (id, port, target) = target(&request.0.uri)?;
    let admitted = access::admit(&app, &request.0, &id, &port).await?;
    let prefix = prefix(admitted.computer.id, admitted.port);
    relay(&app, PortRequest { admitted, origin: origin.0, prefix, target }, request).await
}

/// `ANY /ports/{grant}/{path}`: a browser that a link let in. It may do what the sender of the link's ticket may, at this
/// port alone, and ends with that sender's access.
pub async fn visit(State(app): State<AppState>, origin: Origin, request: Request) -> Result<Response> {
    let request = request.into_parts();
    let (grant, target) = visited(&request.0.uri)?;
    let (admitted, lease) = access::admit_visitor(&app, &grant).await?;
    let prefix = format!("/ports/{grant}");
    let visit = PortRequest { admitted, origin: origin.0, prefix, target };
    let answering = async { relay(&app, visit, request).await.into_response() };
    let mut response = under(Some(lease), answering).await;
    let fields = response.headers_mut();
    // The address is the credential: it must not leave with a link to another site.
    fields.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // The page has no origin (see `fields`), so that its own requests need permission. Who knows the address has it anyway.
    fields.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    Ok(response)
}

/// Requests to a host of a port: the host says which one.
pub async fn at_host(State(app): State<AppState>, own: Origin, request: Request) -> Result<Response> {
    let request = request.into_parts();
    let parts = &request.0;
    let host = parts.extensions.get::<PortHost>().cloned().ok_or_else(|| Error::not_found("Not found"))?;
    let path = parts.uri.path().strip_prefix(AT_HOST).unwrap_or_default();
    let (scheme, _) = own.0.split_once("://").unwrap_or(("http", ""));
    let origin = format!("{scheme}://{}", host.authority);
    if let Some(ticket) = path.strip_prefix(links::AT_HOST) {
        return links::enter_host(&app, &parts.method, &host, ticket, scheme == "https").await;
    }
    let target = Some(own_target(path, parts.uri.query())?);
    if let Some((admitted, lease)) = access::admit_cookie(&app, parts, &host, &origin).await? {
        let visit = PortRequest { admitted, origin, prefix: String::new(), target };
        let answering = async { relay(&app, visit, request).await.into_response() };
        return Ok(under(Some(lease), answering).await);
    }
    let (computer, port) = (host.computer.to_string(), host.port.to_string());
    let admitted = access::admit(&app, parts, &computer, &port).await?;
    relay(&app, PortRequest { admitted, origin, prefix: String::new(), target }, request).await
}

/// The route of a request to a host of a port: its path below a beginning that no client reaches without such a host.
pub fn uri_at_host(uri: &Uri) -> Uri {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let routed = target.strip_prefix('/').map(|target| format!("{AT_HOST}{target}"));
    routed.and_then(|target| target.parse().ok()).unwrap_or_else(|| Uri::from_static("/none"))
}

async fn relay(app: &AppState, wanted: PortRequest, request: (Parts, Body)) -> Result<Response> {
    let (mut parts, body) = request;
    // Pages of programs have no origin here, so none of their requests is of the same origin: this one is of the controller's own
    // page, which must not run a program's script.
    let field = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let below_path = !wanted.prefix.is_empty();
    if below_path
        && field("sec-fetch-site") == Some("same-origin")
        && field("sec-fetch-dest") != Some("document")
    {
        return Err(Error::forbidden("programs are no part of the pages of this service").into());
    }
    let PortRequest { admitted, origin, prefix, target } = wanted;
    let AdmittedRequest { computer, port, sender } = admitted;
    let Some(target) = target else {
        // Relative links of a page work only below a slash.
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let to = HeaderValue::try_from(format!("{prefix}/{query}"));
        let to = to.map_err(|_| Error::invalid("the query cannot be read"))?;
        return Ok((StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, to)]).into_response());
    };
    let permit = permits(app, &parts, computer.id, sender.is_none())?;
    let idle = if sender.is_some() { IDLE_TIMEOUT } else { OPEN_IDLE_TIMEOUT };
    let guest = match &sender {
        Some(_) => app.fleet.guest(&computer).await?,
        // Strangers do not run up costs.
        None => app.fleet.guest_if_awake(&computer).await?,
    };
    // An agent whose machine was suspended or killed may send no end of the connection.
    let (fleet, id_of_run) = (app.fleet.clone(), computer.id);
    let ended = async move {
        fleet.wait_ended(id_of_run).await;
    };
    let own = target.to_string();
    let forwarded = ForwardedRequest {
        address: address(app, &parts),
        origin: &origin,
        prefix: &prefix,
        target: &own,
        port,
        configured: &app.port_fields,
    };
    let upgrade = fields::asks_for_socket(&parts.method, &parts.headers);
    let client = upgrade.then(|| parts.extensions.remove::<hyper::upgrade::OnUpgrade>()).flatten();
    let progress = Progress::starting();
    let mut sent = Request::new(Body::new(BoundedBody::new(body, u64::MAX, idle, progress.clone())));
    *sent.method_mut() = parts.method.clone();
    *sent.uri_mut() = target;
    *sent.headers_mut() = fields::request_fields(&parts.headers, &forwarded, client.is_some());
    let mut answer = tokio::select! {
        answer = guest.request_port(port, sent, &app.tasks, permit, ended) => answer?,
        () = progress.stalled(idle) => {
            let seconds = idle.as_secs();
            let message = format!("The program on port {port} of the computer did not answer within {seconds} seconds");
            return Err(Error::timed_out(message).into());
        }
    };
    let headers = fields::answer_fields(answer.headers(), &forwarded);
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let Some(client) = client else { return Err(unasked(port).into()) };
        let upgraded = (client, hyper::upgrade::on(&mut answer));
        connect(app, sender, computer.id, &parts, upgraded).await?;
        return Ok((StatusCode::SWITCHING_PROTOCOLS, fields::socket_fields(answer.headers())).into_response());
    }
    let (answered, content) = answer.into_parts();
    let content = BoundedBody::new(Body::new(content), u64::MAX, idle, Progress::starting());
    let mut response = Response::new(Body::new(content));
    *response.status_mut() = answered.status;
    *response.headers_mut() = headers;
    response.extensions_mut().insert(ProgramAnswer);
    Ok(response)
}

/// Takes the permits of a request: one of its computer, and one of its client address if that is a stranger's.
///
/// # Errors
/// `Unavailable` when one of them has no more.
fn permits(app: &AppState, parts: &Parts, computer: ComputerId, is_stranger: bool) -> Result<Permits> {
    let busy = |most: usize, from: &str| {
        let message = format!("{most} requests{from} to ports of this computer are in progress");
        Error::unavailable(message).retry_after(1)
    };
    let peer = parts.extensions.get::<ConnectInfo<Peer>>();
    let client = peer.map(|ConnectInfo(peer)| Source::of_request(&app.trusted_proxies, peer, &parts.headers));
    // A proxy on this machine that is not among the trusted ones stands for all clients.
    let stranger = client.filter(|client| is_stranger && !client.is_this_machine());
    let of_source = stranger.map(|client| {
        let permit = app.port_strangers.try_acquire((computer, client), MAX_OPEN_PER_SOURCE);
        permit.ok_or_else(|| busy(MAX_OPEN_PER_SOURCE, " without a key from your address"))
    });
    let most = if is_stranger { MAX_OPEN_PER_COMPUTER } else { MAX_PER_COMPUTER };
    let of_source = of_source.transpose()?;
    let of_computer = app.port_requests.try_acquire(computer, most).ok_or_else(|| busy(most, ""))?;
    Ok((of_computer, of_source))
}

/// Connects both sides of a socket until one of them, the sender's access or the computer's run ends.
async fn connect(
    app: &AppState,
    sender: Option<Caller>,
    computer: ComputerId,
    parts: &Parts,
    upgraded: (hyper::upgrade::OnUpgrade, hyper::upgrade::OnUpgrade),
) -> Result<()> {
    let Some(caller) = sender else {
        // An open port stays open.
        return Ok(app.sockets.splice(&parts.extensions, SOCKET, upgraded, OPEN_IDLE_TIMEOUT, pending())?);
    };
    let lease = RequestLease::of(Some(app.store.credentials.lease(caller.credential)));
    // Access may have ended while the computer woke. Its password changes with the people who may use it.
    let (changer, id) = (caller.for_change(), computer.to_string());
    let computer = lease.recording(app.directory.find_computer(&changer, &id)).await?;
    let password = app.store.passwords.lease(computer.password_digest());
    let until = async move {
        tokio::select! {
            _error = lease.lost() => {}
            () = password.revoked() => {}
        }
    };
    Ok(app.sockets.splice(&parts.extensions, SOCKET, upgraded, IDLE_TIMEOUT, until)?)
}

/// Splits `/computers/{id}/ports/{port}/{path}?{query}` into the computer, the port and the program's own target, which
/// is `None` without a slash behind the port. Path and query stay as the client wrote them.
///
/// # Errors
/// `NotFound` for another path; `Invalid` for one that is no target of a request.
fn target(uri: &Uri) -> Result<(String, String, Option<Uri>)> {
    let unknown = || Error::not_found("Not found");
    let mut segments = uri.path().splitn(6, '/').skip(2);
    let (Some(id), Some("ports"), Some(port)) = (segments.next(), segments.next(), segments.next()) else {
        return Err(unknown().into());
    };
    let Some(path) = segments.next() else { return Ok((id.to_owned(), port.to_owned(), None)) };
    Ok((id.to_owned(), port.to_owned(), Some(own_target(path, uri.query())?)))
}

/// Splits `/ports/{grant}/{path}?{query}` like [`target`].
///
/// # Errors
/// `NotFound` for another path; `Invalid` for one that is no target of a request.
fn visited(uri: &Uri) -> Result<(String, Option<Uri>)> {
    let mut segments = uri.path().splitn(4, '/').skip(2);
    let grant = segments.next().ok_or_else(|| Error::not_found("Not found"))?;
    let Some(path) = segments.next() else { return Ok((grant.to_owned(), None)) };
    Ok((grant.to_owned(), Some(own_target(path, uri.query())?)))
}

/// The program's own target of a request, from its path without the first slash, and its query.
fn own_target(path: &str, query: Option<&str>) -> Result<Uri> {
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let parsed = format!("/{path}{query}").parse::<Uri>();
    Ok(parsed.map_err(|error| Error::invalid("the path cannot be read").context(error))?)
}

/// The client's address, behind any trusted proxies.
fn address(app: &AppState, parts: &Parts) -> Option<std::net::IpAddr> {
    let ConnectInfo(peer) = parts.extensions.get::<ConnectInfo<Peer>>()?;
    source::address(&app.trusted_proxies, peer, &parts.headers)
}

/// The program switched to a protocol that nobody asked for.
fn unasked(port: u16) -> Error {
    let message = format!(
        "The program on port {port} of the computer changed to a protocol that the request did not ask for"
    );
    Error::bad_gateway(message).code(ErrorCode::PortBroken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_what_follows_the_port() {
        for (uri, id, port, own) in [
            ("/computers/x/ports/3000/", "x", "3000", Some("/")),
            ("/computers/x/ports/3000/a/b%2Fc?d=%20&e", "x", "3000", Some("/a/b%2Fc?d=%20&e")),
            ("/computers/x/ports/3000//a", "x", "3000", Some("//a")),
            ("/computers/x/ports/3000/http://other/", "x", "3000", Some("/http://other/")),
            ("/computers/x/ports/3000?a", "x", "3000", None),
        ] {
            let (found, at, target) = target(&uri.parse().unwrap()).unwrap();
            let target = target.map(|target| target.to_string());
            assert_eq!((&*found, &*at, target.as_deref()), (id, port, own), "{uri}");
        }
        assert!(target(&"/computers/x/other".parse().unwrap()).is_err());
        for (uri, own) in [
            ("/ports/g/", Some("/")),
            ("/ports/g/a/b%2Fc?d=%20&e", Some("/a/b%2Fc?d=%20&e")),
            ("/ports/g//a/../b", Some("//a/../b")),
            ("/ports/g?a", None),
        ] {
            let (grant, target) = visited(&uri.parse().unwrap()).unwrap();
            let target = target.map(|target| target.to_string());
            assert_eq!((&*grant, target.as_deref()), ("g", own), "{uri}");
        }
    }
}
