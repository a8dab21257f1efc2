//! Builds of templates: begin, status, log and cancel.

use std::convert::Infallible;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use futures_util::stream;

use super::published::{check_author, check_builder};
use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_domain::computer::template::TemplateRef;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_http::serve::event_stream;
use hotdesk_wire::computer::template::{BuildLogEntry, TemplateBuild};
use hotdesk_wire::desktop::action::Acknowledgement;

/// Returns the routes of builds.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(begin, status, cancel)).routes(routes!(events))
}

/// Builds a template.
///
/// Only the operator builds those of the service.
///
/// A template that is built already is left alone (`reused`), and one that is being built goes on. The build continues
/// if the client disconnects.
#[utoipa::path(post, path = "/templates/{namespace}/{name}/{version}/build", tag = "templates",
    params(("namespace" = String, Path), ("name" = String, Path), ("version" = String, Path)),
    responses((status = 200, description = "The status of the build", body = TemplateBuild)))]
pub(crate) async fn begin(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((namespace, name, version)): Path<(String, String, String)>,
) -> Result<Json<TemplateBuild>> {
    check_author(&app, &caller).await?;
    let template = app.templates.find(caller.account, &TemplateRef { namespace, name, version }).await?;
    check_builder(&caller, &template)?;
    Ok(Json(app.templates.build(&template).await?))
}

/// Returns the status of a template's build.
#[utoipa::path(get, path = "/templates/{namespace}/{name}/{version}/build", tag = "templates",
    params(("namespace" = String, Path), ("name" = String, Path), ("version" = String, Path)),
    responses((status = 200, description = "The status of the build", body = TemplateBuild)))]
pub(crate) async fn status(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((namespace, name, version)): Path<(String, String, String)>,
) -> Result<Json<TemplateBuild>> {
    let template = app.templates.find(caller.account, &TemplateRef { namespace, name, version }).await?;
    Ok(Json(app.templates.status(&template).await?))
}

/// Cancels a template's build. The answer comes when nothing of it is left.
#[utoipa::path(delete, path = "/templates/{namespace}/{name}/{version}/build", tag = "templates",
    params(("namespace" = String, Path), ("name" = String, Path), ("version" = String, Path)),
    responses((status = 200, description = "The build was cancelled", body = Acknowledgement)))]
pub(crate) async fn cancel(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((namespace, name, version)): Path<(String, String, String)>,
) -> Result<Json<Acknowledgement>> {
    check_author(&app, &caller).await?;
    let template = app.templates.find(caller.account, &TemplateRef { namespace, name, version }).await?;
    check_builder(&caller, &template)?;
    app.templates.cancel(&template).await?;
    Ok(Json(Acknowledgement { success: true }))
}

/// Streams the log of a template's last build as server-sent events, until the build ends.
///
/// Each `data` is a `BuildLogEntry`. Logs are in memory: after a restart of the service there is none.
#[utoipa::path(get, path = "/templates/{namespace}/{name}/{version}/build/events", tag = "templates",
    params(("namespace" = String, Path), ("name" = String, Path), ("version" = String, Path)),
    responses((status = 200, description = "The log", body = BuildLogEntry, content_type = "text/event-stream")))]
async fn events(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((namespace, name, version)): Path<(String, String, String)>,
) -> Result<Response> {
    let template = app.templates.find(caller.account, &TemplateRef { namespace, name, version }).await?;
    check_builder(&caller, &template)?;
    let build = app.templates.log(&template);
    let entries = stream::unfold((build, 0), |(build, number)| async move {
        let (entry, next) = build.as_ref()?.log.next(number).await?;
        Some((Ok::<_, Infallible>(entry), (build, next)))
    });
    Ok(event_stream(entries))
}
