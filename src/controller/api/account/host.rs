//! Report of the host over HTTP, for the operator's account (docs/api/accounts.md#host).

use axum::Json;
use axum::extract::State;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_http::error_response::{HttpError, Result};
use hotdesk_http::extract::Query;
use hotdesk_wire::billing::host::{HostReport, HostReportQuery};

/// Returns the route of the report.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(host))
}

/// Returns the report of the host: resources, engines, capacity, checks and leftovers.
///
/// For the operator's account: others get 403 `ACCESS_DENIED`. `thorough` runs every check, which can take
/// minutes.
#[utoipa::path(get, path = "/operator/host", tag = "account", params(HostReportQuery),
    responses((status = 200, description = "The report", body = HostReport)))]
async fn host(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    query: std::result::Result<Query<HostReportQuery>, HttpError>,
) -> Result<Json<HostReport>> {
    app.operator.check(&caller, "see the host of the service").await?;
    let Query(query) = query?;
    Ok(Json(app.host_reports.get(query.thorough.unwrap_or_default()).await?))
}
