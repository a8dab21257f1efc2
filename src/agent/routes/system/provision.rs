//! Routes of what the controller gives a computer: secrets, and the hooks and services of its template.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json as Answer, Router};

use crate::exec::services::Action;
use crate::files::blocking;
use crate::state::Agent;
use crate::system::env_file::EnvFile;
use hotdesk_domain::computer::template::hook::RESUME;
use hotdesk_domain::secret::env_file::MAX_BYTES;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json, Path, Query, read_body};
use hotdesk_http::serve::{ClientMayPause, event_stream};
use hotdesk_wire::agent::{GuestRequestOutcome, GuestRequestQuery, GuestRequests, PutSecretsResult};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::desktop::stream::{StartStream, StreamStarted};
use hotdesk_wire::programs::service::{
    BeginTemplate, HookStatus, PrepareTemplate, ServiceAction, ServiceList, ServiceLogQuery,
};
use hotdesk_wire::programs::trigger::{FireTrigger, TriggerList, TriggerStatus};

pub fn router() -> Router<Agent> {
    Router::new()
        .route("/secrets", put(replace_secrets))
        .route("/template/prepare", post(prepare))
        .route("/template/begin", post(begin))
        .route("/template/resumed", post(resumed))
        .route("/template/stream/start", post(start_stream))
        .route("/template/hooks/{name}", get(hook_status).post(begin_hook))
        .route("/template/requests", get(requests))
        .route("/template/requests/{number}", post(finish_request))
        .route("/services", get(list))
        .route("/services/{name}", post(act))
        .route("/services/{name}/log", get(log))
        .route("/triggers", get(triggers))
        .route("/triggers/{name}", post(fire))
}

/// Replaces the file of secrets. The body is its text.
async fn replace_secrets(State(agent): State<Agent>, request: Request) -> Result<Answer<PutSecretsResult>> {
    let text = read_body(request.into_body(), MAX_BYTES).await?;
    let file = EnvFile::new(&agent.runtime_dir, &agent.home);
    let path = blocking(move || file.write(&text)).await?;
    agent.services.write_secret_files().await?;
    Ok(Answer(PutSecretsResult { path: path.display().to_string() }))
}

/// Starts the supervisors of the services, and services with `prestart`, before the computer belongs to
/// somebody.
async fn prepare(
    State(agent): State<Agent>,
    Query(query): Query<PrepareTemplate>,
) -> Result<Answer<Acknowledgement>> {
    agent.services.prepare(query.prestart).await?;
    Ok(Answer(Acknowledgement { success: true }))
}

/// Begins the hooks and services, after a boot.
async fn begin(
    State(agent): State<Agent>,
    Query(query): Query<BeginTemplate>,
) -> Result<Answer<Acknowledgement>> {
    agent.services.begin(query.check).await?;
    Ok(Answer(Acknowledgement { success: true }))
}

/// Begins the hook of a wake.
async fn resumed(State(agent): State<Agent>) -> Answer<Acknowledgement> {
    agent.services.begin_hook(RESUME);
    Answer(Acknowledgement { success: true })
}

/// Starts a stream of the template.
async fn start_stream(
    State(agent): State<Agent>,
    Json(request): Json<StartStream>,
) -> Result<Answer<StreamStarted>> {
    Ok(Answer(agent.services.start_stream(request).await?))
}

/// Begins a hook that the service waits for.
async fn begin_hook(
    State(agent): State<Agent>,
    Path(name): Path<String>,
) -> Result<Answer<Option<HookStatus>>> {
    Ok(Answer(agent.services.begin_awaited_hook(&name).await?))
}

/// Its status.
async fn hook_status(
    State(agent): State<Agent>,
    Path(name): Path<String>,
) -> Result<Answer<Option<HookStatus>>> {
    Ok(Answer(agent.services.awaited_hook(&name)?))
}

/// Waits for what the template asks of the service.
async fn requests(
    State(agent): State<Agent>,
    Query(query): Query<GuestRequestQuery>,
) -> Result<Answer<GuestRequests>> {
    Ok(Answer(agent.services.requests(&query).await?))
}

/// Takes the outcome of such a request.
async fn finish_request(
    State(agent): State<Agent>,
    Path(number): Path<u64>,
    Json(outcome): Json<GuestRequestOutcome>,
) -> Answer<Acknowledgement> {
    agent.services.finish_request(number, outcome);
    Answer(Acknowledgement { success: true })
}

async fn list(State(agent): State<Agent>) -> Result<Answer<ServiceList>> {
    Ok(Answer(agent.services.list().await?))
}

async fn act(
    State(agent): State<Agent>,
    Path(name): Path<String>,
    Json(request): Json<ServiceAction>,
) -> Result<Answer<ServiceList>> {
    Ok(Answer(agent.services.act(&name, Action::parse(&request.action)?).await?))
}

async fn log(
    State(agent): State<Agent>,
    Path(name): Path<String>,
    Query(query): Query<ServiceLogQuery>,
) -> Result<Response> {
    if query.follow != Some(true) {
        return Ok(Answer(agent.services.log(&name, query.bytes).await?).into_response());
    }
    let mut response = event_stream(agent.services.follow_log(&name, query.bytes).await?);
    // The client is the controller, which bounds its own clients.
    response.extensions_mut().insert(ClientMayPause::unlimited());
    Ok(response)
}

async fn triggers(State(agent): State<Agent>) -> Answer<TriggerList> {
    Answer(agent.services.triggers())
}

async fn fire(
    State(agent): State<Agent>,
    Path(name): Path<String>,
    Json(request): Json<FireTrigger>,
) -> Result<Answer<TriggerStatus>> {
    Ok(Answer(agent.services.fire(&name, request)?))
}
