//! The public API: one folder per audience. Handlers extract, call one service method, convert.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::Uri;
use axum::routing::{any, get};
use tower::ServiceExt;
use utoipa_axum::router::OpenApiRouter;

use super::{Shared, metrics, relay, viewer};
use crate::http::edge;

pub mod desktop;
pub mod fleet;
pub mod openapi;
pub mod service;

/// Every documented route, with its document.
fn documented() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().merge(fleet::router()).merge(desktop::router()).merge(service::router())
}

/// The whole API as one router: documented routes, the proxy path, the links to stored bytes.
pub fn router(app: Shared) -> Router {
    let (routes, document) = documented().split_for_parts();
    let document = Arc::new(openapi::complete(document));
    let routes = routes
        .route("/openapi.json", get(move || openapi::answer(Arc::clone(&document))))
        .route("/desktops/{id}/proxy/{*path}", any(relay::http::proxy))
        .route("/desktops/{id}/ws/{channel}", get(relay::socket::open))
        .merge(viewer::router())
        .route("/storage/{kind}/{id}/{name}", get(fleet::storage::fetch))
        .route_layer(axum::middleware::from_fn(metrics::count));
    let inner = edge::wrap(routes).with_state(app);
    Router::new().fallback_service(inner.map_request(canonical))
}

/// Clients use `/api/...` (some `/api/api/...`), and `projects` for workspaces; all mean the same route (wire.md 1, 3).
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
    let path = match path.strip_prefix("/projects") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("/workspaces{rest}"),
        _ => path.to_owned(),
    };
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
