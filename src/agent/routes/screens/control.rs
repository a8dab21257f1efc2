//! Routes of the control of a screen (docs/api/screens.md#control).

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json as Answer, Router};

use crate::actions::ActionRunner;
use hotdesk_domain::desktop::screen::takeover::TakeFrom;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json, Path, Query};
use hotdesk_http::headers::actor::ActingAs;
use hotdesk_wire::desktop::action::control::{
    AskForHelp, ControlQuery, ForcedTakeQuery, HandBack, ScreenControl, TakeControl,
};

/// Routes of the control. The proxy path of the controller reaches all but `/forced_hand_backs` and
/// `/forced_takes`, which the controller calls for those who may use force.
pub fn router(runner: ActionRunner) -> Router {
    Router::new()
        .route("/screens/{id}/control", get(read).post(take))
        .route("/screens/{id}/control/hand_back", post(hand_back))
        .route("/screens/{id}/control/help", post(ask))
        .route("/screens/{id}/control/answer", post(answer))
        .route("/forced_hand_backs/{id}", post(force_hand_back))
        .route("/forced_takes/{id}", post(force_take))
        .with_state(runner)
}

async fn read(
    State(runner): State<ActionRunner>,
    Path(screen): Path<String>,
    Query(query): Query<ControlQuery>,
) -> Result<Answer<ScreenControl>> {
    Ok(Answer(runner.control(&screen, &query).await?))
}

async fn take(
    State(runner): State<ActionRunner>,
    ActingAs(by): ActingAs,
    Path(screen): Path<String>,
    Json(wanted): Json<TakeControl>,
) -> Result<Answer<ScreenControl>> {
    Ok(Answer(runner.take_control(by, &screen, TakeFrom::Nobody, wanted).await?))
}

async fn force_take(
    State(runner): State<ActionRunner>,
    ActingAs(by): ActingAs,
    Path(screen): Path<String>,
    Query(query): Query<ForcedTakeQuery>,
    Json(wanted): Json<TakeControl>,
) -> Result<Answer<ScreenControl>> {
    let from = if query.from_people { TakeFrom::Anybody } else { TakeFrom::Programs };
    Ok(Answer(runner.take_control(by, &screen, from, wanted).await?))
}

async fn hand_back(
    State(runner): State<ActionRunner>,
    ActingAs(by): ActingAs,
    Path(screen): Path<String>,
    Json(wanted): Json<HandBack>,
) -> Result<Answer<ScreenControl>> {
    Ok(Answer(runner.hand_back_control(by, &screen, false, wanted).await?))
}

async fn force_hand_back(
    State(runner): State<ActionRunner>,
    ActingAs(by): ActingAs,
    Path(screen): Path<String>,
    Json(wanted): Json<HandBack>,
) -> Result<Answer<ScreenControl>> {
    Ok(Answer(runner.hand_back_control(by, &screen, true, wanted).await?))
}

async fn ask(
    State(runner): State<ActionRunner>,
    ActingAs(by): ActingAs,
    Path(screen): Path<String>,
    Json(wanted): Json<AskForHelp>,
) -> Result<Answer<ScreenControl>> {
    Ok(Answer(runner.ask_for_help(by, &screen, wanted).await?))
}

async fn answer(
    State(runner): State<ActionRunner>,
    ActingAs(by): ActingAs,
    Path(screen): Path<String>,
    Json(wanted): Json<HandBack>,
) -> Result<Answer<ScreenControl>> {
    Ok(Answer(runner.answer_help(by, &screen, wanted).await?))
}
