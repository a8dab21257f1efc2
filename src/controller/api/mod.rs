//! The public API: one folder per audience. Handlers extract, call one service method, convert.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, Uri, header};
use axum::routing::{any, get};
use tower::ServiceExt;
use utoipa_axum::router::OpenApiRouter;

use super::{Shared, audit, auth, console, hosts, idempotent, mcp, metrics, oauth, readable, relay, viewer};
use hotdesk_http::edge;

pub mod access;
pub mod account;
pub mod desktop;
pub mod fleet;
pub mod openapi;
pub mod people;
pub mod service;

/// What an answer with a credential says: nobody keeps it (access.md A6; RFC 6749 section 5.1).
const NO_STORE: [(HeaderName, &str); 1] = [(header::CACHE_CONTROL, "no-store")];

/// Every documented route, with its document.
fn documented() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(fleet::router())
        .merge(desktop::router())
        .merge(access::router())
        .merge(account::router())
        .merge(people::router())
        .merge(service::router())
}

/// The whole API as one router: documented routes, the proxy path, the links to stored bytes.
pub fn router(app: Shared) -> Router {
    let (routes, document) = documented().split_for_parts();
    let noting = idempotent::Noting::new(Arc::clone(&app), &document);
    let document = Arc::new(openapi::complete(document));
    let routes = routes
        .route("/openapi.json", readable::by_any_page(get(move || openapi::answer(Arc::clone(&document)))))
        .route("/desktops/{id}/proxy/{*path}", any(relay::http::proxy))
        .route("/desktops/{id}/ws/{channel}", get(relay::socket::open))
        .merge(viewer::router())
        .merge(console::router())
        .merge(oauth::router())
        .route("/storage/{kind}/{id}/{name}", get(fleet::storage::fetch))
        .route_layer(axum::middleware::from_fn_with_state(noting, idempotent::once))
        .route_layer(axum::middleware::from_fn(auth::live::while_valid))
        .route_layer(axum::middleware::from_fn_with_state(Arc::clone(&app), audit::record))
        .route_layer(axum::middleware::from_fn_with_state(Arc::clone(&app), auth::identify))
        // It has credentials of its own kind (access.md A57).
        .merge(mcp::router(Arc::clone(&app)))
        .route_layer(axum::middleware::from_fn_with_state(Arc::clone(&app), hosts::check))
        .route_layer(axum::middleware::from_fn(metrics::count));
    let inner = edge::wrap(routes).with_state(app);
    Router::new().fallback_service(inner.map_request(canonical))
}

/// Other names of paths, which mean the same route (wire.md 3 and 14).
const ALIASES: [(&str, &str); 2] = [("/projects", "/workspaces"), ("/clients", "/v1/accounts")];

/// Clients use `/api/...` (some `/api/api/...`), and the [`ALIASES`]; all mean the same route (wire.md 1).
fn canonical(mut request: Request) -> Request {
    let Some(rewritten) = rewritten(request.uri()) else { return request };
    *request.uri_mut() = rewritten;
    request
}

fn rewritten(uri: &Uri) -> Option<Uri> {
    let original = uri.path();
    let mut path = original;
    while let Some(rest) = path.strip_prefix("/api").filter(|rest| rest.starts_with('/')) {
        path = rest;
    }
    let renamed = ALIASES.iter().find_map(|(alias, name)| {
        let rest = path.strip_prefix(alias).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        Some(format!("{name}{rest}"))
    });
    let path = renamed.unwrap_or_else(|| path.to_owned());
    if path == original {
        return None;
    }
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    // It was a path and query before and lost only known segments.
    target.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_lead_to_one_route() {
        for (path, expected) in [
            ("/api/workspaces", Some("/workspaces")),
            ("/api/api/computers/x?y=1", Some("/computers/x?y=1")),
            ("/projects", Some("/workspaces")),
            ("/api/projects/by-name/a%20b?x=%2F", Some("/workspaces/by-name/a%20b?x=%2F")),
            ("/api/clients/x/usage?month=2026-11", Some("/v1/accounts/x/usage?month=2026-11")),
            ("/clientsx", None),
            ("/workspaces", None),
            ("/projectsx", None),
            ("/apix/workspaces", None),
            ("/api", None),
        ] {
            let got = rewritten(&path.parse().unwrap()).map(|uri| uri.to_string());
            assert_eq!(got.as_deref(), expected, "{path}");
        }
    }
}
