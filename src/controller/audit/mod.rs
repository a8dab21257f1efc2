//! Who did what? A layer sees every request once its sender is known, and writes down those that change something, are refused or
//! read a secret.
//!
//! What a request turns out to be about is said by whoever finds it out ([`on`], [`about`], [`by`], [`did`]), not by its path.
//! Most lines are written in the background, and those of the last half second are lost when the controller is killed; what
//! must not be lost is written with what it tells of in one transaction ([`line`], [`written`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;

use super::Shared;
use super::auth::source::Source;
use super::auth::{ClientName, Identified};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, ComputerId, WorkspaceId};
use hotdesk_domain::access::{Caller, Credential, Intent, Role};
use hotdesk_domain::audit::{Action, Entry, is_kept};
use hotdesk_domain::error::Result;
use hotdesk_http::edge::RequestId;
use hotdesk_http::error_response::{self, CarriedError};
use hotdesk_http::leftover::Abandoned;
use hotdesk_http::serve::Peer;

mod log;

pub use log::{Log, WRITTEN_EVERY, trim, write};

/// Reads that tell a secret and nothing else. A computer's record has its password too, and clients poll that: it is not
/// written down.
const SECRETS: [&str; 1] = ["/computers/{id}/vnc-password"];

tokio::task_local! {
    /// The request that this task answers.
    static UNDERWAY: Underway;
}

/// A request that is being answered, and its line.
#[derive(Clone)]
struct Underway(Arc<Line>);

struct Line {
    app: Shared,
    from: Source,
    changes: bool,
    tells_a_secret: bool,
    entry: Mutex<Entry>,
    /// It is in the log, or need not be.
    done: AtomicBool,
    /// It is told although it was one too many.
    anyway: AtomicBool,
}

/// The layer.
pub async fn record(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let changes = !request.method().is_safe();
    watch(app, request, next, changes).await
}

/// The layer of a route whose requests are written down one by one elsewhere ([`call`]), as the messages of MCP are: here only
/// who is refused before that.
pub async fn refusals(State(app): State<Shared>, request: Request, next: Next) -> Response {
    watch(app, request, next, false).await
}

async fn watch(app: Shared, request: Request, next: Next, changes: bool) -> Response {
    let (parts, body) = request.into_parts();
    let known = &parts.extensions;
    let caller = known.get::<Identified>().and_then(|Identified(found)| found.as_ref().ok());
    let route = known.get::<MatchedPath>().map_or("none", MatchedPath::as_str);
    let underway = Underway::begin(app, &parts, caller, route, changes);
    let response = UNDERWAY.scope(underway.clone(), next.run(Request::from_parts(parts, body))).await;
    // One that was cut short may have been carried out.
    let whole = response.extensions().get::<Abandoned>().is_none();
    let code = response.extensions().get::<CarriedError>().and_then(|CarriedError(error)| error.code);
    underway.0.end(whole.then(|| response.status()), code);
    response
}

/// The same for what is no request of its own, a tool's call in a message: it is told under the name that stands for its route.
///
/// # Errors
/// Those of the work.
pub async fn call<T>(
    app: Shared,
    caller: &Caller,
    parts: &Parts,
    route: &str,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let underway = Underway::begin(app, parts, Some(caller), route, caller.intent == Intent::Change);
    let outcome = UNDERWAY.scope(underway.clone(), work).await;
    match &outcome {
        Ok(_) => underway.0.end(Some(StatusCode::OK), None),
        Err(error) => underway.0.end(Some(error_response::status(error.kind)), error.code),
    }
    outcome
}

/// Work for this task's request that another task does: what is said there is about the same request.
pub fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let underway = UNDERWAY.try_with(Underway::clone).ok();
    async move {
        match underway {
            Some(underway) => UNDERWAY.scope(underway, work).await,
            None => work.await,
        }
    }
}

/// Says which computer the request of this task is about.
pub fn on(computer: ComputerId) {
    change(|entry| entry.computer = Some(computer));
}

/// Says which workspace the request of this task is about, whose it is, and what the sender is in it. The first one said
/// counts: it is where the request was aimed.
pub fn about(workspace: WorkspaceId, owner: AccountId, role: Option<Role>) {
    change(|entry| {
        if entry.workspace.is_none() {
            (entry.workspace, entry.owner, entry.stranger) = (Some(workspace), Some(owner), role.is_none());
        }
    });
}

/// Says who sends the request of this task, where that is no API key.
pub fn by(credential: Credential, account: AccountId) {
    change(|entry| (entry.credential, entry.account) = (Some(credential), Some(account)));
}

/// Says what the request of this task is about, where its route does not say it. It is told with its result, so what is only
/// tried is said as well.
pub fn did(action: Action) {
    change(|entry| entry.action = Some(action));
}

/// Says which other thing the request of this task is about, by its id.
pub fn target(id: impl ToString) {
    change(|entry| entry.target = Some(id.to_string()));
}

/// Says what the client that the request of this task is about calls itself.
pub fn named(client: &str) {
    change(|entry| entry.client = Some(client.to_owned()));
}

/// Says which account the request of this task is about: one that somebody failed to be let in to, or that a payment service
/// tells of. Its owner reads of it; who sends it is nobody known.
pub fn on_account(account: AccountId) {
    change(|entry| (entry.owner, entry.target) = (Some(account), Some(account.to_string())));
}

/// The line of this task's request, as it will be once it is answered with a status: to be stored in one transaction with
/// what it tells of. Then [`written`] says that it was.
pub fn line(answer: StatusCode) -> Option<Entry> {
    let line = UNDERWAY.try_with(|underway| underway.0.entry().clone()).ok()?;
    Some(Entry { status: Some(answer.as_u16()), ..line })
}

/// Says that the line of this task's request is stored.
pub fn written() {
    // Outside of a request there is no line.
    let _ = UNDERWAY.try_with(|underway| underway.0.done.store(true, Ordering::Relaxed));
}

/// Says that the request of this task is told although it is one too many. Who says it bounds how often.
pub fn anyway() {
    // Outside of a request there is no line.
    let _ = UNDERWAY.try_with(|underway| underway.0.anyway.store(true, Ordering::Relaxed));
}

fn change(change: impl FnOnce(&mut Entry)) {
    // Outside of a request nothing is recorded.
    let _ = UNDERWAY.try_with(|underway| change(&mut underway.0.entry()));
}

impl Underway {
    fn begin(app: Shared, parts: &Parts, caller: Option<&Caller>, route: &str, changes: bool) -> Self {
        let known = &parts.extensions;
        let peer = known.get::<ConnectInfo<Peer>>().map_or(&Peer::Local, |ConnectInfo(peer)| peer);
        let entry = Entry {
            at: now_ms(),
            account: caller.map(|caller| caller.account),
            credential: caller.map(|caller| caller.credential),
            client: known.get::<ClientName>().map(|ClientName(name)| name.clone()),
            source: app.address(peer, &parts.headers),
            method: parts.method.as_str().to_owned(),
            route: route.to_owned(),
            action: None,
            owner: None,
            workspace: None,
            computer: None,
            target: None,
            stranger: false,
            status: None,
            code: None,
            request_id: known.get::<RequestId>().map(|RequestId(id)| id.clone()).unwrap_or_default(),
        };
        Self(Arc::new(Line {
            from: app.source(peer, &parts.headers),
            app,
            changes,
            tells_a_secret: SECRETS.contains(&route),
            entry: Mutex::new(entry),
            done: AtomicBool::new(false),
            anyway: AtomicBool::new(false),
        }))
    }
}

impl Line {
    fn entry(&self) -> std::sync::MutexGuard<'_, Entry> {
        self.entry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, answer: Option<StatusCode>, code: Option<&str>) {
        {
            let mut entry = self.entry();
            entry.status = answer.map(|status| status.as_u16());
            entry.code = code.map(str::to_owned);
        }
        self.keep();
    }

    /// Hands the line over to the log, once.
    fn keep(&self) {
        let entry = self.entry();
        if !self.done.swap(true, Ordering::Relaxed)
            && (self.anyway.load(Ordering::Relaxed)
                || is_kept(self.changes, self.tells_a_secret, entry.status))
        {
            self.app.audit.add(entry.clone(), self.from);
        }
    }
}

/// A client that leaves takes its request along, but what it began may have been done.
impl Drop for Line {
    fn drop(&mut self) {
        self.keep();
    }
}
