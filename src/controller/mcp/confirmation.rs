//! Questions to the person at a client before a tool destroys something (elicitation).
//!
//! Only sessions have a way to the person: an answer comes with a later request of the session. Without one
//! the client decides by the hint `destructiveHint`, as for every other tool.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::request::Parts;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitationAction, ElicitationSchema, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext};
use rmcp::{Peer, RoleServer};
use serde_json::Value;

use super::SESSION;
use super::tools::Call;
use hotdesk_domain::error::{Error, Result};

/// Longest wait for a person's answer. The call holds one of the account's permits meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

/// Tools that destroy what cannot be made again, with what they do to the named thing.
const QUESTIONS: [(&str, &str, &str); 5] = [
    ("delete_workspace", "workspace_id", "Delete this workspace with all its computers and files"),
    ("delete_computer", "computer_id", "Delete this computer with its disk and its snapshots"),
    ("rollback", "computer_id", "Roll this computer back, so that everything after the snapshot is lost"),
    ("delete_snapshot", "computer_id", "Delete a snapshot of this computer"),
    ("delete_thread", "thread_id", "Delete this chat thread with its messages, steps and pictures"),
];

/// Asks the person before a destructive tool runs.
///
/// # Errors
/// `NotFound` or `Forbidden` for what would be destroyed; `Forbidden` when the person does not agree;
/// `Conflict` when the client cancels the call meanwhile; `TimedOut` without an answer in time; `Unavailable`
/// when the client cannot be asked.
pub(super) async fn obtain(
    context: &RequestContext<RoleServer>,
    parts: &Parts,
    call: &Call,
    tool: &str,
    arguments: &Value,
) -> Result<()> {
    let Some((_, field, question)) = QUESTIONS.iter().find(|(name, _, _)| *name == tool) else {
        return Ok(());
    };
    if !parts.headers.contains_key(SESSION) || !can_ask(&context.peer) {
        return Ok(());
    }
    // A call without it is refused by the tool itself.
    let Some(id) = arguments[field].as_str() else { return Ok(()) };
    let found = match *field {
        "workspace_id" => call.app.directory.find_workspace(&call.caller, id).await.map(|it| it.name),
        "thread_id" => {
            let found = call.app.threads.find(&call.caller, id).await;
            found.map(|(thread, ..)| thread.title.unwrap_or_else(|| "without a title".to_owned()))
        }
        _ => call.app.directory.find_computer(&call.caller, id).await.map(|it| it.name),
    };
    let name = found?;
    let question = format!("{question}: {name:?} ({id})? This cannot be undone.");
    tokio::select! {
        // Also an answer that comes with the cancellation changes nothing.
        biased;
        () = context.ct.cancelled() => Err(cancelled()),
        answered = ask(&context.peer, question) => answered,
    }
}

/// Error of a call that its client has cancelled. The client does not see it, the audit log does.
pub(super) fn cancelled() -> Error {
    Error::conflict("The client cancelled the call; nothing was changed")
}

/// Whether the client declared that it shows forms. A client that declares no mode means forms.
fn can_ask(peer: &Peer<RoleServer>) -> bool {
    let capabilities = peer.peer_info().and_then(|info| info.capabilities.elicitation.clone());
    capabilities.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

async fn ask(peer: &Peer<RoleServer>, message: String) -> Result<()> {
    // No field: to accept is the answer.
    let requested_schema = ElicitationSchema::new(BTreeMap::new());
    let form = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
    // A client that does not read its stream blocks the request itself, before its timeout begins.
    let asking = async {
        let options = PeerRequestOptions::with_timeout(ANSWER_TIMEOUT);
        peer.send_cancellable_request(request, options).await?.await_response().await
    };
    let late = || Error::timed_out("The person did not answer in time; nothing was changed");
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, asking).await.map_err(|_| late())?;
    let failed =
        |error| Error::unavailable("The client could not ask the person; nothing was changed").context(error);
    if let ClientResult::ElicitResult(answer) = answer.map_err(failed)?
        && answer.action == ElicitationAction::Accept
    {
        return Ok(());
    }
    Err(Error::forbidden("The person did not agree; nothing was changed"))
}
