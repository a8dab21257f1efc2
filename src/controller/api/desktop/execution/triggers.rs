//! Triggers that a computer has from its template.

use axum::Json;
use axum::extract::State;
use axum::http::Method;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::desktop::forward;
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_guest::{QUICK_TIMEOUT, percent_encode};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Read, Path};
use hotdesk_wire::programs::trigger::{FireTrigger, TriggerList, TriggerStatus};

/// Returns the routes of triggers.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(triggers)).routes(routes!(fire_trigger))
}

/// Lists the triggers that a computer has from its template, with their last runs.
#[utoipa::path(get, path = "/computers/{id}/triggers", tag = "execution", params(("id" = String, Path)),
    responses((status = 200, description = "The triggers; none without a template", body = TriggerList)))]
async fn triggers(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<TriggerList>> {
    forward(&app, &caller, &id, Method::GET, "/triggers", (), None::<&()>, QUICK_TIMEOUT).await
}

/// Runs the actions of a trigger now, in the background.
#[utoipa::path(post, path = "/computers/{id}/triggers/{trigger}", tag = "execution",
    params(("id" = String, Path), ("trigger" = String, Path)), request_body = FireTrigger,
    responses((status = 200, description = "The trigger before the run", body = TriggerStatus)))]
async fn fire_trigger(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, trigger)): Path<(String, String)>,
    Read(body): Read<FireTrigger>,
) -> Result<Json<TriggerStatus>> {
    let path = format!("/triggers/{}", percent_encode(&trigger));
    forward(&app, &caller, &id, Method::POST, &path, (), Some(&body), QUICK_TIMEOUT).await
}
