//! Tools that run commands and code.

use axum::extract::State;

use super::{Call, MAX_TEXT, Tool, ToolEffect, tool};
use crate::api::desktop::execution::exec;
use crate::identity::auth::AuthenticatedCaller;
use crate::mcp::answer::{ToolResult, cut};
use hotdesk_domain::error::Result;
use hotdesk_guest::ActionReply;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_http::idempotency::IdempotencyKey;
use hotdesk_wire::desktop::bash::Bash;
use hotdesk_wire::programs::exec::Exec;
use hotdesk_wire::tool::execution::{BashOutput, PythonOutput, RunBash, RunPython};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool(
            "bash",
            ToolEffect::Act,
            "Runs a shell command on a computer and returns its output and exit code.",
            run_bash,
        ),
        tool(
            "exec",
            ToolEffect::Act,
            "Runs Python code on a computer and returns its output. A session keeps its variables.",
            run_python,
        ),
    ]
}

async fn run_bash(call: Call, arguments: RunBash) -> Result<ToolResult<BashOutput>> {
    let body = Bash {
        command: arguments.command,
        timeout: arguments.timeout,
        cwd: arguments.cwd,
        ..Bash::default()
    };
    let (computer, key) = (Path(arguments.computer_id), IdempotencyKey(None));
    let ActionReply { answer: ran, .. } =
        exec::bash(State(call.app), AuthenticatedCaller(call.caller), key, computer, Body(body)).await?;
    let (output, left_out) = cut(ran.output, MAX_TEXT);
    let omitted_bytes = ran.omitted_bytes.saturating_add(left_out);
    let (success, exit_code, timeout) = (ran.success, ran.exit_code, ran.timeout);
    Ok(ToolResult::of(BashOutput { success, exit_code, output, omitted_bytes, timeout }))
}

async fn run_python(call: Call, arguments: RunPython) -> Result<ToolResult<PythonOutput>> {
    let RunPython { computer_id, code, timeout, session } = arguments;
    let body = Exec { code, timeout, session, ..Exec::default() };
    let key = IdempotencyKey(None);
    let ActionReply { answer: ran, .. } =
        exec::exec(State(call.app), AuthenticatedCaller(call.caller), key, Path(computer_id), Body(body))
            .await?;
    let (output, left_out) = cut(ran.output, MAX_TEXT);
    Ok(ToolResult::of(PythonOutput {
        success: ran.success,
        output,
        omitted_bytes: ran.omitted_bytes.saturating_add(left_out),
        timeout: ran.timeout,
        error: ran.error,
        error_type: ran.error_type,
    }))
}
