//! Control of screens over HTTP (docs/api/screens.md#control). The computer's agent has the state.

use crate::identity::auth::AuthenticatedCaller;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Method;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::desktop::forward;
use hotdesk_domain::desktop::screen::takeover::TakeFrom;
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_domain::identity::access::{Role, check_role};
use hotdesk_guest::{QUICK_TIMEOUT, percent_encode};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::desktop::action::control::{
    AskForHelp, ControlQuery, ForcedTakeQuery, HandBack, HandBackQuery, MAX_CONTROL_WAIT_SECONDS,
    ScreenControl, TakeControl, TakeControlQuery,
};

/// Longest answer to a taker: the agent waits 15 s for the input of others.
const TAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the routes of the control of screens.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(control, take_control))
        .routes(routes!(hand_back_control))
        .routes(routes!(ask_for_help))
        .routes(routes!(answer_help))
}

/// Returns who controls a screen.
///
/// With `after` and `wait_seconds` the answer comes when something changes, at the latest after that time.
#[utoipa::path(get, path = "/computers/{id}/screens/{screen_id}/control", tag = "screens",
    params(("id" = String, Path), ("screen_id" = String, Path), ControlQuery),
    responses((status = 200, description = "The control; `holder` is null when everybody with access may act",
        body = ScreenControl)))]
pub(crate) async fn control(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, screen)): Path<(String, String)>,
    Query(query): Query<ControlQuery>,
) -> Result<Json<ScreenControl>> {
    // The agent refuses a longer wait.
    let seconds = query.wait_seconds.unwrap_or(0).min(MAX_CONTROL_WAIT_SECONDS);
    let timeout = QUICK_TIMEOUT + Duration::from_secs(seconds.into());
    forward(&app, &caller, &id, Method::GET, &path(&screen, ""), query, None::<&()>, timeout).await
}

/// Takes control of a screen for a time, or renews it.
///
/// Until the hand-back or the end of the time, input of others is refused with 409 `control_held`. The answer
/// comes when their input has ended. With `force` another holder loses the screen in the same step.
#[utoipa::path(post, path = "/computers/{id}/screens/{screen_id}/control", tag = "screens",
    params(("id" = String, Path), ("screen_id" = String, Path), TakeControlQuery), request_body = TakeControl,
    responses((status = 200, description = "The caller has control", body = ScreenControl)))]
pub(crate) async fn take_control(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, screen)): Path<(String, String)>,
    Query(query): Query<TakeControlQuery>,
    Body(body): Body<TakeControl>,
) -> Result<Json<ScreenControl>> {
    if !query.force.unwrap_or(false) {
        let path = path(&screen, "");
        return forward(&app, &caller, &id, Method::POST, &path, (), Some(&body), TAKE_TIMEOUT).await;
    }
    let (_, role) = app.directory.find_computer_as(&caller, &id).await?;
    let from = TakeFrom::forced(Actor::of(&caller), role)?;
    // The proxy path does not reach this route.
    let path = format!("/forced_takes/{}", percent_encode(&screen));
    let query = ForcedTakeQuery { from_people: from == TakeFrom::Anybody };
    let taken = forward(&app, &caller, &id, Method::POST, &path, query, Some(&body), TAKE_TIMEOUT).await;
    taken.map_err(|error| from.refusal(Error::from(error)).into())
}

/// Hands a screen back, with a note for the one who acts next.
///
/// A request for help that waits is answered with the note.
#[utoipa::path(post, path = "/computers/{id}/screens/{screen_id}/control/hand_back", tag = "screens",
    params(("id" = String, Path), ("screen_id" = String, Path), HandBackQuery), request_body = HandBack,
    responses((status = 200, description = "Nobody has control", body = ScreenControl)))]
pub(crate) async fn hand_back_control(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, screen)): Path<(String, String)>,
    Query(query): Query<HandBackQuery>,
    Body(body): Body<HandBack>,
) -> Result<Json<ScreenControl>> {
    let path = if query.force.unwrap_or(false) {
        let (_, role) = app.directory.find_computer_as(&caller, &id).await?;
        check_role(role, Role::Admin)?;
        // The proxy path does not reach this route.
        format!("/forced_hand_backs/{}", percent_encode(&screen))
    } else {
        path(&screen, "/hand_back")
    };
    forward(&app, &caller, &id, Method::POST, &path, (), Some(&body), QUICK_TIMEOUT).await
}

/// Asks a person for help on a screen.
///
/// Whoever listens gets the event `help_requested`. The request ends with an answer, with a hand-back, or
/// after its time.
#[utoipa::path(post, path = "/computers/{id}/screens/{screen_id}/control/help", tag = "screens",
    params(("id" = String, Path), ("screen_id" = String, Path)), request_body = AskForHelp,
    responses((status = 200, description = "The request waits", body = ScreenControl)))]
pub(crate) async fn ask_for_help(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, screen)): Path<(String, String)>,
    Body(body): Body<AskForHelp>,
) -> Result<Json<ScreenControl>> {
    forward(&app, &caller, &id, Method::POST, &path(&screen, "/help"), (), Some(&body), QUICK_TIMEOUT).await
}

/// Answers the request for help on a screen, without taking control.
#[utoipa::path(post, path = "/computers/{id}/screens/{screen_id}/control/answer", tag = "screens",
    params(("id" = String, Path), ("screen_id" = String, Path)), request_body = HandBack,
    responses((status = 200, description = "The request is answered", body = ScreenControl)))]
pub(crate) async fn answer_help(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, screen)): Path<(String, String)>,
    Body(body): Body<HandBack>,
) -> Result<Json<ScreenControl>> {
    forward(&app, &caller, &id, Method::POST, &path(&screen, "/answer"), (), Some(&body), QUICK_TIMEOUT).await
}

fn path(screen: &str, more: &str) -> String {
    format!("/screens/{}/control{more}", percent_encode(screen))
}
