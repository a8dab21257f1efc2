//! Tool that examines what a client reaches, and says what is wrong.

use std::time::Instant;

use axum::Json;
use axum::extract::State;

use super::{Call, Tool, ToolEffect, tool};
use crate::api::fleet::workspaces;
use crate::identity::auth::AuthenticatedCaller;
use crate::mcp::answer::ToolResult;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::computer::status_reason::StatusReason;
use hotdesk_domain::error::Result;
use hotdesk_wire::computer::Computer;
use hotdesk_wire::tool::doctor::{ComputerReport, Examination, ServiceReport};

/// Problems in one result. More say that something else is wrong.
const MAX_PROBLEMS: usize = 50;
/// Characters of an agent's version, which a program in the computer may choose.
const MAX_VERSION: usize = 64;

pub(super) fn tools() -> Vec<Tool> {
    vec![tool(
        "doctor",
        ToolEffect::Read,
        "Examines the connection, the computers that it reaches, and on request one computer and its agent. \
         Lists the problems, each with what to do. It wakes no computer.",
        examine,
    )]
}

async fn examine(call: Call, Examination { computer_id }: Examination) -> Result<ToolResult<ServiceReport>> {
    let caller = AuthenticatedCaller(call.caller.clone());
    let Json(list) = workspaces::list(State(call.app.clone()), caller, call.origin.clone()).await?;
    let computers: Vec<&Computer> =
        list.workspaces.iter().flat_map(|workspace| &workspace.desktops).collect();
    let running = computers.iter().filter(|computer| computer.status == Status::Running.name()).count();
    let mut problems: Vec<String> =
        computers.iter().flat_map(|computer| problems_of(computer)).take(MAX_PROBLEMS).collect();
    let computer = match computer_id {
        Some(id) => Some(examine_computer(&call, &id, &mut problems).await?),
        None => None,
    };
    problems.truncate(MAX_PROBLEMS);
    Ok(ToolResult::of(ServiceReport {
        healthy: problems.is_empty(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        reach: if call.caller.scope.is_some() { "workspace" } else { "account" }.to_owned(),
        workspaces: list.workspaces.len() as u64,
        computers: computers.len() as u64,
        running: running as u64,
        computer,
        problems,
    }))
}

/// The problems that a record shows.
fn problems_of(computer: &Computer) -> Vec<String> {
    let named = format!("computer {:?} ({})", computer.name, computer.id);
    let mut problems = Vec::new();
    if computer.status == Status::Error.name() {
        problems.push(format!("{named} is in the state error: restart_computer, or rollback to a snapshot"));
    }
    if let Some(since) = &computer.agent_unresponsive_since {
        problems.push(format!("the agent of {named} has not answered since {since}: restart_computer"));
    }
    if let Some(message) = &computer.status_message {
        problems.push(format!("{named} cannot be used: {message}"));
    }
    if computer.status_reason.as_deref() == Some(StatusReason::HostDiskFull.name()) {
        problems.push(format!(
            "{named} was frozen or stopped, because the host's disk is nearly full: delete computers or \
             snapshots, or tell the operator"
        ));
    }
    problems
}

/// Asks the agent of a computer if it runs. Adds a problem when it does not answer.
async fn examine_computer(call: &Call, id: &str, problems: &mut Vec<String>) -> Result<ComputerReport> {
    let found = call.app.directory.find_computer(&call.caller, id).await?;
    let mut report = ComputerReport {
        id: found.id.to_string(),
        status: found.status.name().to_owned(),
        agent_version: None,
        agent_ms: None,
    };
    // A frozen computer does not answer, and a restart would not help.
    let guest =
        call.app.fleet.running_guest(found.id).filter(|_| !call.app.fleet.engine().is_frozen(found.id));
    let Some(guest) = guest else { return Ok(report) };
    let began = Instant::now();
    match guest.health().await {
        Ok(health) => {
            report.agent_version = Some(health.version.chars().take(MAX_VERSION).collect());
            report.agent_ms = u64::try_from(began.elapsed().as_millis()).ok();
        }
        Err(error) => problems.push(format!(
            "the agent of computer {:?} ({}) does not answer ({}): restart_computer",
            found.name, found.id, error.message
        )),
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_record_shows_its_problems() {
        let record = |more: Value| {
            let mut record = json!({"id": "c-1", "name": "desk", "workspace_id": "w", "project_id": "w",
                "project_name": "home", "user_id": "u", "os": "linux", "cpu": 1.0, "ram": 4, "disk_size_gb": 8,
                "isolation": "sandbox", "gpu": "none", "resolution": "1280x720x24", "status": "running",
                "auto_stop_minutes": 0, "url": "", "hostname": "", "instance_id": "i", "fly_instance_id": "i",
                "created_at": "", "updated_at": ""});
            for (name, value) in more.as_object().unwrap() {
                record[name] = value.clone();
            }
            serde_json::from_value::<Computer>(record).unwrap()
        };
        for (more, problem) in [
            (json!({}), None),
            (json!({"status": "error"}), Some("state error")),
            (
                json!({"agent_unresponsive_since": "2026-01-01T00:00:00Z"}),
                Some("has not answered since 2026"),
            ),
            (json!({"status_reason": "host_disk_full"}), Some("disk is nearly full")),
            (
                json!({"status_reason": "host_unreachable", "status_message": "its host m2 does not answer"}),
                Some("m2 does not answer"),
            ),
            (json!({"status": "suspended", "status_reason": "auto_stop"}), None),
        ] {
            let found = problems_of(&record(more.clone()));
            assert_eq!(found.len(), usize::from(problem.is_some()), "{more}: {found:?}");
            if let Some(problem) = problem {
                assert!(found[0].contains(problem) && found[0].contains("\"desk\" (c-1)"), "{found:?}");
            }
        }
    }
}
