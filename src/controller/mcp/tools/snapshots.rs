//! Tools for snapshots of computers.

use axum::Json;
use axum::extract::State;

use super::computers::fork;
use super::{Call, Tool, ToolEffect, tool};
use crate::api::fleet::snapshots;
use crate::identity::auth::AuthenticatedCaller;
use crate::mcp::answer::ToolResult;
use hotdesk_domain::error::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::computer::Computer;
use hotdesk_wire::computer::clone::ForkComputer;
use hotdesk_wire::computer::snapshot::{
    CreateSnapshot, RollBack, RollbackResult, Snapshot, SnapshotList, SnapshotListQuery,
};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::tool::fleet::{LaunchSnapshot, ListSnapshots, NewSnapshotOf, OneSnapshot};

/// Snapshots in one result: 100 are about 30 KB.
const PAGE: u32 = 100;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool(
            "list_snapshots",
            ToolEffect::Read,
            "Lists the snapshots of a computer, oldest first.",
            list_snapshots,
        ),
        tool(
            "create_snapshot",
            ToolEffect::Create,
            "Makes a snapshot of a computer's disk, and with memory also of its programs and windows. The \
             computer continues to run.",
            create_snapshot,
        ),
        tool(
            "launch_snapshot",
            ToolEffect::Create,
            "Makes a new computer that continues from a snapshot with memory.",
            launch_snapshot,
        ),
        tool(
            "rollback",
            ToolEffect::Discard,
            "Rolls a computer back to a snapshot. Everything later on the computer is lost; the snapshot stays.",
            roll_back,
        ),
        tool(
            "delete_snapshot",
            ToolEffect::Discard,
            "Deletes a snapshot. The computer is not affected.",
            delete_snapshot,
        ),
    ]
}

async fn list_snapshots(call: Call, arguments: ListSnapshots) -> Result<ToolResult<SnapshotList>> {
    let ListSnapshots { computer_id, offset } = arguments;
    let query = SnapshotListQuery { limit: Some(PAGE), offset };
    let caller = AuthenticatedCaller(call.caller);
    let Json(list) = snapshots::list(State(call.app), caller, Path(computer_id), Query(query)).await?;
    Ok(ToolResult::of(list))
}

async fn create_snapshot(call: Call, arguments: NewSnapshotOf) -> Result<ToolResult<Snapshot>> {
    let NewSnapshotOf { computer_id, name, memory } = arguments;
    let caller = AuthenticatedCaller(call.caller);
    let wanted = Body(CreateSnapshot { name, memory });
    let (_, Json(snapshot)) = snapshots::create(State(call.app), caller, Path(computer_id), wanted).await?;
    Ok(ToolResult::of(snapshot))
}

async fn launch_snapshot(call: Call, arguments: LaunchSnapshot) -> Result<ToolResult<Computer>> {
    let LaunchSnapshot { computer_id, snapshot_id, name } = arguments;
    fork(call, computer_id, ForkComputer { name, snapshot_id: Some(snapshot_id) }).await
}

async fn roll_back(call: Call, arguments: OneSnapshot) -> Result<ToolResult<RollbackResult>> {
    let OneSnapshot { computer_id, snapshot_id } = arguments;
    let caller = AuthenticatedCaller(call.caller);
    let wanted = Body(RollBack { snapshot_id });
    let (_, Json(answer)) = snapshots::roll_back(State(call.app), caller, Path(computer_id), wanted).await?;
    Ok(ToolResult::of(answer))
}

async fn delete_snapshot(call: Call, arguments: OneSnapshot) -> Result<ToolResult<Acknowledgement>> {
    let OneSnapshot { computer_id, snapshot_id } = arguments;
    let caller = AuthenticatedCaller(call.caller);
    let Json(answer) = snapshots::delete(State(call.app), caller, Path((computer_id, snapshot_id))).await?;
    Ok(ToolResult::of(answer))
}
