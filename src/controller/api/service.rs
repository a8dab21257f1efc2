//! How is the service itself? Routes without a key.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use hotdesk_http::error_response::Result;

/// The service's routes.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(health)).routes(routes!(metrics))
}

/// `GET /health`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`; a service that is not answers 503.
    pub status: String,
    /// hotdesk's version.
    pub version: String,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// The engine in use.
    pub engine: String,
}

/// Whether the service and its store answer.
#[utoipa::path(get, path = "/health", tag = "service", responses(
    (status = 200, description = "It does", body = Health),
    (status = 503, description = "It does not", body = hotdesk_wire::error::ErrorBody)))]
async fn health(State(app): State<Shared>) -> Result<Json<Health>> {
    app.store.check().await?;
    Ok(Json(Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: app.started.elapsed().as_secs(),
        engine: app.fleet.engine().name().to_owned(),
    }))
}

/// Counters, in the Prometheus exposition format.
#[utoipa::path(get, path = "/metrics", tag = "service", responses(
    (status = 200, description = "The counters", body = String, content_type = "text/plain")))]
async fn metrics(State(app): State<Shared>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.metrics.render())
        .into_response()
}
