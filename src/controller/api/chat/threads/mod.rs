//! Chat threads over HTTP (docs/api/threads.md).
//!
//! `/v1/threads` is an alias of `/chat/threads` (`src/controller/api/mod.rs`).

mod export;
mod overview;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::chat::threads::{MessageText, RequestedChange};
use crate::data_dir::blobs::{BlobKind, BlobStore};
use crate::identity::auth::AuthenticatedCaller;
use crate::web::origin::Origin;
use hotdesk_domain::desktop::thread::RunState;
use hotdesk_domain::error::Error;
use hotdesk_domain::name::MAX_CHARACTERS;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_http::untrusted_content::forbid_caching;
use hotdesk_model::conversation::{Role, ToolCall, Usage};
use hotdesk_store::fleet::threads::{Thread, ThreadCosts, ThreadStep};
use hotdesk_wire::chat::completion::RunProgress;
use hotdesk_wire::chat::thread::{
    ChangeThread, CreateThread, MakeThreadTitle, ThreadChanged, ThreadCreated, ThreadList, ThreadListQuery,
    ThreadMessage, ThreadRecord, ThreadRole, ThreadStepPage, ThreadStepQuery, ThreadStepRecord,
    ThreadStopped, ThreadSummary, ThreadTitleMessage, ThreadToolCall, ThreadUsage,
};
use hotdesk_wire::desktop::action::Acknowledgement;

/// Default number of steps of a page.
const DEFAULT_PAGE: u32 = 50;
/// Most steps of a page. All steps of a thread have at most 8 MiB.
const MAX_PAGE: u32 = 200;

/// Returns the routes of threads.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(list, create))
        .merge(overview::router())
        .routes(routes!(read, change, remove))
        .routes(routes!(make_title))
        .routes(routes!(stop))
        .routes(routes!(steps))
        .merge(export::router())
}

/// Lists the threads of a computer.
#[utoipa::path(get, path = "/chat/threads", tag = "threads", params(ThreadListQuery),
    responses((status = 200, description = "Threads, the last changed first", body = ThreadList)))]
pub(crate) async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Query(query): Query<ThreadListQuery>,
) -> Result<Json<ThreadList>> {
    let computer = query.computer().ok_or_else(|| Error::invalid("desktopId is required"))?;
    let threads = app.threads.list(&caller, computer).await?;
    Ok(Json(ThreadList { threads: threads.into_iter().map(|listed| summary(&app, listed)).collect() }))
}

/// Creates a thread of a computer.
///
/// When the computer has 200 threads, the one that has not changed for the longest time is removed.
#[utoipa::path(post, path = "/chat/threads", tag = "threads", request_body = CreateThread,
    responses((status = 201, description = "The thread was created", body = ThreadCreated)))]
async fn create(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Body(wanted): Body<CreateThread>,
) -> Result<(StatusCode, Json<ThreadCreated>)> {
    if wanted.local_id.as_ref().is_some_and(|id| id.chars().count() > MAX_CHARACTERS) {
        return Err(Error::invalid(format!("localId must have at most {MAX_CHARACTERS} characters")).into());
    }
    let thread = app.threads.create(&caller, &wanted.desktop_id).await?;
    let created = ThreadCreated { remote_id: thread.to_string(), external_id: wanted.local_id };
    Ok((StatusCode::CREATED, Json(created)))
}

/// Returns a thread with its messages.
#[utoipa::path(get, path = "/chat/threads/{id}", tag = "threads", params(("id" = String, Path)),
    responses((status = 200, description = "The thread", body = ThreadRecord)))]
pub(crate) async fn read(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<ThreadRecord>> {
    let (thread, messages) = app.threads.read(&caller, &id).await?;
    let RunProgress { waiting_for, holder, message: help_message } =
        app.runs.waiting(thread.id).unwrap_or_default();
    Ok(Json(ThreadRecord {
        remote_id: thread.id.to_string(),
        status: status(&thread),
        messages: messages.into_iter().map(message).collect(),
        computer_id: thread.computer.to_string(),
        account_id: thread.account.map(|account| account.to_string()),
        run: thread.run.map(run),
        waiting_for,
        holder,
        help_message,
        failure: thread.failure,
        step_count: thread.steps,
        usage: usage_of(&thread.costs),
        cost_microcents: thread.costs.cost_microcents,
        created_at: thread.created_at.iso8601(),
        updated_at: thread.updated_at.iso8601(),
        title: thread.title,
    }))
}

/// Changes the title, the messages or the status of a thread.
///
/// Messages replace all that the thread has, which is refused while a run is in progress.
#[utoipa::path(patch, path = "/chat/threads/{id}", tag = "threads", params(("id" = String, Path)),
    request_body = ChangeThread,
    responses((status = 200, description = "The thread was changed", body = ThreadChanged)))]
async fn change(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<ChangeThread>,
) -> Result<Json<ThreadChanged>> {
    let archived = wanted.archived();
    let messages = wanted.messages.map(|messages| messages.into_iter().map(message_text).collect());
    let wanted = RequestedChange { title: wanted.title, archived, messages };
    let changed = app.threads.change(&caller, &id, wanted).await?;
    Ok(Json(ThreadChanged {
        remote_id: changed.id.to_string(),
        status: status(&changed),
        title: changed.title,
    }))
}

/// Removes a thread with its messages, steps and pictures.
///
/// A run that writes to it fails.
#[utoipa::path(delete, path = "/chat/threads/{id}", tag = "threads", params(("id" = String, Path)),
    responses((status = 200, description = "The thread was removed", body = Acknowledgement)))]
pub(crate) async fn remove(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<Acknowledgement>> {
    app.threads.remove(&caller, &id).await?;
    Ok(Json(Acknowledgement { success: true }))
}

/// Ends the run of a thread, and answers when it has ended.
///
/// A call in progress is finished or released. Without a run nothing happens: the request may be repeated. The
/// thread can be continued.
#[utoipa::path(post, path = "/chat/threads/{id}/stop", tag = "threads", params(("id" = String, Path)),
    responses((status = 200, description = "The run has ended, or there was none", body = ThreadStopped)))]
async fn stop(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<ThreadStopped>> {
    let (thread, stopped) = app.runs.stop(&caller, &id).await?;
    Ok(Json(ThreadStopped { remote_id: thread.id.to_string(), stopped, run: thread.run.map(run) }))
}

/// Makes a title of the first messages, and stores it.
///
/// It is the beginning of the user's first line; no model is asked. The answer is a stream of one text part
/// of assistant-ui: `0:"<title>"`.
#[utoipa::path(post, path = "/chat/threads/{id}/title", tag = "threads", params(("id" = String, Path)),
    request_body = MakeThreadTitle,
    responses((status = 200, description = "The title", body = String, content_type = "text/plain")))]
async fn make_title(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<MakeThreadTitle>,
) -> Result<Response> {
    let messages = wanted.messages.map(|messages| messages.into_iter().map(title_text).collect());
    let title = app.threads.make_title(&caller, &id, messages).await?;
    let title = serde_json::to_string(&title).map_err(Error::internal)?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("0:{title}\n")).into_response())
}

/// Lists the steps of a thread: calls of tools, their results, and the screen after each.
///
/// Viewers need the workspace's permission to read files, because results have output of commands.
#[utoipa::path(get, path = "/chat/threads/{id}/steps", tag = "threads", params(("id" = String, Path),
    ThreadStepQuery),
    responses((status = 200, description = "A page of steps, in their order", body = ThreadStepPage)))]
pub(crate) async fn steps(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(id): Path<String>,
    Query(query): Query<ThreadStepQuery>,
) -> Result<Response> {
    let limit = query.limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Error::invalid(format!("limit must be 1 to {MAX_PAGE}")).into());
    }
    let cursor = query.cursor.filter(|cursor| !cursor.is_empty()).unwrap_or_else(|| "0".to_owned());
    let after: i64 =
        cursor.parse().map_err(|_| Error::invalid("cursor must be a next_cursor of this list"))?;
    let thread = app.threads.find_with_steps(&caller, &id).await?;
    let mut found = app.threads.steps(thread.id, after, limit + 1).await?;
    let is_last = found.len() <= limit as usize;
    found.truncate(limit as usize);
    let next_cursor = found.iter().next_back().filter(|_| !is_last).map(|step| step.number.to_string());
    let steps = found.into_iter().map(|step| step_record(&app.blobs, &origin, step));
    let page = ThreadStepPage { steps: steps.collect::<Result<_>>()?, next_cursor };
    let mut response = Json(page).into_response();
    forbid_caching(response.headers_mut());
    Ok(response)
}

/// A thread with its newest messages, as a list has it.
fn summary(app: &AppState, (thread, newest): (Thread, Vec<MessageText>)) -> ThreadSummary {
    ThreadSummary {
        id: thread.id.to_string(),
        remote_id: thread.id.to_string(),
        computer_id: thread.computer.to_string(),
        status: status(&thread),
        messages: newest.into_iter().map(message).collect(),
        message_count: thread.messages,
        run: thread.run.map(run),
        waiting_for: app.runs.waiting(thread.id).and_then(|progress| progress.waiting_for),
        usage: usage_of(&thread.costs),
        cost_microcents: thread.costs.cost_microcents,
        created_at: thread.created_at.iso8601(),
        updated_at: thread.updated_at.iso8601(),
        title: thread.title,
    }
}

fn status(thread: &Thread) -> String {
    if thread.archived { "archived" } else { "active" }.to_owned()
}

fn run(state: RunState) -> String {
    state.name().to_owned()
}

fn usage_of(costs: &ThreadCosts) -> ThreadUsage {
    // The store adds only numbers that are not negative.
    let tokens = |count: i64| u64::try_from(count).unwrap_or(0);
    ThreadUsage {
        input_tokens: tokens(costs.input_tokens),
        output_tokens: tokens(costs.output_tokens),
        cache_read_tokens: tokens(costs.cache_read_tokens),
        cache_write_tokens: tokens(costs.cache_write_tokens),
    }
}

fn role(role: Role) -> ThreadRole {
    match role {
        Role::User => ThreadRole::User,
        Role::Assistant => ThreadRole::Assistant,
    }
}

fn message(message: MessageText) -> ThreadMessage {
    ThreadMessage { role: role(message.role), content: message.text }
}

fn message_text(message: ThreadMessage) -> MessageText {
    let role = match message.role {
        ThreadRole::User => Role::User,
        ThreadRole::Assistant => Role::Assistant,
    };
    MessageText { role, text: message.content }
}

fn title_text(message: ThreadTitleMessage) -> MessageText {
    let role = if message.role == "user" { Role::User } else { Role::Assistant };
    MessageText { role, text: message.content }
}

fn step_record(blobs: &BlobStore, origin: &Origin, step: ThreadStep) -> Result<ThreadStepRecord> {
    let ThreadStep { number, created_at, content: step } = step;
    let call: ToolCall = parse(&step.tool_call)?;
    let usage: Usage = parse(&step.usage)?;
    let link = |(picture, _): (uuid::Uuid, i64)| {
        let link = blobs.link(BlobKind::StepPicture, picture, &format!("step-{number}"));
        format!("{}{link}", origin.0)
    };
    Ok(ThreadStepRecord {
        number,
        created_at: created_at.iso8601(),
        call: ThreadToolCall { id: call.id, name: call.name, input: call.input },
        text: step.text,
        result: step.result,
        is_error: step.is_error,
        action: step.action.as_deref().map(parse).transpose()?,
        effect: step.effect.as_deref().map(parse).transpose()?,
        screenshot: step.picture.map(link),
        usage: ThreadUsage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
        },
        cost_microcents: step.cost_microcents,
        took_ms: step.took_ms,
    })
}

/// Parses JSON of the store.
fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    Ok(serde_json::from_str(text).map_err(Error::internal)?)
}
