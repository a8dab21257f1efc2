//! Tools for workspaces, computers and their screens.

use axum::Json;
use axum::extract::State;
use serde_json::json;

use super::{Call, Tool, ToolEffect, tool};
use crate::api::desktop::display::screens;
use crate::api::fleet::{clone, computers, lifecycle, resize, suspension, workspaces};
use crate::identity::auth::AuthenticatedCaller;
use crate::mcp::answer::ToolResult;
use hotdesk_domain::error::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::computer::clone::CloneComputer;
use hotdesk_wire::computer::resize::ResizeComputer;
use hotdesk_wire::computer::{Computer, ComputerListQuery, CreateComputer};
use hotdesk_wire::desktop::action::ScreenSize;
use hotdesk_wire::tool::fleet::{
    CloneOf, ListComputers, NewComputer, NewScreen, NewSize, NoArguments, OneComputer, OneScreen,
};

/// Computers in one result: 50 records are about 50 KB.
const PAGE: u32 = 50;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool(
            "list_workspaces",
            ToolEffect::Read,
            "Returns the workspace of this connection and its computers.",
            list_workspaces,
        ),
        tool(
            "list_computers",
            ToolEffect::Read,
            "Lists the computers of this connection's workspace, oldest first.",
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
            "Creates a computer in this connection's workspace and starts it. It returns when the computer is \
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
            "resize_computer",
            ToolEffect::Ensure,
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
            "start_computer",
            ToolEffect::Ensure,
            "Starts a stopped computer, or resumes a suspended one with its memory. It returns immediately; \
             the other tools wait for a computer that is starting.",
            start_computer,
        ),
        tool(
            "stop_computer",
            ToolEffect::Discard,
            "Stops a computer. Its disk stays; the contents of its memory are lost.",
            stop_computer,
        ),
        tool(
            "suspend_computer",
            ToolEffect::Ensure,
            "Suspends a computer and saves its memory: windows and programs continue when it resumes.",
            suspend_computer,
        ),
        tool("resume_computer", ToolEffect::Ensure, "Resumes a suspended computer.", resume_computer),
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

async fn list_workspaces(call: Call, NoArguments {}: NoArguments) -> Result<ToolResult> {
    let Json(list) = workspaces::list(State(call.app), AuthenticatedCaller(call.caller), call.origin).await?;
    ToolResult::of(&json!({"workspaces": list.workspaces}))
}

async fn list_computers(call: Call, arguments: ListComputers) -> Result<ToolResult> {
    let query = ComputerListQuery {
        workspace_id: call.caller.scope.as_ref().map(|(id, _)| id.to_string()),
        status: arguments.status,
        name: arguments.name,
        limit: Some(PAGE),
        offset: arguments.offset,
        ..ComputerListQuery::default()
    };
    let Json(list) =
        computers::list(State(call.app), AuthenticatedCaller(call.caller), call.origin, Query(query)).await?;
    ToolResult::of(
        &json!({"computers": list.computers, "total": list.total, "next_offset": list.next_offset}),
    )
}

/// A record without its password: a model needs none, and what it reads may be passed on.
fn public(computer: Computer) -> Result<ToolResult> {
    ToolResult::of(&Computer { vnc_password: None, ..computer })
}

async fn get_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<ToolResult> {
    let Json(computer) =
        computers::get(State(call.app), AuthenticatedCaller(call.caller), call.origin, Path(computer_id))
            .await?;
    public(computer)
}

async fn create_computer(call: Call, arguments: NewComputer) -> Result<ToolResult> {
    let NewComputer { name, cpu, ram, disk_size_gb, isolation, resolution, auto_stop_minutes } = arguments;
    let workspace_id = call.caller.scope.as_ref().map(|(id, _)| id.to_string());
    let wanted = CreateComputer {
        workspace_id,
        name,
        cpu,
        ram,
        disk_size_gb,
        isolation,
        resolution,
        auto_stop_minutes,
        project_id: None,
        os: None,
        gpu: None,
        deliver_files: false,
        template_ref: None,
        egress_policy: None,
        image: None,
    };
    let (_, Json(computer)) =
        computers::create(State(call.app), AuthenticatedCaller(call.caller), call.origin, Body(wanted))
            .await?;
    public(computer)
}

async fn clone_computer(call: Call, CloneOf { computer_id, name }: CloneOf) -> Result<ToolResult> {
    let wanted = CloneComputer { name, ..CloneComputer::default() };
    let (_, Json(computer)) = clone::clone(
        State(call.app),
        AuthenticatedCaller(call.caller),
        call.origin,
        Path(computer_id),
        Body(wanted),
    )
    .await?;
    public(computer)
}

async fn resize_computer(call: Call, arguments: NewSize) -> Result<ToolResult> {
    let NewSize { computer_id, vcpus, mem_gb, disk_size_gb } = arguments;
    let wanted = ResizeComputer { vcpus, mem_gb, disk_size_gb, ..ResizeComputer::default() };
    let (_, Json(report)) =
        resize::resize(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id), Body(wanted))
            .await?;
    ToolResult::of(&report)
}

async fn delete_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<ToolResult> {
    let Json(answer) =
        computers::delete(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    ToolResult::of(&answer)
}

async fn start_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<ToolResult> {
    let Json(answer) =
        lifecycle::start(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    ToolResult::of(&answer)
}

async fn stop_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<ToolResult> {
    let Json(answer) =
        lifecycle::stop(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    ToolResult::of(&answer)
}

async fn suspend_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<ToolResult> {
    let (_, Json(answer)) =
        suspension::suspend(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    ToolResult::of(&answer)
}

async fn resume_computer(call: Call, OneComputer { computer_id }: OneComputer) -> Result<ToolResult> {
    let (_, Json(answer)) =
        suspension::resume(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    ToolResult::of(&answer)
}

async fn list_screens(call: Call, OneComputer { computer_id }: OneComputer) -> Result<ToolResult> {
    let Json(list) =
        screens::list(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    ToolResult::of(&list)
}

async fn create_screen(call: Call, arguments: NewScreen) -> Result<ToolResult> {
    let NewScreen { computer_id, width, height } = arguments;
    let size = ScreenSize { width, height };
    let (_, Json(screen)) =
        screens::create(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id), Body(size))
            .await?;
    ToolResult::of(&screen)
}

async fn delete_screen(call: Call, OneScreen { computer_id, screen }: OneScreen) -> Result<ToolResult> {
    let path = Path((computer_id, screen));
    let Json(answer) = screens::delete(State(call.app), AuthenticatedCaller(call.caller), path).await?;
    ToolResult::of(&answer)
}
