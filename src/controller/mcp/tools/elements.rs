//! Tools for accessible elements: buttons, entries, links and so on.

use axum::Json;
use axum::extract::State;

use super::desktop::MAX_IMAGE;
use super::{Call, Tool, ToolEffect, tool};
use crate::api::desktop::display::elements;
use crate::identity::auth::AuthenticatedCaller;
use crate::mcp::answer::ToolResult;
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::desktop::element::{
    ElementActionResult, ElementClick, ElementList, ElementSetValue, ElementValue, ElementsQuery, MarkedQuery,
};
use hotdesk_wire::tool::desktop::{
    ClickElement, ListElements, MarkElements, MarkedElements, OneElement, SetElementValue,
};

/// Elements in one result when the request does not say how many: about 80 KB.
const DEFAULT_ELEMENTS: u32 = 200;
/// Most elements in one result. They are in the message twice, and a client reads at most 1 MiB at once.
const MAX_ELEMENTS: u32 = 500;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool(
            "list_elements",
            ToolEffect::Read,
            "Lists the accessible elements of a screen (buttons, entries, links and so on) with their ids and \
             boxes.",
            list_elements,
        ),
        tool(
            "marked_screenshot",
            ToolEffect::Read,
            "Takes a screenshot with numbered marks on the elements that accept input, and lists those elements.",
            marked_screenshot,
        ),
        tool(
            "click_element",
            ToolEffect::Act,
            "Clicks an element. It is scrolled into view and its window is raised first.",
            click_element,
        ),
        tool(
            "set_element_value",
            ToolEffect::Act,
            "Sets an element's text or number, and reads it back.",
            set_element_value,
        ),
        tool("focus_element", ToolEffect::Act, "Moves the keyboard focus to an element.", focus_element),
    ]
}

/// Checks the requested number of elements.
fn limit(requested: Option<u32>) -> Result<Option<u32>> {
    match requested {
        Some(count) if !(1..=MAX_ELEMENTS).contains(&count) => {
            Err(Error::invalid(format!("max_nodes must be 1 to {MAX_ELEMENTS}")))
        }
        requested => Ok(requested),
    }
}

async fn list_elements(call: Call, arguments: ListElements) -> Result<ToolResult<ElementList>> {
    let query = ElementsQuery {
        max_nodes: Some(limit(arguments.max_nodes)?.unwrap_or(DEFAULT_ELEMENTS)),
        role: arguments.role,
        name: arguments.name,
        window: arguments.window,
        include: arguments.include,
        screen: arguments.screen,
        ..ElementsQuery::default()
    };
    let caller = AuthenticatedCaller(call.caller);
    let Json(list) =
        elements::list(State(call.app), caller, Path(arguments.computer_id), Query(query)).await?;
    Ok(ToolResult::of(list))
}

async fn marked_screenshot(call: Call, arguments: MarkElements) -> Result<ToolResult<MarkedElements>> {
    let query = MarkedQuery {
        max_nodes: limit(arguments.max_nodes)?,
        role: arguments.role,
        name: arguments.name,
        window: arguments.window,
        format: Some("jpeg".to_owned()),
        scale: arguments.scale,
        screen: arguments.screen,
        ..MarkedQuery::default()
    };
    let caller = AuthenticatedCaller(call.caller);
    let Json(seen) =
        elements::marked(State(call.app), caller, Path(arguments.computer_id), Query(query)).await?;
    // Four characters for each three bytes.
    if seen.image.len() / 4 * 3 > MAX_IMAGE as usize {
        return Err(Error::invalid(format!(
            "the image is larger than {MAX_IMAGE} bytes; request a smaller scale"
        )));
    }
    let list = seen.list;
    let record = MarkedElements {
        width: seen.width,
        height: seen.height,
        mime_type: seen.mime_type.clone(),
        elements: list.elements,
        truncated: list.truncated,
        screen: list.screen,
    };
    Ok(ToolResult::of(record).with_image(seen.image, seen.mime_type))
}

async fn click_element(call: Call, arguments: ClickElement) -> Result<ToolResult<ElementActionResult>> {
    let ClickElement { computer_id, element_id, method, button, double } = arguments;
    let (caller, path) = (AuthenticatedCaller(call.caller), Path((computer_id, element_id)));
    let body = ElementClick { method, button, double };
    let Json(done) = elements::click(State(call.app), caller, path, Body(body)).await?;
    Ok(ToolResult::of(done))
}

async fn set_element_value(
    call: Call,
    arguments: SetElementValue,
) -> Result<ToolResult<ElementActionResult>> {
    let SetElementValue { computer_id, element_id, value } = arguments;
    let (caller, path) = (AuthenticatedCaller(call.caller), Path((computer_id, element_id)));
    let body = ElementSetValue { value: ElementValue::Text(value) };
    let Json(done) = elements::set_value(State(call.app), caller, path, Body(body)).await?;
    Ok(ToolResult::of(done))
}

async fn focus_element(call: Call, arguments: OneElement) -> Result<ToolResult<ElementActionResult>> {
    let OneElement { computer_id, element_id } = arguments;
    let (caller, path) = (AuthenticatedCaller(call.caller), Path((computer_id, element_id)));
    let Json(done) = elements::focus(State(call.app), caller, path).await?;
    Ok(ToolResult::of(done))
}
