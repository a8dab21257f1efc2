//! Audit log: one entry for each request that changes something, is refused, or reads a secret.
//!
//! The code that determines what a request concerns records it through task-local functions
//! ([`set_computer`], [`set_workspace`], [`set_actor`], [`set_action`]). Most entries are stored in the
//! background; those of the last half second are lost when the controller is killed. Entries that must not be
//! lost are stored in the transaction of their change ([`entry_for_transaction`], [`mark_stored`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;

use crate::AppState;
use crate::web::caller::{ClientName, IdentifiedCaller};
use crate::web::source::{self, Source};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, ComputerId, WorkspaceId};
use hotdesk_domain::audit::{AuditAction, AuditOutcome, Entry, is_recorded};
use hotdesk_domain::error::Result;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::{Caller, Credential, Intent, Role};
use hotdesk_http::edge::RequestId;
use hotdesk_http::error_response::{self, CarriedError};
use hotdesk_http::serve::Peer;
use hotdesk_http::unread_body::SkipDrain;
use hotdesk_http::untrusted_content::ProgramAnswer;

mod log;
mod queue;
pub mod timeline;

pub use log::{Log, WRITE_INTERVAL};

/// Routes that only read a secret, or open a connection. A computer's record also has its password, but
/// clients poll it, so it is not recorded.
const SECRETS: [&str; 4] = [
    "/account/webhook-secret",
    "/computers/{id}/ssh",
    "/computers/{id}/tcp/{port}",
    "/computers/{id}/vnc-password",
];

tokio::task_local! {
    /// Request that this task handles.
    static CURRENT_REQUEST: CurrentRequest;
}

/// Request in progress, with its entry.
#[derive(Clone)]
struct CurrentRequest(Arc<PendingEntry>);

struct PendingEntry {
    log: Log,
    from: Source,
    changes: bool,
    reads_secret: bool,
    entry: Mutex<Entry>,
    /// The entry is submitted or stored.
    done: AtomicBool,
    /// It is recorded although the request was rate-limited.
    forced: AtomicBool,
}

/// Layer that records requests.
pub async fn record(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let changes = !request.method().is_safe();
    record_as(app, request, next, changes).await
}

/// Layer of a route whose requests are recorded individually by [`record_call`], such as MCP messages. It
/// only records requests that are refused before that.
pub async fn record_refusals(State(app): State<AppState>, request: Request, next: Next) -> Response {
    record_as(app, request, next, false).await
}

async fn record_as(app: AppState, request: Request, next: Next, changes: bool) -> Response {
    let (parts, body) = request.into_parts();
    let known = &parts.extensions;
    let caller = known.get::<IdentifiedCaller>().and_then(|IdentifiedCaller(found)| found.as_ref().ok());
    let route = known.get::<MatchedPath>().map_or("none", MatchedPath::as_str);
    let current = CurrentRequest::begin(&app, &parts, caller, route, changes);
    let response = CURRENT_REQUEST.scope(current.clone(), next.run(Request::from_parts(parts, body))).await;
    // A request that was cut off may have had its effect, so its status is unknown.
    let whole = response.extensions().get::<SkipDrain>().is_none();
    let code = response.extensions().get::<CarriedError>().and_then(|CarriedError(error)| error.code);
    // A program in a computer chooses its status: it must neither hide a request nor look like a refusal.
    let is_program = response.extensions().get::<ProgramAnswer>().is_some();
    let outcome = match (whole, is_program) {
        (false, _) => AuditOutcome::Unanswered,
        (true, true) => AuditOutcome::CHANGED,
        (true, false) => AuditOutcome::of_answer(response.status().as_u16()),
    };
    current.0.end(outcome, code);
    response
}

/// Records work that is not a request itself, such as a tool call in a message. `route` is the name in the
/// entry.
///
/// # Errors
/// The errors of the work.
pub async fn record_call<T>(
    app: &AppState,
    caller: &Caller,
    parts: &Parts,
    route: &str,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let current = CurrentRequest::begin(app, parts, Some(caller), route, caller.intent == Intent::Change);
    let done = CURRENT_REQUEST.scope(current.clone(), work).await;
    match &done {
        Ok(_) => current.0.end(AuditOutcome::CHANGED, None),
        Err(error) => {
            let status = error_response::status(error.kind);
            current.0.end(AuditOutcome::of_answer(status.as_u16()), error.code);
        }
    }
    done
}

/// Lets another task work for this task's request: what it records goes into the same entry.
pub fn propagate<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let current = CURRENT_REQUEST.try_with(CurrentRequest::clone).ok();
    async move {
        match current {
            Some(current) => CURRENT_REQUEST.scope(current, work).await,
            None => work.await,
        }
    }
}

/// Records which computer this task's request concerns.
pub fn set_computer(computer: ComputerId) {
    edit(|entry| entry.computer = Some(computer));
}

/// Records which workspace this task's request concerns, its owner, and the sender's role. The first call
/// wins, because it is the request's target.
pub fn set_workspace(workspace: WorkspaceId, owner: AccountId, role: Option<Role>) {
    edit(|entry| {
        if entry.workspace.is_none() {
            (entry.workspace, entry.owner, entry.stranger) = (Some(workspace), Some(owner), role.is_none());
        }
    });
}

/// Records the sender of this task's request, when it has no API key.
pub fn set_actor(credential: Credential, account: AccountId) {
    edit(|entry| (entry.credential, entry.account) = (Some(credential), Some(account)));
}

/// Records the action of this task's request, when its route does not determine it. Failed attempts are
/// recorded too, with their result.
pub fn set_action(action: AuditAction) {
    edit(|entry| entry.action = Some(action));
}

/// Records the id of another object that this task's request concerns.
pub fn set_target(id: impl ToString) {
    edit(|entry| entry.target = Some(id.to_string()));
}

/// Records the name of the client that this task's request concerns.
pub fn set_client(client: &str) {
    edit(|entry| entry.client = Some(client.to_owned()));
}

/// Records the account that this task's request concerns: the target of a failed sign-in or of a billing
/// event. Its owner can read the entry; the sender is unknown.
pub fn set_account(account: AccountId) {
    edit(|entry| (entry.owner, entry.target) = (Some(account), Some(account.to_string())));
}

/// Returns the entry of this task's request with the outcome that it will have. The caller stores it in the
/// transaction of the change, then calls [`mark_stored`].
pub fn entry_for_transaction(outcome: AuditOutcome) -> Option<Entry> {
    let line = CURRENT_REQUEST.try_with(|current| current.0.entry().clone()).ok()?;
    Some(Entry { outcome, ..line })
}

/// Marks the entry of this task's request as stored.
pub fn mark_stored() {
    // Outside of a request there is no entry.
    let _ = CURRENT_REQUEST.try_with(|current| current.0.done.store(true, Ordering::Relaxed));
}

/// Records nothing for this task's request, which neither changed nor refused anything: a call of a tool that
/// answers with a question to the person, or a page that renews its token.
pub fn record_nothing() {
    // Nothing else is stored either, so that the entry counts as stored.
    mark_stored();
}

/// Records this task's request although it was rate-limited. The caller bounds how often.
pub fn force_entry() {
    // Outside of a request there is no entry.
    let _ = CURRENT_REQUEST.try_with(|current| current.0.forced.store(true, Ordering::Relaxed));
}

fn edit(change: impl FnOnce(&mut Entry)) {
    // Outside of a request nothing is recorded.
    let _ = CURRENT_REQUEST.try_with(|current| change(&mut current.0.entry()));
}

impl CurrentRequest {
    fn begin(app: &AppState, parts: &Parts, caller: Option<&Caller>, route: &str, changes: bool) -> Self {
        let known = &parts.extensions;
        let peer = known.get::<ConnectInfo<Peer>>().map_or(&Peer::Local, |ConnectInfo(peer)| peer);
        let entry = Entry {
            at: clock::now(),
            account: caller.map(|caller| caller.account),
            credential: caller.map(|caller| caller.credential),
            client: known.get::<ClientName>().map(|ClientName(name)| name.clone()),
            source: source::address(&app.trusted_proxies, peer, &parts.headers),
            method: parts.method.as_str().to_owned(),
            route: route.to_owned(),
            action: None,
            owner: None,
            workspace: None,
            computer: None,
            target: None,
            stranger: false,
            outcome: AuditOutcome::Unanswered,
            code: None,
            request_id: known.get::<RequestId>().map(|RequestId(id)| id.clone()).unwrap_or_default(),
        };
        Self(Arc::new(PendingEntry {
            from: Source::of_request(&app.trusted_proxies, peer, &parts.headers),
            log: app.audit.clone(),
            changes,
            reads_secret: SECRETS.contains(&route),
            entry: Mutex::new(entry),
            done: AtomicBool::new(false),
            forced: AtomicBool::new(false),
        }))
    }
}

impl PendingEntry {
    fn entry(&self) -> std::sync::MutexGuard<'_, Entry> {
        self.entry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, outcome: AuditOutcome, code: Option<ErrorCode>) {
        {
            let mut entry = self.entry();
            entry.outcome = outcome;
            entry.code = code.map(|code| code.as_str().to_owned());
        }
        self.submit();
    }

    /// Submits the entry to the log, once.
    fn submit(&self) {
        let entry = self.entry();
        if !self.done.swap(true, Ordering::Relaxed)
            && (self.forced.load(Ordering::Relaxed)
                || is_recorded(self.changes, self.reads_secret, entry.outcome))
        {
            self.log.add(entry.clone(), self.from);
        }
    }
}

/// The request is dropped when its client disconnects, but it may have had its effect.
impl Drop for PendingEntry {
    fn drop(&mut self) {
        self.submit();
    }
}
