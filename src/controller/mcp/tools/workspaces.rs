//! Tools for workspaces.

use axum::Json;
use axum::extract::State;

use super::{Call, Tool, ToolEffect, tool};
use crate::api::fleet::workspaces;
use crate::identity::auth::AuthenticatedCaller;
use crate::mcp::answer::ToolResult;
use hotdesk_domain::error::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::identity::workspace::{CreateWorkspace, Workspace};
use hotdesk_wire::tool::fleet::{NamedWorkspace, NewWorkspace, NoArguments, OneWorkspace, VisibleWorkspaces};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool(
            "list_workspaces",
            ToolEffect::Read,
            "Lists the workspaces that this connection or key reaches, with their computers.",
            list_workspaces,
        ),
        tool("get_workspace", ToolEffect::Read, "Returns a workspace with its computers.", get_workspace),
        tool(
            "workspace_by_name",
            ToolEffect::Read,
            "Returns the workspace with a name, with its computers.",
            workspace_by_name,
        ),
        tool(
            "create_workspace",
            ToolEffect::Create,
            "Creates a workspace. A connection to one workspace may not.",
            create_workspace,
        ),
        tool(
            "delete_workspace",
            ToolEffect::Discard,
            "Deletes a workspace with all its computers and files. This cannot be undone.",
            delete_workspace,
        ),
    ]
}

async fn list_workspaces(call: Call, NoArguments {}: NoArguments) -> Result<ToolResult<VisibleWorkspaces>> {
    let Json(list) = workspaces::list(State(call.app), AuthenticatedCaller(call.caller), call.origin).await?;
    Ok(ToolResult::of(VisibleWorkspaces { workspaces: list.workspaces }))
}

async fn get_workspace(
    call: Call,
    OneWorkspace { workspace_id }: OneWorkspace,
) -> Result<ToolResult<Workspace>> {
    let caller = AuthenticatedCaller(call.caller);
    let Json(workspace) = workspaces::get(State(call.app), caller, call.origin, Path(workspace_id)).await?;
    Ok(ToolResult::of(workspace))
}

async fn workspace_by_name(
    call: Call,
    NamedWorkspace { name }: NamedWorkspace,
) -> Result<ToolResult<Workspace>> {
    let caller = AuthenticatedCaller(call.caller);
    let Json(workspace) = workspaces::by_name(State(call.app), caller, call.origin, Path(name)).await?;
    Ok(ToolResult::of(workspace))
}

async fn create_workspace(call: Call, NewWorkspace { name }: NewWorkspace) -> Result<ToolResult<Workspace>> {
    let caller = AuthenticatedCaller(call.caller);
    let wanted = CreateWorkspace { name, icon_url: None, status: None };
    let (_, Json(workspace)) =
        workspaces::create(State(call.app), caller, call.origin, None, Body(wanted)).await?;
    Ok(ToolResult::of(workspace))
}

async fn delete_workspace(
    call: Call,
    OneWorkspace { workspace_id }: OneWorkspace,
) -> Result<ToolResult<Acknowledgement>> {
    let caller = AuthenticatedCaller(call.caller);
    let Json(answer) = workspaces::delete(State(call.app), caller, Path(workspace_id)).await?;
    Ok(ToolResult::of(answer))
}
