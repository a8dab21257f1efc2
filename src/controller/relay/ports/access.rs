//! Access to a port: by key, by a link, or for everybody where the template says so.

use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};

use super::links::{self, PortTicket};
use super::parse_port;
use crate::AppState;
use crate::identity::auth::is_known_form;
use crate::identity::auth::session::cookie_value;
use crate::web::caller::IdentifiedCaller;
use crate::web::port_hosts::PortHost;
use hotdesk_base::ids::{ComputerId, ComputerRef};
use hotdesk_base::revocation_registry::Lease;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::{Caller, Credential};
use hotdesk_http::bearer::{self, Credentials};
use hotdesk_store::fleet::computers::Computer;

/// A request that may be sent to a port.
#[derive(Debug)]
pub(super) struct AdmittedRequest {
    pub computer: Computer,
    pub port: u16,
    /// Who may change the computer; `None` for anybody at an open port.
    pub sender: Option<Caller>,
}

/// Admits a request by its key, or one without a key to an open port.
///
/// # Errors
/// Why the key was refused; `Unauthenticated` without a key at any other port, whether or not the computer exists.
pub(super) async fn admit(app: &AppState, parts: &Parts, id: &str, port: &str) -> Result<AdmittedRequest> {
    let found = parts.extensions.get::<IdentifiedCaller>();
    match found.map(|IdentifiedCaller(found)| found.clone()) {
        Some(Ok(caller)) => {
            // A program may change anything at any request, whatever its method.
            let computer = app.directory.find_computer(&caller.for_change(), id).await?;
            Ok(AdmittedRequest { computer, port: parse_port(port)?, sender: Some(caller) })
        }
        refused => {
            let open = if shows_key(&parts.headers) { None } else { find_open(app, id, port).await? };
            let refusal = || match refused {
                Some(Err(error)) => error,
                Some(Ok(_)) | None => Error::unauthenticated("Missing API key"),
            };
            open.ok_or_else(refusal)
        }
    }
}

/// Whether a request has what looks like an API key or a token of the console: a wrong one is refused
/// everywhere.
fn shows_key(headers: &HeaderMap) -> bool {
    matches!(bearer::credentials(headers), Credentials::Bearer(key) if is_known_form(key))
}

/// The computer and its port, if its template opens that to everybody.
async fn find_open(app: &AppState, id: &str, port: &str) -> Result<Option<AdmittedRequest>> {
    let (Ok(id), Ok(port)) = (id.parse::<ComputerId>(), parse_port(port)) else { return Ok(None) };
    let Some(computer) = app.store.computer(&ComputerRef::Id(id)).await? else { return Ok(None) };
    let is_open = computer.ports.iter().any(|declared| declared.number == port && declared.is_open);
    Ok(is_open.then_some(AdmittedRequest { computer, port, sender: None }))
}

/// Admits a browser by what its link gave it. The sender of the link's ticket must still have access to the computer.
///
/// # Errors
/// `Unauthenticated` for an unknown or expired grant, and after the end of the sender's credential; those of
/// [`Directory::find_computer`](crate::computers::directory::Directory::find_computer).
pub(super) async fn admit_visitor(
    app: &AppState,
    grant: &str,
) -> Result<(AdmittedRequest, Lease<Credential>)> {
    let found = app.port_grants.computer(grant).ok_or_else(expired)?;
    let computer = app.store.computer(&ComputerRef::Id(found)).await?.ok_or_else(expired)?;
    let link = app.port_grants.look_up(&computer, grant).ok_or_else(expired)?;
    admit_link(app, &computer, link).await
}

/// Admits a browser at a host of a port by the cookie that its link set; `None` without a valid one, and for requests with a
/// key.
///
/// # Errors
/// `Forbidden` for a request that the page of another origin made; those of [`admit_visitor`].
pub(super) async fn admit_cookie(
    app: &AppState,
    parts: &Parts,
    host: &PortHost,
    origin: &str,
) -> Result<Option<(AdmittedRequest, Lease<Credential>)>> {
    let headers = &parts.headers;
    let is_secure = origin.starts_with("https://");
    let Some(cookie) = cookie_value(headers, links::cookie_name(is_secure)).filter(|_| !shows_key(headers))
    else {
        return Ok(None);
    };
    let Some(computer) = app.store.computer(&ComputerRef::Id(host.computer)).await? else { return Ok(None) };
    let link = app.port_grants.look_up(&computer, cookie.reveal()).filter(|link| link.port == host.port);
    let Some(link) = link else { return Ok(None) };
    if !is_own_page(&parts.method, headers, origin) {
        // Hosts of other computers are the same site for browsers, which send the cookie for their pages too.
        return Err(Error::forbidden("Access denied: the page of another origin sent this request"));
    }
    admit_link(app, &computer, link).await.map(Some)
}

/// Whether a browser sends a request for a page of this origin, or because a person opens an address (Fetch Metadata,
/// <https://www.w3.org/TR/fetch-metadata/>).
fn is_own_page(method: &Method, headers: &HeaderMap, origin: &str) -> bool {
    let field = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let opens = field("sec-fetch-mode") == Some("navigate")
        && field("sec-fetch-dest") == Some("document")
        && method.is_safe();
    match (field("origin"), field("sec-fetch-site")) {
        (Some(page), _) => page == origin,
        (None, None | Some("same-origin" | "none")) => true,
        (None, Some(_)) => opens,
    }
}

fn expired() -> Error {
    Error::unauthenticated("This address has expired: ask for another link to the port of the computer")
}

async fn admit_link(
    app: &AppState,
    computer: &Computer,
    link: PortTicket,
) -> Result<(AdmittedRequest, Lease<Credential>)> {
    // Taken before the look-ups, so that a later revocation is noticed.
    let lease = app.store.credentials.lease(link.caller.credential);
    if !app.store.ended_credentials(&[link.caller.credential]).await?.is_empty() {
        return Err(expired());
    }
    crate::audit::set_actor(link.caller.credential, link.caller.account);
    let changer = link.caller.for_change();
    let computer = app.directory.find_computer(&changer, &computer.id.to_string()).await?;
    Ok((AdmittedRequest { computer, port: link.port, sender: Some(link.caller) }, lease))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    const ORIGIN: &str = "https://3000-c.computers.example";

    #[test]
    fn only_requests_of_the_own_page_and_of_a_person_count() {
        let get = Method::GET;
        for (method, fields, expected) in [
            (&get, &[][..], true),
            (&get, &[("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors")], true),
            (&get, &[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")], true),
            (&Method::POST, &[("origin", ORIGIN), ("sec-fetch-site", "same-origin")], true),
            (
                &get,
                &[
                    ("sec-fetch-site", "cross-site"),
                    ("sec-fetch-mode", "navigate"),
                    ("sec-fetch-dest", "document"),
                ],
                true,
            ),
            (
                &get,
                &[
                    ("sec-fetch-site", "same-site"),
                    ("sec-fetch-mode", "navigate"),
                    ("sec-fetch-dest", "iframe"),
                ],
                false,
            ),
            (
                &Method::POST,
                &[
                    ("sec-fetch-site", "same-site"),
                    ("sec-fetch-mode", "navigate"),
                    ("sec-fetch-dest", "document"),
                ],
                false,
            ),
            (&get, &[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "no-cors")], false),
            (&get, &[("origin", "https://3000-d.computers.example")], false),
            (&get, &[("origin", "null")], false),
            (
                &get,
                &[("origin", "https://3000-d.computers.example"), ("sec-fetch-site", "same-origin")],
                false,
            ),
        ] {
            let headers: HeaderMap = fields
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            assert_eq!(is_own_page(method, &headers, ORIGIN), expected, "{method} {fields:?}");
        }
    }
}
