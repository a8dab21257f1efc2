//! HTTP and WebSocket between a client and a program in a computer: any method, bodies streamed both ways.
//!
//! The program's answers come from the controller's origin, so they are confined as other content of computers is
//! (T4, docs/security.md): see [`super::fields`].

use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::fields::{self, ForwardedRequest};
use super::parse_port;
use crate::AppState;
use crate::identity::auth::AuthenticatedCaller;
use crate::relay::bounded_body::{BoundedBody, Progress};
use crate::web::origin::Origin;
use crate::web::request_lease::RequestLease;
use crate::web::source;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::error::Error;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::Caller;
use hotdesk_http::error_response::Result;
use hotdesk_http::serve::Peer;
use hotdesk_http::untrusted_content::ProgramAnswer;

/// Most requests and sockets of one computer at a time: a browser's page takes six and its sockets. Each holds up to
/// 160 KiB here for a client that does not read.
const MAX_PER_COMPUTER: usize = 128;
/// Longest time in which neither body moves: programs answer long questions, and their event streams have heartbeats.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// Name of the socket's task.
const SOCKET: &str = "port socket";

/// `ANY /computers/{id}/ports/{port}/{path}`. A computer that is asleep is woken, as by any other command.
pub async fn forward(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    request: Request,
) -> Result<Response> {
    let (id, port, target) = target(request.uri())?;
    // A program may change anything at any request, whatever its method.
    let changer = caller.for_change();
    let computer = app.directory.find_computer(&changer, &id).await?;
    let port = parse_port(&port)?;
    let prefix = prefix(computer.id, port);
    let Some(target) = target else {
        // Relative links of a page work only below a slash.
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        let to = HeaderValue::try_from(format!("{prefix}/{query}"));
        let to = to.map_err(|_| Error::invalid("the query cannot be read"))?;
        return Ok((StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, to)]).into_response());
    };
    let permit = app.port_requests.try_acquire(computer.id, MAX_PER_COMPUTER).ok_or_else(|| {
        let message = format!("{MAX_PER_COMPUTER} requests to ports of this computer are in progress");
        Error::unavailable(message).retry_after(1)
    })?;
    let guest = app.fleet.guest(&computer).await?;
    // An agent whose machine was suspended or killed may send no end of the connection.
    let (fleet, id_of_run) = (app.fleet.clone(), computer.id);
    let ended = async move {
        fleet.wait_ended(id_of_run).await;
    };
    let (mut parts, body) = request.into_parts();
    let own = target.to_string();
    let forwarded = ForwardedRequest {
        address: address(&app, &parts),
        origin: &origin.0,
        prefix: &prefix,
        target: &own,
        port,
    };
    let upgrade = fields::asks_for_socket(&parts.method, &parts.headers);
    let client = upgrade.then(|| parts.extensions.remove::<hyper::upgrade::OnUpgrade>()).flatten();
    let progress = Progress::starting();
    let mut sent = Request::new(Body::new(BoundedBody::new(body, u64::MAX, IDLE_TIMEOUT, progress.clone())));
    *sent.method_mut() = parts.method.clone();
    *sent.uri_mut() = target;
    *sent.headers_mut() = fields::request_fields(&parts.headers, &forwarded, client.is_some());
    let mut answer = tokio::select! {
        answer = guest.request_port(port, sent, &app.tasks, permit, ended) => answer?,
        () = progress.stalled(IDLE_TIMEOUT) => {
            let message = format!("The program on port {port} of the computer did not answer within an hour");
            return Err(Error::timed_out(message).into());
        }
    };
    let headers = fields::answer_fields(answer.headers(), &forwarded);
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let Some(client) = client else { return Err(unasked(port).into()) };
        let upgraded = (client, hyper::upgrade::on(&mut answer));
        connect(&app, &caller, &id, &parts, upgraded).await?;
        return Ok((StatusCode::SWITCHING_PROTOCOLS, fields::socket_fields(answer.headers())).into_response());
    }
    let (answered, content) = answer.into_parts();
    let content = BoundedBody::new(Body::new(content), u64::MAX, IDLE_TIMEOUT, Progress::starting());
    let mut response = Response::new(Body::new(content));
    *response.status_mut() = answered.status;
    *response.headers_mut() = headers;
    response.extensions_mut().insert(ProgramAnswer);
    Ok(response)
}

/// Connects both sides of a socket until one of them, the caller's access or the computer's run ends.
async fn connect(
    app: &AppState,
    caller: &Caller,
    id: &str,
    parts: &Parts,
    upgraded: (hyper::upgrade::OnUpgrade, hyper::upgrade::OnUpgrade),
) -> Result<()> {
    let lease = RequestLease::of(Some(app.store.credentials.lease(caller.credential)));
    // Access may have ended while the computer woke. Its password changes with the people who may use it.
    let computer = lease.recording(app.directory.find_computer(&caller.for_change(), id)).await?;
    let password = app.store.passwords.lease(computer.password_digest());
    let until = async move {
        tokio::select! {
            _error = lease.lost() => {}
            () = password.revoked() => {}
        }
    };
    Ok(app.sockets.splice(&parts.extensions, SOCKET, upgraded, until)?)
}

/// The path of a port's root, as clients write it.
fn prefix(computer: ComputerId, port: u16) -> String {
    format!("/api/computers/{computer}/ports/{port}")
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
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let parsed = format!("/{path}{query}").parse::<Uri>();
    let own = parsed.map_err(|error| Error::invalid("the path cannot be read").context(error))?;
    Ok((id.to_owned(), port.to_owned(), Some(own)))
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
    }
}
