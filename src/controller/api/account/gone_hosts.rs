//! Hosts that are gone over HTTP, for the operator's account (docs/engines/incus.md#when-a-host-dies).

use axum::Json;
use axum::extract::State;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_http::error_response::{HttpError, Result};
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::billing::gone::{ConfirmGone, GoneHostRecord};

/// Returns the route of hosts that are gone.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(gone))
}

/// Confirms that a host is gone and runs nothing any more.
///
/// For the operator's account: others get 403 `ACCESS_DENIED`. Its computers become `stopped`. The next start of each continues
/// from its replica; those without one wait for the host. 409 `host_not_offline` while the cluster does not count it as offline.
#[utoipa::path(post, path = "/operator/hosts/{name}/gone", tag = "account", params(("name" = String, Path)),
    request_body = ConfirmGone,
    responses((status = 200, description = "The host is gone", body = GoneHostRecord)))]
async fn gone(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(name): Path<String>,
    wanted: std::result::Result<Body<ConfirmGone>, HttpError>,
) -> Result<Json<GoneHostRecord>> {
    app.operator.check(&caller, "confirm that a host of the service is gone").await?;
    let Body(wanted) = wanted?;
    let loss = app.fleet.confirm_gone(&name, &wanted.confirm).await?;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Ok(Json(GoneHostRecord {
        name: loss.host.name,
        status: "gone".to_owned(),
        confirmed_at: loss.host.confirmed_at.iso8601(),
        computers: count(loss.computers),
        with_replica: count(loss.with_replica),
    }))
}
