//! Tools for the control of a screen.

use axum::Json;
use axum::extract::State;

use super::{Call, Tool, ToolEffect, tool};
use crate::api::desktop::display::control;
use crate::identity::auth::AuthenticatedCaller;
use crate::identity::auth::tickets::DEFAULT_SCREEN;
use crate::mcp::answer::ToolResult;
use hotdesk_domain::error::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::desktop::action::control::{
    ControlQuery, HandBack, HandBackQuery, ScreenControl, TakeControl, TakeControlQuery,
};
use hotdesk_wire::tool::control::{HelpAnswer, HoldScreen, ReadControl, ReleaseScreen};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool(
            "get_control",
            ToolEffect::Read,
            "Returns who controls a screen, the note of the last hand-back, and the request for help.",
            get_control,
        ),
        tool(
            "take_control",
            ToolEffect::Ensure,
            "Takes control of a screen for a time: input of others is refused until the hand-back. A \
             repeated call renews the time. Another holder keeps it unless force is true.",
            take_control,
        ),
        tool(
            "hand_back_control",
            ToolEffect::Ensure,
            "Hands a screen back, with a note for the one who acts next.",
            hand_back_control,
        ),
        tool(
            "answer_help",
            ToolEffect::Create,
            "Answers the request for help that waits on a screen, without taking control.",
            answer_help,
        ),
    ]
}

/// Path of a screen; the boot screen for `None`.
fn screen_path(computer: String, screen: Option<String>) -> Path<(String, String)> {
    Path((computer, screen.unwrap_or_else(|| DEFAULT_SCREEN.to_owned())))
}

async fn get_control(call: Call, arguments: ReadControl) -> Result<ToolResult<ScreenControl>> {
    let ReadControl { computer_id, screen, after, wait_seconds } = arguments;
    let (caller, path) = (AuthenticatedCaller(call.caller), screen_path(computer_id, screen));
    let query = Query(ControlQuery { after, wait_seconds });
    let Json(now) = control::control(State(call.app), caller, path, query).await?;
    Ok(ToolResult::of(now))
}

async fn take_control(call: Call, arguments: HoldScreen) -> Result<ToolResult<ScreenControl>> {
    let HoldScreen { computer_id, screen, seconds, note, force } = arguments;
    let (caller, path) = (AuthenticatedCaller(call.caller), screen_path(computer_id, screen));
    let (query, body) = (Query(TakeControlQuery { force }), Body(TakeControl { seconds, note }));
    let Json(taken) = control::take_control(State(call.app), caller, path, query, body).await?;
    Ok(ToolResult::of(taken))
}

async fn hand_back_control(call: Call, arguments: ReleaseScreen) -> Result<ToolResult<ScreenControl>> {
    let ReleaseScreen { computer_id, screen, note, force } = arguments;
    let (caller, path) = (AuthenticatedCaller(call.caller), screen_path(computer_id, screen));
    let (query, body) = (Query(HandBackQuery { force }), Body(HandBack { note }));
    let Json(free) = control::hand_back_control(State(call.app), caller, path, query, body).await?;
    Ok(ToolResult::of(free))
}

async fn answer_help(call: Call, arguments: HelpAnswer) -> Result<ToolResult<ScreenControl>> {
    let HelpAnswer { computer_id, screen, note } = arguments;
    let (caller, path) = (AuthenticatedCaller(call.caller), screen_path(computer_id, screen));
    let Json(answered) = control::answer_help(State(call.app), caller, path, Body(HandBack { note })).await?;
    Ok(ToolResult::of(answered))
}
