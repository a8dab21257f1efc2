//! Stars of templates: marks for the people and programs of an account.

use axum::Json;
use axum::extract::State;
use axum::routing::get;

use super::published::{record, versions};
use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_domain::computer::template::TemplateRef;
use hotdesk_domain::error::{Error, Kind};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::computer::template::{StarTemplate, TemplateList, TemplateStar};

/// Returns the routes of stars.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(list_starred))
        .routes(routes!(star))
        // The versions of a template with this name, whose path is that of stars.
        .route("/templates/{id}/star", get(versions_of_star))
}

/// Lists the templates that the account starred, its own and those of the service.
#[utoipa::path(get, path = "/templates/starred", tag = "templates",
    responses((status = 200, description = "The templates, in the order of their stars", body = TemplateList)))]
async fn list_starred(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> Result<Json<TemplateList>> {
    let mut templates = Vec::new();
    for reference in app.store.starred_templates(caller.account).await? {
        match app.templates.find(caller.account, &reference).await {
            Ok(template) => templates.push(record(&app, template).await?),
            // It was deleted.
            Err(error) if error.kind == Kind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Json(TemplateList { templates }))
}

/// Stars a template, or removes its star. The id is the reference, `namespace/name@version`, with `%2F` for the slash.
#[utoipa::path(post, path = "/templates/{id}/star", tag = "templates", params(("id" = String, Path)),
    request_body = StarTemplate,
    responses((status = 200, description = "Whether it is starred", body = TemplateStar)))]
async fn star(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<StarTemplate>,
) -> Result<Json<TemplateStar>> {
    let reference = TemplateRef::parse(&id);
    let reference = reference.ok_or_else(|| Error::not_found(format!("Template not found: {id}")))?;
    if wanted.starred {
        app.templates.find(caller.account, &reference).await?;
    }
    app.store.star_template(caller.account, &reference, wanted.starred).await?;
    Ok(Json(TemplateStar { starred: wanted.starred }))
}

async fn versions_of_star(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    Path(namespace): Path<String>,
) -> Result<Json<TemplateList>> {
    versions(state, caller, Path((namespace, "star".to_owned()))).await
}
