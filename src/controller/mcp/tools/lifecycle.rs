//! Tools that bring computers up and down.

use axum::Json;
use axum::extract::State;

use super::computers::public;
use super::{Call, Tool, ToolEffect, tool};
use crate::api::fleet::{lifecycle, suspension};
use crate::identity::auth::AuthenticatedCaller;
use crate::mcp::answer::ToolResult;
use hotdesk_domain::error::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::computer::suspension::{ResumeResult, SuspendResult};
use hotdesk_wire::computer::{Computer, Transition};
use hotdesk_wire::tool::fleet::OneComputer;

pub(super) fn tools() -> Vec<Tool> {
    vec![
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
            "restart_computer",
            ToolEffect::Interrupt,
            "Restarts a computer from its disk. The contents of its memory are lost.",
            restart_computer,
        ),
        tool(
            "ensure_running",
            ToolEffect::Ensure,
            "Starts or resumes a computer if necessary, and returns when it is usable.",
            ensure_running,
        ),
        tool(
            "suspend_computer",
            ToolEffect::Ensure,
            "Suspends a computer and saves its memory: windows and programs continue when it resumes.",
            suspend_computer,
        ),
        tool("resume_computer", ToolEffect::Ensure, "Resumes a suspended computer.", resume_computer),
    ]
}

async fn start_computer(
    call: Call,
    OneComputer { computer_id }: OneComputer,
) -> Result<ToolResult<Transition>> {
    let Json(answer) =
        lifecycle::start(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    Ok(ToolResult::of(answer))
}

async fn stop_computer(
    call: Call,
    OneComputer { computer_id }: OneComputer,
) -> Result<ToolResult<Transition>> {
    let Json(answer) =
        lifecycle::stop(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    Ok(ToolResult::of(answer))
}

async fn restart_computer(
    call: Call,
    OneComputer { computer_id }: OneComputer,
) -> Result<ToolResult<Transition>> {
    let Json(answer) =
        lifecycle::restart(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    Ok(ToolResult::of(answer))
}

async fn ensure_running(
    call: Call,
    OneComputer { computer_id }: OneComputer,
) -> Result<ToolResult<Computer>> {
    let caller = AuthenticatedCaller(call.caller);
    let Json(computer) =
        lifecycle::ensure_running(State(call.app), caller, call.origin, Path(computer_id)).await?;
    Ok(public(computer))
}

async fn suspend_computer(
    call: Call,
    OneComputer { computer_id }: OneComputer,
) -> Result<ToolResult<SuspendResult>> {
    let (_, Json(answer)) =
        suspension::suspend(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    Ok(ToolResult::of(answer))
}

async fn resume_computer(
    call: Call,
    OneComputer { computer_id }: OneComputer,
) -> Result<ToolResult<ResumeResult>> {
    let (_, Json(answer)) =
        suspension::resume(State(call.app), AuthenticatedCaller(call.caller), Path(computer_id)).await?;
    Ok(ToolResult::of(answer))
}
