//! Tools for computers and their screens.

use axum::Json;
use axum::extract::State;

use super::{Call, Tool, ToolEffect, tool};
use crate::api::desktop::display::screens;
use crate::api::fleet::{clone, computers, resize};
use crate::identity::auth::AuthenticatedCaller;
use crate::mcp::answer::ToolResult;
use hotdesk_domain::error::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::computer::clone::{CloneComputer, ComputerMoved, ForkComputer, MoveComputer};
use hotdesk_wire::computer::resize::{ResizeComputer, ResizeReport};
use hotdesk_wire::computer::{Computer, ComputerListQuery, CreateComputer};
use hotdesk_wire::desktop::action::{Acknowledgement, Screen, ScreenList, ScreenSize};
use hotdesk_wire::tool::fleet::{
    CloneOf, ComputerPage, ForkOf, ListComputers, MoveTarget, NewComputer, NewScreen, NewSize, OneComputer,
    OneScreen,
};

/// Computers in one result: 50 records are about 50 KB.
const PAGE: u32 = 50;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool(
            "list_computers",
            ToolEffect::Read,
            "Lists the computers of the workspaces that this connection or key reaches, oldest first.",
            list_computers,
        ),
        tool(
            "get_computer",
            ToolEffect::Read,
            "Returns one computer: its status, size and screen.",
            get_computer,
        ),
        tool(
            "create_computer",
            ToolEffect::Create,
            "Creates a computer, from a template if one is named, and starts it. It returns when the computer is \
             usable.",
            create_computer,
        ),
        tool(
            "clone_computer",
            ToolEffect::Create,
            "Makes a new computer with a copy of a computer's disk, and starts it.",
            clone_computer,
        ),
        tool(
            "fork_computer",
            ToolEffect::Create,
            "Makes a new computer with a copy of a running computer's disk and memory: programs and windows \
             continue in both.",
            fork_computer,
        ),
        tool(
            "move_computer",
            ToolEffect::Ensure,
            "Moves a computer to another workspace of the same owner, without interrupting it.",
            move_computer,
        ),
        tool(
            "resize_computer",
            // A restart loses what the memory has.
            ToolEffect::Discard,
            "Changes the number of vCPUs, the RAM or the disk of a running computer: live if possible, \
             otherwise with a restart.",
            resize_computer,
        ),
        tool(
            "delete_computer",
            ToolEffect::Discard,
            "Deletes a computer with its disk and its snapshots. This cannot be undone.",
            delete_computer,
        ),
        tool(
            "list_screens",
            ToolEffect::Read,
            "Lists the screens of a computer, the boot screen first.",
            list_screens,
        ),
        tool(
            "create_screen",
            ToolEffect::Create,
            "Adds a screen to a computer, which has at most four.",
            create_screen,
        ),
        tool(
            "delete_screen",
            ToolEffect::Discard,
            "Deletes an added screen with the programs on it.",
            delete_screen,
        ),
    ]
}

async fn list_computers(call: Call, arguments: ListComputers) -> Result<ToolResult<ComputerPage>> {
    let own = call.caller.scope.as_ref().map(|(id, _)| id.to_string());
    let query = ComputerListQuery {
        workspace_id: arguments.workspace_id.or(own),
        status: arguments.status,
        name: arguments.name,
        limit: Some(PAGE),
        offset: arguments.offset,
        ..ComputerListQuery::default()
    };
    let Json(list) =
        computers::list(State(call.app), AuthenticatedCaller(call.caller), call.origin, Query(query)).await?;
    let (computers, total, next_offset) = (list.computers, list.total, list.next_offset);
    Ok(ToolResult::of(ComputerPage { computers, total, next_offset }))
}

/// A record without its password: a model needs none, and what it reads may be passed on.
pub(super) fn public(computer: Computer) -> ToolResult<Computer> {
    ToolResult::of(Computer { vnc_password: None, ..computer })
}

async fn get_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<ToolResult<Computer>> {
    let Json(computer) =
        computers::get(State(call.app), AuthenticatedCaller(call.caller), call.origin, Path(computer_id))
            .await?;
    Ok(public(computer))
}

async fn create_computer(call: Call, arguments: NewComputer) -> Result<ToolResult<Computer>> {
    let workspace_id = call.workspace_id(arguments.workspace_id)?;
    let wanted = CreateComputer {
        workspace_id: Some(workspace_id),
        name: arguments.name,
        template_ref: arguments.template_ref,
        cpu: arguments.cpu,
        ram: arguments.ram,
        disk_size_gb: arguments.disk_size_gb,
        isolation: arguments.isolation,
        resolution: arguments.resolution,
        auto_stop_minutes: arguments.auto_stop_minutes,
        ..CreateComputer::default()
    };
    let (_, Json(computer)) =
        computers::create(State(call.app), AuthenticatedCaller(call.caller), call.origin, Body(wanted))
            .await?;
    Ok(public(computer))
}

async fn clone_computer(call: Call, CloneOf { computer_id, name }: CloneOf) -> Result<ToolResult<Computer>> {
    let wanted = CloneComputer { name, ..CloneComputer::default() };
    let caller = AuthenticatedCaller(call.caller);
    let (_, Json(computer)) =
        clone::clone(State(call.app), caller, call.origin, Path(computer_id), Body(wanted)).await?;
    Ok(public(computer))
}

async fn fork_computer(call: Call, ForkOf { computer_id, name }: ForkOf) -> Result<ToolResult<Computer>> {
    fork(call, computer_id, ForkComputer { name, snapshot_id: None }).await
}

/// Makes a computer that continues from the memory of another one or of a snapshot.
pub(super) async fn fork(
    call: Call,
    computer_id: String,
    wanted: ForkComputer,
) -> Result<ToolResult<Computer>> {
    let caller = AuthenticatedCaller(call.caller);
    let (_, Json(computer)) =
        clone::fork(State(call.app), caller, call.origin, Path(computer_id), Body(wanted)).await?;
    Ok(public(computer))
}

async fn move_computer(call: Call, arguments: MoveTarget) -> Result<ToolResult<ComputerMoved>> {
    let MoveTarget { computer_id, workspace_id } = arguments;
    let wanted = MoveComputer { workspace_id: Some(workspace_id), project_id: None };
    let caller = AuthenticatedCaller(call.caller);
    let Json(answer) = clone::move_to(State(call.app), caller, Path(computer_id), Body(wanted)).await?;
    Ok(ToolResult::of(answer))
}

async fn resize_computer(call: Call, arguments: NewSize) -> Result<ToolResult<ResizeReport>> {
    let NewSize { computer_id, vcpus, mem_gb, disk_size_gb } = arguments;
    let wanted = ResizeComputer { vcpus, mem_gb, disk_size_gb, ..ResizeComputer::default() };
    let (_, Json(report)) =
        resize::resize(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id), Body(wanted))
            .await?;
    Ok(ToolResult::of(report))
}

async fn delete_computer(
    call: Call,
    OneComputer { computer_id }: OneComputer,
) -> Result<ToolResult<Acknowledgement>> {
    let Json(answer) =
        computers::delete(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    Ok(ToolResult::of(answer))
}

async fn list_screens(
    call: Call,
    OneComputer { computer_id }: OneComputer,
) -> Result<ToolResult<ScreenList>> {
    let Json(list) =
        screens::list(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    Ok(ToolResult::of(list))
}

async fn create_screen(call: Call, arguments: NewScreen) -> Result<ToolResult<Screen>> {
    let NewScreen { computer_id, width, height } = arguments;
    let size = ScreenSize { width, height };
    let (_, Json(screen)) =
        screens::create(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id), Body(size))
            .await?;
    Ok(ToolResult::of(screen))
}

async fn delete_screen(
    call: Call,
    OneScreen { computer_id, screen }: OneScreen,
) -> Result<ToolResult<Acknowledgement>> {
    let path = Path((computer_id, screen));
    let Json(answer) = screens::delete(State(call.app), AuthenticatedCaller(call.caller), path).await?;
    Ok(ToolResult::of(answer))
}
