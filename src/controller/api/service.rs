//! Health check, which needs no key, and metrics.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::web::source::Source;
use hotdesk_http::error_response::Result;

/// Returns the routes of the service itself.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(health)).routes(routes!(metrics))
}

/// `GET /health`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Always `ok`; a service that is not healthy responds 503.
    pub status: String,
    /// Version of hotdesk.
    pub version: String,
    /// Seconds since the start of the service.
    pub uptime_seconds: u64,
    /// Name of the engine of computers for which nobody chose an isolation.
    pub engine: String,
    /// Isolations that computers may have, the default first.
    pub isolations: Vec<String>,
    /// `single`, or `leader` or `follower` of several controllers over one database.
    pub role: String,
}

/// Checks that the service and its database respond.
#[utoipa::path(get, path = "/health", tag = "service", responses(
    (status = 200, description = "The service is healthy", body = Health),
    (status = 503, description = "The service is not healthy", body = hotdesk_wire::error::ErrorBody)))]
async fn health(State(app): State<AppState>) -> Result<Json<Health>> {
    app.store.check().await?;
    let offers = app.fleet.engine().offers();
    Ok(Json(Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: app.started.elapsed().as_secs(),
        engine: offers.default().engine.to_owned(),
        isolations: offers.isolations().into_iter().map(|isolation| isolation.name().to_owned()).collect(),
        // A follower answers without an application (relay::peers).
        role: if app.config.store.is_shared() { "leader" } else { "single" }.to_owned(),
    }))
}

/// Returns the metrics in the Prometheus exposition format.
///
/// With `web.metrics_key_file` they need its key, else only callers on the service's machine read them.
#[utoipa::path(get, path = "/metrics", tag = "service", responses(
    (status = 200, description = "The metrics", body = String, content_type = "text/plain"),
    (status = 401, description = "The key is missing or wrong", body = hotdesk_wire::error::ErrorBody),
    (status = 403, description = "The caller is elsewhere", body = hotdesk_wire::error::ErrorBody)))]
async fn metrics(State(app): State<AppState>, source: Source, headers: HeaderMap) -> Result<Response> {
    app.metrics_access.check(source, &headers)?;
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, app.metrics.render()).into_response())
}
