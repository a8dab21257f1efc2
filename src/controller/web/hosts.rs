//! Which hosts and which pages may reach us? Our own names, and pages that the configuration names (access.md A76, A77).

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;

use super::origin::Origin;
use super::{App, Shared};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::host;
use hotdesk_http::error_response::HttpError;

/// Bytes of a refused name that the log tells: the longest label of a name (RFC 1035 section 2.3.4).
const MAX_TOLD: usize = 63;

/// Answers only what comes under a name of ours: `public_url`'s, one of `web.allowed_hosts`, this machine's, or an address.
pub async fn check(State(app): State<Shared>, request: Request, next: Next) -> Result<Response, HttpError> {
    let shown = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    let name = shown.and_then(host::of).ok_or_else(|| Error::invalid("the Host header is not a host"))?;
    if host::is_own(name, app.own_hosts()) {
        return Ok(next.run(request).await);
    }
    // Before anything that is written down: counted, because whoever sends these could fill a log.
    metrics::counter!("hotdesk_hosts_refused_total").increment(1);
    tracing::debug!(host = name.get(..MAX_TOLD).unwrap_or(name), "a Host that is none of ours is refused");
    Err(Error::forbidden(
        "This Host is none of this service's: its configuration names them (public_url, web.allowed_hosts)",
    )
    .code("host_not_allowed")
    .into())
}

impl App {
    fn own_hosts(&self) -> impl Iterator<Item = &str> {
        let public = self.config.public_url.split_once("://").and_then(|(_, authority)| host::of(authority));
        public.into_iter().chain(listed(&self.config.web.allowed_hosts))
    }

    /// The page that a browser says it acts for, where that may reach `/mcp`: one of our own or a listed one. `None` where
    /// no browser says anything.
    ///
    /// # Errors
    /// `origin_not_allowed`.
    pub fn page_of(&self, own: &Origin, headers: &HeaderMap) -> Result<Option<String>> {
        let mut said = headers.get_all(header::ORIGIN).iter();
        let Some(first) = said.next() else { return Ok(None) };
        let page = first.to_str().ok().filter(|_| said.next().is_none());
        let known = |page: &&str| {
            *page == own.0 || listed(&self.config.web.allowed_origins).any(|listed| listed == *page)
        };
        let refused =
            || Error::forbidden("This Origin may not reach the MCP server").code("origin_not_allowed");
        page.filter(known).map(|page| Some(page.to_owned())).ok_or_else(refused)
    }
}

/// The parts of a setting that are separated by commas.
fn listed(setting: &str) -> impl Iterator<Item = &str> {
    setting.split(',').map(str::trim).filter(|part| !part.is_empty())
}
