//! Host and Origin checks, A76 and A77 (docs/authentication-rules.md).

use std::fmt;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::AppState;
use crate::config::Config;
use crate::web::origin::Origin;
use crate::web::port_hosts::PortHosts;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::oauth::uri;
use hotdesk_domain::network::host;
use hotdesk_http::error_response::HttpError;

/// Bytes of a refused name that are logged: the longest label of a name (RFC 1035 section 2.3.4).
const MAX_LOGGED: usize = 63;

/// Refuses a request whose `Host` is not the service's own: the host of `public_url`, one of
/// `web.allowed_hosts`, that of a port (`web.ports_host`), a name of this machine, or an IP address.
pub async fn check(State(app): State<AppState>, request: Request, next: Next) -> Result<Response, HttpError> {
    let shown = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    let name = shown.and_then(host::parse).ok_or_else(|| Error::invalid("the Host header is not a host"))?;
    if app.hosts.owns(name) {
        return Ok(next.run(request).await);
    }
    // Counted, not written to the audit log, because senders of such requests could fill it.
    metrics::counter!("hotdesk_hosts_refused_total").increment(1);
    tracing::debug!(
        host = name.get(..MAX_LOGGED).unwrap_or(name),
        "refused a Host that is not the service's own"
    );
    Err(Error::forbidden(
        "This Host is none of this service's: its configuration names them (public_url, web.allowed_hosts, web.ports_host)",
    )
    .code(ErrorCode::HostNotAllowed)
    .into())
}

/// Host names and origins that the service owns or allows.
#[derive(Debug)]
pub struct Hosts {
    hosts: Vec<String>,
    origins: Vec<String>,
    ports: Option<PortHosts>,
}

impl Hosts {
    /// Returns the host of `public_url` and the listed hosts and origins of a configuration.
    ///
    /// # Errors
    /// `Internal` with a sentence for a listed origin that is not one.
    pub fn new(config: &Config) -> Result<Self> {
        let public = config.public_url.split_once("://").and_then(|(_, authority)| host::parse(authority));
        let hosts = public.into_iter().chain(listed(&config.web.allowed_hosts));
        let origins = listed(&config.web.allowed_origins).map(|origin| {
            let invalid = |why: &dyn fmt::Display| {
                let form = "list origins such as https://app.example or http://localhost:3000";
                Error::failed(format!("configuration: web.allowed_origins: {origin:?} {why}: {form}"))
            };
            let parts = uri::split(origin).map_err(|why| invalid(&why))?;
            let whole = if parts.rest.is_empty() { Ok(()) } else { Err(invalid(&"has a path")) };
            // Browsers write hosts in lower case.
            whole.map(|()| origin.to_ascii_lowercase())
        });
        Ok(Self {
            hosts: hosts.map(str::to_owned).collect(),
            origins: origins.collect::<Result<_>>()?,
            ports: PortHosts::parse(&config.web.ports_host)?,
        })
    }

    /// Returns the origins in `web.allowed_origins`.
    pub fn origins(&self) -> &[String] {
        &self.origins
    }

    /// Returns the `Origin` of a browser's request if it is in `web.allowed_origins`.
    pub fn allowed_page<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        only_origin(headers).filter(|page| self.lists(page))
    }

    /// Returns the sub-domains of ports (`web.ports_host`), if there are some.
    pub fn ports(&self) -> Option<&PortHosts> {
        self.ports.as_ref()
    }

    fn owns(&self, name: &str) -> bool {
        host::is_own(name, self.hosts.iter().map(String::as_str))
            || self.ports.as_ref().is_some_and(|ports| ports.find(name).is_some())
    }

    /// Returns the `Origin` of a browser's request if it may reach `/mcp`: the service's own or one of
    /// `web.allowed_origins`. `None` when the request has no `Origin`.
    ///
    /// # Errors
    /// `Forbidden` (`origin_not_allowed`) for another origin, or for more than one `Origin` field.
    pub fn page_of(&self, own: &Origin, headers: &HeaderMap) -> Result<Option<HeaderValue>> {
        if !headers.contains_key(header::ORIGIN) {
            return Ok(None);
        }
        let refused =
            || Error::forbidden("This Origin may not reach the MCP server").code(ErrorCode::OriginNotAllowed);
        let page = only_origin(headers).filter(|page| *page == own.0.as_str() || self.lists(page));
        page.map(|page| Some(page.clone())).ok_or_else(refused)
    }

    fn lists(&self, page: &HeaderValue) -> bool {
        self.origins.iter().any(|listed| page == listed.as_str())
    }
}

/// Returns the `Origin` of a request with exactly one.
fn only_origin(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut fields = headers.get_all(header::ORIGIN).iter();
    fields.next().filter(|_| fields.next().is_none())
}

/// Splits a setting at its commas and drops empty parts.
fn listed(setting: &str) -> impl Iterator<Item = &str> {
    setting.split(',').map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Web;

    fn origins(listed: &str) -> Result<Vec<String>> {
        let web = Web { allowed_origins: listed.to_owned(), ..Web::default() };
        Ok(Hosts::new(&Config { web, ..Config::default() })?.origins().to_vec())
    }

    #[test]
    fn only_origins_are_listed() {
        assert_eq!(origins("").unwrap(), [""; 0]);
        let both = origins("https://App.example, http://localhost:3000,").unwrap();
        assert_eq!(both, ["https://app.example", "http://localhost:3000"]);
        for wrong in [
            "app.example",
            "https://app.example/",
            "https://app.example/x",
            "https://*.example",
            "https://app.example; script-src *",
            "null",
            "*",
        ] {
            let refused = origins(&format!("https://fine.example,{wrong}")).unwrap_err();
            assert!(refused.message.contains("web.allowed_origins"), "{refused}");
        }
    }
}
