//! Published templates: publish, list, read and delete.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::definitions::{publication_refusal, read_definition};
use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::computers::templates::catalogue;
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_base::ids::AccountId;
use hotdesk_domain::computer::template::TemplateRef;
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::access::{Caller, check_account_wide};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Path, Query};
use hotdesk_store::templates::definitions::StoredTemplate;
use hotdesk_wire::computer::template::{PublishQuery, PublishedTemplate, Template, TemplateList};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::error::ErrorBody;
use hotdesk_wire::template::InvalidTemplate;

/// Pictures change with the program alone, and the name of a template has another version then.
const PICTURE_CACHE: &str = "public, max-age=86400";

/// Returns the routes of published templates.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(list, publish))
        .routes(routes!(versions))
        .routes(routes!(get, delete))
        .routes(routes!(global))
        .routes(routes!(global_versions))
        .routes(routes!(picture))
}

/// Publishes a template: the definition file becomes immutable under its name and version.
///
/// The same document again changes nothing.
#[utoipa::path(post, path = "/templates", tag = "templates", params(PublishQuery),
    request_body(content = String, content_type = "application/yaml",
        description = "The definition file. JSON is accepted as well, with any content type."),
    responses(
        (status = 201, description = "The template is published", body = PublishedTemplate),
        (status = 422, description = "The document is invalid, or the Idempotency-Key was used for another request",
            body = InvalidTemplate)))]
async fn publish(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Query(query): Query<PublishQuery>,
    body: Body,
) -> Result<(StatusCode, Json<PublishedTemplate>)> {
    check_author(&app, &caller).await?;
    let definition = read_definition(body, |definition| definition, publication_refusal).await?;
    let template = app.templates.publish(caller.account, &definition, query.force.unwrap_or(false)).await?;
    let auto_build = if query.auto_build.unwrap_or(false) {
        Some(app.templates.build(&template).await?.status)
    } else {
        None
    };
    let reference = template.reference.to_string();
    let published = PublishedTemplate { reference, digest: template.digest, published: true, auto_build };
    Ok((StatusCode::CREATED, Json(published)))
}

/// Lists the templates of the account.
#[utoipa::path(get, path = "/templates", tag = "templates",
    responses((status = 200, description = "The templates", body = TemplateList)))]
pub(crate) async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> Result<Json<TemplateList>> {
    let templates = own(&app, caller.account, None).await?;
    Ok(Json(TemplateList { templates }))
}

/// Lists the versions of a template.
#[utoipa::path(get, path = "/templates/{namespace}/{name}", tag = "templates",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "The versions, oldest first", body = TemplateList)))]
pub async fn versions(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Json<TemplateList>> {
    let any = TemplateRef { namespace, name, version: "0.0.0".to_owned() };
    let templates = if any.is_own() {
        own(&app, caller.account, Some(&any.name)).await?
    } else {
        of_service(&app, Some(&any)).await?
    };
    if templates.is_empty() {
        return Err(not_found(&any).into());
    }
    Ok(Json(TemplateList { templates }))
}

/// Returns a template.
#[utoipa::path(get, path = "/templates/{namespace}/{name}/{version}", tag = "templates",
    params(("namespace" = String, Path), ("name" = String, Path), ("version" = String, Path)),
    responses((status = 200, description = "The template", body = Template)))]
pub(crate) async fn get(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((namespace, name, version)): Path<(String, String, String)>,
) -> Result<Json<Template>> {
    let reference = TemplateRef { namespace, name, version };
    let template = app.templates.find(caller.account, &reference).await?;
    Ok(Json(record(&app, template).await?))
}

/// Deletes a template. Computers that were launched from it go on.
#[utoipa::path(delete, path = "/templates/{namespace}/{name}/{version}", tag = "templates",
    params(("namespace" = String, Path), ("name" = String, Path), ("version" = String, Path)),
    responses((status = 200, description = "The template was deleted", body = Acknowledgement)))]
async fn delete(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((namespace, name, version)): Path<(String, String, String)>,
) -> Result<Json<Acknowledgement>> {
    check_author(&app, &caller).await?;
    app.templates.remove(caller.account, &TemplateRef { namespace, name, version }).await?;
    Ok(Json(Acknowledgement { success: true }))
}

/// Lists the templates of the service.
#[utoipa::path(get, path = "/templates/global", tag = "templates",
    responses((status = 200, description = "The templates", body = TemplateList)))]
pub(crate) async fn global(
    State(app): State<AppState>,
    _: AuthenticatedCaller,
) -> Result<Json<TemplateList>> {
    Ok(Json(TemplateList { templates: of_service(&app, None).await? }))
}

/// Lists the versions of a template of the service.
#[utoipa::path(get, path = "/templates/global/{namespace}/{name}", tag = "templates",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "The versions, oldest first", body = TemplateList)))]
async fn global_versions(
    State(app): State<AppState>,
    _: AuthenticatedCaller,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Json<TemplateList>> {
    let any = TemplateRef { namespace, name, version: String::new() };
    let templates = of_service(&app, Some(&any)).await?;
    if templates.is_empty() {
        return Err(not_found(&any).into());
    }
    Ok(Json(TemplateList { templates }))
}

/// Returns the picture of a template of the service: the desktop of a computer that was launched from it.
///
/// It needs no key: it is the same on every service.
#[utoipa::path(get, path = "/templates/global/{namespace}/{name}/picture", tag = "service",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses(
        (status = 200, description = "The picture", body = Vec<u8>, content_type = "image/webp"),
        (status = 404, description = "There is no such template, or no picture of it", body = ErrorBody)))]
async fn picture(Path((namespace, name)): Path<(String, String)>) -> Result<Response> {
    let any = TemplateRef { namespace, name, version: String::new() };
    let picture = catalogue::picture(&any.name).filter(|_| any.is_system()).ok_or_else(|| not_found(&any))?;
    let fields = [(header::CONTENT_TYPE, "image/webp"), (header::CACHE_CONTROL, PICTURE_CACHE)];
    Ok((fields, picture).into_response())
}

/// Checks that a caller may publish, build and delete templates of its account.
///
/// # Errors
/// `Forbidden` for a key of one workspace, and when the plan does not include it.
pub async fn check_author(app: &AppState, caller: &Caller) -> hotdesk_domain::error::Result<()> {
    check_account_wide(caller, "author templates")?;
    app.billing.terms(caller.account).await?.check_template_authoring()
}

/// Checks that a caller's account may build a template: its own, or as the operator one of the service.
///
/// # Errors
/// `Forbidden` for a template of the service and another account.
pub fn check_builder(caller: &Caller, template: &StoredTemplate) -> hotdesk_domain::error::Result<()> {
    if template.account == caller.account {
        return Ok(());
    }
    let message = format!("Access denied: only the operator of this service builds {}", template.reference);
    Err(Error::forbidden(message))
}

fn not_found(any: &TemplateRef) -> Error {
    Error::not_found(format!("Template not found: {}/{}", any.namespace, any.name))
}

/// An account's templates, or those of one name.
async fn own(
    app: &AppState,
    account: AccountId,
    name: Option<&str>,
) -> hotdesk_domain::error::Result<Vec<Template>> {
    let mut templates = Vec::new();
    for template in app.store.templates(account, name).await? {
        templates.push(record(app, template).await?);
    }
    Ok(templates)
}

/// The templates of the service, or the versions of one.
async fn of_service(
    app: &AppState,
    any: Option<&TemplateRef>,
) -> hotdesk_domain::error::Result<Vec<Template>> {
    let mut templates = Vec::new();
    for template in app.templates.catalogue().await? {
        let it = &template.reference;
        if any.is_none_or(|any| (&any.namespace, &any.name) == (&it.namespace, &it.name)) {
            templates.push(record(app, template).await?);
        }
    }
    Ok(templates)
}

/// The API record of a template.
///
/// # Errors
/// `Internal` when the database fails, or its document is no JSON.
pub async fn record(app: &AppState, template: StoredTemplate) -> hotdesk_domain::error::Result<Template> {
    let status = app.templates.status(&template).await?.status;
    let it = &template.reference;
    let is_system = it.is_system();
    let has_picture = is_system && catalogue::picture(&it.name).is_some();
    let picture = has_picture.then(|| format!("/api/templates/global/{}/{}/picture", it.namespace, it.name));
    Ok(Template {
        reference: it.to_string(),
        picture,
        digest: template.digest,
        published: true,
        published_at: (!is_system).then(|| template.created_at.iso8601()),
        status,
        template: serde_json::from_str(&template.definition).map_err(Error::internal)?,
    })
}
