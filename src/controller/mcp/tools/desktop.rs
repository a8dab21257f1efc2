//! Tools that see and act on a screen.

use axum::extract::State;

use super::{Call, Tool, ToolEffect, tool};
use crate::api::desktop::actions;
use crate::api::desktop::display::{screenshot, timeline};
use crate::identity::auth::AuthenticatedCaller;
use crate::mcp::answer::ToolResult;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_guest::ActionReply;
use hotdesk_http::extract::Path;
use hotdesk_http::idempotency::IdempotencyKey;
use hotdesk_wire::desktop::action::timeline::{
    ScreenTimelineFilter, ScreenTimelinePage, ScreenTimelinePaging,
};
use hotdesk_wire::desktop::action::{Action, Click, Drag, KeyPress, Move, ScreenQuery, Scroll, Type, Wait};
use hotdesk_wire::desktop::effect::{ActionResult, Options};
use hotdesk_wire::desktop::screenshot::{ScreenshotBase64, ScreenshotQuery};
use hotdesk_wire::tool::desktop::{
    ClickAt, DragBetween, GetTimeline, MoveTo, PressKey, Screenshot, ScreenshotInfo, ScrollBy, TypeText,
    WaitFor,
};

/// Largest image in bytes. As base64 in a message it stays below 1 MiB, which the Python client reads at
/// once.
pub(super) const MAX_IMAGE: u32 = 700_000;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool(
            "screenshot",
            ToolEffect::Read,
            "Takes a screenshot: an image with its size in pixels and its name (frame).",
            take_screenshot,
        ),
        tool("click", ToolEffect::Act, "Clicks at a point of the screen.", click),
        tool("move", ToolEffect::Act, "Moves the pointer to a point of the screen.", move_pointer),
        tool("drag", ToolEffect::Act, "Drags with a pressed button from one point to another.", drag),
        tool("scroll", ToolEffect::Act, "Turns the wheel at a point of the screen.", scroll),
        tool("type", ToolEffect::Act, "Types a text into the focused window.", type_text),
        tool("key", ToolEffect::Act, "Presses a key or a combination of keys.", press_key),
        tool("wait", ToolEffect::Read, "Waits, for example until a program has started.", wait),
        tool(
            "get_timeline",
            ToolEffect::Read,
            "Lists the actions on the screens of a computer, newest first: who did what, with what effect.",
            get_timeline,
        ),
    ]
}

async fn take_screenshot(call: Call, arguments: Screenshot) -> Result<ToolResult<ScreenshotInfo>> {
    let (seen, image, mime_type) = screen_image(call, arguments).await?;
    Ok(ToolResult::of(seen).with_image(image, mime_type))
}

/// Takes a screenshot. Returns its metadata, the image as base64 and its media type.
///
/// # Errors
/// Those of `GET /computers/{id}/screenshot`.
pub(in crate::mcp) async fn screen_image(
    call: Call,
    arguments: Screenshot,
) -> Result<(ScreenshotInfo, String, String)> {
    let query = ScreenshotQuery {
        format: Some(arguments.format.unwrap_or_else(|| "jpeg".to_owned())),
        scale: arguments.scale,
        region: arguments.region,
        max_bytes: Some(MAX_IMAGE),
        screen: arguments.screen,
        ..ScreenshotQuery::default()
    };
    let computer = call.app.directory.find_computer(&call.caller, &arguments.computer_id).await?;
    let guest = call.app.fleet.guest_to_read(&computer).await?;
    let image = screenshot::take(&guest, &query, computer.hardware.resolution.size).await?;
    if image.bytes.len() > MAX_IMAGE as usize {
        return Err(Error::failed("The computer's agent sent a larger image than requested"));
    }
    let ScreenshotBase64 { image, mime_type, width, height, shown, .. } = screenshot::encode_base64(&image)?;
    Ok((ScreenshotInfo { width, height, mime_type: mime_type.clone(), shown }, image, mime_type))
}

/// Options of an action whose coordinates are those of a frame.
fn within(frame: Option<String>) -> Options {
    Options { frame, ..Options::default() }
}

async fn click(call: Call, arguments: ClickAt) -> Result<ToolResult<ActionResult>> {
    let body = Click {
        x: arguments.x,
        y: arguments.y,
        button: arguments.button,
        double: arguments.double,
        count: None,
        modifiers: arguments.modifiers,
        options: within(arguments.frame),
    };
    act(call, arguments.computer_id, arguments.screen, Action::Click(body)).await
}

async fn move_pointer(call: Call, arguments: MoveTo) -> Result<ToolResult<ActionResult>> {
    let body = Move { x: arguments.x, y: arguments.y, options: within(arguments.frame) };
    act(call, arguments.computer_id, arguments.screen, Action::Move(body)).await
}

async fn drag(call: Call, arguments: DragBetween) -> Result<ToolResult<ActionResult>> {
    let body = Drag {
        start_x: Some(arguments.start_x),
        start_y: Some(arguments.start_y),
        end_x: Some(arguments.end_x),
        end_y: Some(arguments.end_y),
        path: None,
        button: arguments.button,
        duration: arguments.duration,
        modifiers: arguments.modifiers,
        options: within(arguments.frame),
    };
    act(call, arguments.computer_id, arguments.screen, Action::Drag(body)).await
}

async fn scroll(call: Call, arguments: ScrollBy) -> Result<ToolResult<ActionResult>> {
    let body = Scroll {
        direction: arguments.direction,
        amount: arguments.amount,
        x: arguments.x,
        y: arguments.y,
        duration: None,
        modifiers: arguments.modifiers,
        options: within(arguments.frame),
    };
    act(call, arguments.computer_id, arguments.screen, Action::Scroll(body)).await
}

async fn type_text(call: Call, arguments: TypeText) -> Result<ToolResult<ActionResult>> {
    let body = Type {
        text: arguments.text,
        mode: None,
        stop_on_focus_change: None,
        confidential: None,
        options: Options::default(),
    };
    act(call, arguments.computer_id, arguments.screen, Action::Type(body)).await
}

async fn press_key(call: Call, arguments: PressKey) -> Result<ToolResult<ActionResult>> {
    let body = KeyPress { key: Some(arguments.key), repeat: arguments.repeat, ..KeyPress::default() };
    act(call, arguments.computer_id, arguments.screen, Action::Key(body)).await
}

async fn wait(call: Call, WaitFor { computer_id, seconds }: WaitFor) -> Result<ToolResult<ActionResult>> {
    act(call, computer_id, None, Action::Wait(Wait { seconds: Some(seconds), duration: None })).await
}

async fn get_timeline(call: Call, arguments: GetTimeline) -> Result<ToolResult<ScreenTimelinePage>> {
    let GetTimeline { computer_id, screen, by, from, to, cursor } = arguments;
    let filter = ScreenTimelineFilter { screen, by, from, to };
    let paging = ScreenTimelinePaging { cursor, limit: None };
    let page = timeline::page(call.app, &call.caller, &computer_id, &filter, paging).await?;
    Ok(ToolResult::of(page))
}

/// Performs an action on a screen of a computer.
async fn act(
    call: Call,
    computer_id: String,
    screen: Option<String>,
    action: Action,
) -> Result<ToolResult<ActionResult>> {
    let (caller, key) = (AuthenticatedCaller(call.caller), IdempotencyKey(None));
    let query = ScreenQuery { screen };
    let ActionReply { answer: done, .. } =
        actions::perform(State(call.app), caller, Path(computer_id), query, action, key).await?;
    Ok(ToolResult::of(done))
}
