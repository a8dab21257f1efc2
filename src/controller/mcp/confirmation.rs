//! Questions to the person at a client before a tool destroys something (elicitation).
//!
//! ```text
//! session:            call -> elicitation/create -> answer in a later request -> the tool runs
//! revision 2026-07-28: call -> result with the question; call again with the answer -> the tool runs
//! ```
//! A client that cannot show questions decides by the hint `destructiveHint`, as for every other tool.
//! Nothing shows that a person gave an answer: the client speaks for them, in both ways.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::request::Parts;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitationAction, ElicitationSchema, InputRequest,
    InputRequiredResult, InputResponses, ProtocolVersion, ServerRequest,
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

/// Name of the question in a result, and of its answer.
const CONFIRMATION: &str = "confirm";

/// Whether a tool may run.
pub(super) enum Consent {
    /// The person agreed, or need not or cannot be asked.
    Given,
    /// The client asks the person and calls again.
    Needed(InputRequiredResult),
}

/// Asks the person before a destructive tool runs. `answers` are those of a call that is repeated.
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
    answers: Option<InputResponses>,
) -> Result<Consent> {
    let Some((_, field, question)) = QUESTIONS.iter().find(|(name, _, _)| *name == tool) else {
        return Ok(Consent::Given);
    };
    // The latest revision has no sessions, and ignores the header field of one.
    let is_latest =
        context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
    if !can_ask(context) || !(is_latest || parts.headers.contains_key(SESSION)) {
        return Ok(Consent::Given);
    }
    // A call without it is refused by the tool itself.
    let Some(id) = arguments[field].as_str() else { return Ok(Consent::Given) };
    let found = match *field {
        "workspace_id" => call.app.directory.find_workspace(&call.caller, id).await.map(|it| it.name),
        "thread_id" => {
            let found = call.app.threads.find(&call.caller, id).await;
            found.map(|(thread, ..)| thread.title.unwrap_or_else(|| "without a title".to_owned()))
        }
        _ => call.app.directory.find_computer(&call.caller, id).await.map(|it| it.name),
    };
    let name = found?;
    let question = form(format!("{question}: {name:?} ({id})? This cannot be undone."));
    if is_latest {
        let answer = answers.and_then(|mut answers| answers.remove(CONFIRMATION));
        return match answer {
            Some(answer) if answer["action"] == "accept" => Ok(Consent::Given),
            Some(_) => Err(declined()),
            None => {
                let questions = [(CONFIRMATION.to_owned(), InputRequest::Elicitation(question))];
                Ok(Consent::Needed(InputRequiredResult::from_input_requests(questions.into())))
            }
        };
    }
    tokio::select! {
        // Also an answer that comes with the cancellation changes nothing.
        biased;
        () = context.ct.cancelled() => Err(cancelled()),
        answered = ask(&context.peer, question) => answered.map(|()| Consent::Given),
    }
}

/// Error of a call that its client has cancelled. The client does not see it, the audit log does.
pub(super) fn cancelled() -> Error {
    Error::conflict("The client cancelled the call; nothing was changed")
}

/// Whether the client declared that it shows forms. A client that declares no mode means forms.
fn can_ask(context: &RequestContext<RoleServer>) -> bool {
    let modes = context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
    modes.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

/// Error of a call that the person does not want.
fn declined() -> Error {
    Error::forbidden("The person did not agree; nothing was changed")
}

/// A question without fields: to accept is the answer.
fn form(message: String) -> ElicitRequest {
    let requested_schema = ElicitationSchema::new(BTreeMap::new());
    ElicitRequest::new(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

async fn ask(peer: &Peer<RoleServer>, question: ElicitRequest) -> Result<()> {
    let request = ServerRequest::ElicitRequest(question);
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
    Err(declined())
}
