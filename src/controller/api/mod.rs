//! Public API: handlers by subject, and the router.
//!
//! Handlers extract the request, call one service method and convert the result.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, Uri, header};
use axum::routing::{any, get};
use tower::ServiceExt;

use crate::api::api_router::{ApiRouter, ServedRoutes};
use crate::identity::{auth, oauth, pages};
use crate::web::{console, cors, hosts, metrics, transport_security, unread_answers, viewer};
use crate::{App, AppState, audit, relay};
use hotdesk_http::edge;

pub mod access;
pub mod account;
mod admission;
mod api_router;
pub mod chat;
pub mod desktop;
pub mod fleet;
pub mod idempotency;
pub mod openapi;
mod passive_reads;
pub mod people;
pub mod service;
pub mod templates;

/// Responses with a credential are never cached, A6 (docs/authentication-rules.md); RFC 6749 section 5.1.
const NO_STORE: [(HeaderName, &str); 1] = [(header::CACHE_CONTROL, "no-store")];

/// Returns every documented route: to serve it, or with its description for the OpenAPI document.
fn documented<R: ApiRouter>() -> R {
    R::new()
        .merge(fleet::router())
        .merge(desktop::router())
        .merge(access::router())
        .merge(account::router())
        .merge(people::router())
        .merge(templates::router())
        .merge(chat::router())
        .merge(service::router())
}

/// Builds the router of the whole API: documented routes, the proxy path, ports, channels, pages, storage links
/// and the route of the MCP server.
pub fn router(app: AppState, mcp: Router<AppState>) -> Router {
    let shared = Arc::clone(&app);
    let (routes, operations) = documented::<ServedRoutes>().into_parts();
    let idempotency_layer = idempotency::IdempotencyLayer::new(Arc::clone(&app), operations);
    let identified = |routes: Router<AppState>| {
        routes
            .route_layer(axum::middleware::from_fn(passive_reads::mark))
            // Within `once`: a repeated DELETE gets its stored answer, although the object is gone.
            .route_layer(axum::middleware::from_fn_with_state(Arc::clone(&app), admission::check))
            .route_layer(axum::middleware::from_fn(fleet::clone_errors::complete))
            .route_layer(axum::middleware::from_fn_with_state(idempotency_layer.clone(), idempotency::once))
            .route_layer(axum::middleware::from_fn(auth::revocation::while_valid))
            .route_layer(axum::middleware::from_fn_with_state(Arc::clone(&app), audit::record))
            .route_layer(axum::middleware::from_fn_with_state(
                Arc::clone(&app),
                unread_answers::count_for_account,
            ))
            .route_layer(axum::middleware::from_fn_with_state(Arc::clone(&app), auth::identify))
    };
    let for_programs = routes
        .route("/desktops/{id}/proxy/{*path}", any(relay::http::proxy))
        .route("/computers/{id}/ports/{port}", any(relay::ports::http::forward))
        .route("/computers/{id}/ports/{port}/", any(relay::ports::http::forward))
        .route("/computers/{id}/ports/{port}/{*path}", any(relay::ports::http::forward))
        .route("/computers/{id}/ssh", get(relay::ssh::open))
        .route("/computers/{id}/tcp/{port}", get(relay::ports::tcp::open))
        .route("/storage/{kind}/{id}/{name}", get(fleet::storage::fetch));
    let for_people = Router::new()
        .route("/openapi.json", cors::allow_any_origin(get(openapi::answer)))
        .route("/desktops/{id}/ws/{channel}", get(relay::socket::open))
        .route("/port-hosts/{*path}", any(relay::ports::http::at_host))
        .route("/port-hosts/", any(relay::ports::http::at_host))
        .route("/port-links/{ticket}", get(relay::ports::links::enter))
        .route("/ports/{grant}", any(relay::ports::http::visit))
        .route("/ports/{grant}/", any(relay::ports::http::visit))
        .route("/ports/{grant}/{*path}", any(relay::ports::http::visit))
        .merge(console::router())
        .merge(viewer::router())
        .merge(pages::router())
        .merge(oauth::router());
    let routes = identified(for_programs)
        // The routes' own fallback would bypass the layer and answer preflights with 405.
        .method_not_allowed_fallback(edge::method_not_allowed)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&app), cors::allow_listed_origins))
        // Pages of people have no CORS, A65 (docs/authentication-rules.md).
        .merge(identified(for_people))
        // MCP has its own kind of credential, A57 (docs/authentication-rules.md).
        .merge(mcp)
        .route_layer(axum::middleware::from_fn(chat::chat_errors::shape))
        .route_layer(axum::middleware::from_fn_with_state(Arc::clone(&app), unread_answers::count_for_source))
        .route_layer(axum::middleware::from_fn_with_state(Arc::clone(&app), hosts::check))
        .route_layer(axum::middleware::from_fn(metrics::count));
    let inner = routes
        .fallback(pages::unknown)
        .method_not_allowed_fallback(edge::method_not_allowed)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&app), transport_security::announce))
        .layer(axum::middleware::from_fn(edge::pass))
        .with_state(app);
    Router::new().fallback_service(inner.map_request(move |request| routed(&shared, request)))
}

/// Leads a request to its route: a host of a port to that port, whatever its path, and every other one to [`canonical`].
fn routed(app: &App, mut request: Request) -> Request {
    let Some(host) = app.hosts.ports().and_then(|ports| ports.of(request.headers())) else {
        return canonical(request);
    };
    *request.uri_mut() = relay::ports::http::uri_at_host(request.uri());
    request.extensions_mut().insert(host);
    request
}

/// Mark of a request whose path had an older name, as in [`ALIASES`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct OlderName;

/// Aliases of paths (docs/api/workspaces.md, docs/api/accounts.md, docs/api/threads.md).
const ALIASES: [(&str, &str); 3] =
    [("/projects", "/workspaces"), ("/clients", "/v1/accounts"), ("/v1/threads", "/chat/threads")];

/// Rewrites a path to its route: removes `/api` prefixes (some clients send `/api/api/...`) and resolves
/// [`ALIASES`] (docs/api/conventions.md).
fn canonical(mut request: Request) -> Request {
    let Some((rewritten, renamed)) = rewritten(request.uri()) else { return request };
    *request.uri_mut() = rewritten;
    if renamed {
        request.extensions_mut().insert(OlderName);
    }
    request
}

/// Returns the URI of the route, and whether the path had an older name. `None` when the URI is that of the
/// route.
fn rewritten(uri: &Uri) -> Option<(Uri, bool)> {
    let original = uri.path();
    let mut path = original;
    while let Some(rest) = path.strip_prefix("/api").filter(|rest| rest.starts_with('/')) {
        path = rest;
    }
    let renamed = ALIASES.iter().find_map(|(alias, name)| {
        let rest = path.strip_prefix(alias).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        Some(format!("{name}{rest}"))
    });
    let is_renamed = renamed.is_some();
    let path = renamed.unwrap_or_else(|| path.to_owned());
    if path == original {
        return None;
    }
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    // The scheme and host of a target in absolute form stay: the host checks read them.
    let mut parts = uri.clone().into_parts();
    // The result is a valid path and query, because only known segments were removed.
    parts.path_and_query = Some(target.parse().ok()?);
    Some((Uri::from_parts(parts).ok()?, is_renamed))
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
            ("http://localhost/api/workspaces", Some("http://localhost/workspaces")),
            ("/v1/threads?computer_id=x", Some("/chat/threads?computer_id=x")),
            ("/api/v1/threads/thr_1", Some("/chat/threads/thr_1")),
            ("/v1/threadsx", None),
            ("/clientsx", None),
            ("/workspaces", None),
            ("/projectsx", None),
            ("/apix/workspaces", None),
            ("/api", None),
        ] {
            let got = rewritten(&path.parse().unwrap());
            let renamed = got.as_ref().is_some_and(|(_, renamed)| *renamed);
            assert_eq!(got.map(|(uri, _)| uri.to_string()).as_deref(), expected, "{path}");
            let is_alias = ["/projects", "/clients/", "/v1/threads"].iter().any(|it| path.contains(it));
            assert_eq!(renamed, is_alias && expected.is_some(), "{path}");
        }
    }
}
