//! Save of a computer as a template.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::definitions::refusal;
use super::published::{check_author, record};
use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::computers::templates::save::definition_of;
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_domain::computer::template::TemplateRef;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::computer::template::{SaveTemplate, Template};
use hotdesk_wire::template::InvalidTemplate;

/// Returns the route of saved templates.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(save))
}

/// Saves the disk of a computer as a template, published and ready.
///
/// The layers are those of the computer and one of what it wrote. A running computer pauses while its disk is copied. The
/// response comes when the template is ready, and the work continues if the client disconnects.
#[utoipa::path(post, path = "/computers/{id}/template", tag = "templates", params(("id" = String, Path)),
    request_body = SaveTemplate,
    responses(
        (status = 201, description = "The template", body = Template),
        (status = 422, description = "The reference or the description is invalid, or the Idempotency-Key was used for \
            another request", body = InvalidTemplate)))]
async fn save(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<SaveTemplate>,
) -> Result<(StatusCode, Json<Template>)> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    if computer.owner != caller.account {
        let message = "Access denied: only the owner of the workspace may save its computers as templates";
        return Err(Error::forbidden(message).into());
    }
    check_author(&app, &caller).await?;
    let reference = TemplateRef::parse(&wanted.reference).filter(TemplateRef::is_own);
    let reference = reference.ok_or_else(|| Error::invalid("ref must have the form default/name@version"))?;
    let definition = definition_of(&computer, &reference, wanted.description.as_deref()).map_err(refusal)?;
    let template = app.templates.save(&computer, &definition).await?;
    Ok((StatusCode::CREATED, Json(record(&app, template).await?)))
}
