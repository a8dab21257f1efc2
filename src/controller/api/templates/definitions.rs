//! Definition files of templates over HTTP: validation and JSON Schema (docs/api/templates.md).

use axum::Json;
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_domain::computer::template::bounds::MAX_DOCUMENT_BYTES;
use hotdesk_domain::computer::template::fault::FaultCode;
use hotdesk_domain::error::{Error, Field};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::read_body;
use hotdesk_wire::template::{self, InvalidTemplate, TemplateDefinition, TemplateError, ValidTemplate};

/// Returns the routes of definition files.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(validate)).routes(routes!(schema))
}

/// Checks the definition file of a template, in YAML or JSON.
///
/// Nothing is stored. The answer to an invalid document has every error.
#[utoipa::path(post, path = "/templates/validate", tag = "templates",
    request_body(content = String, content_type = "application/yaml",
        description = "The definition file. JSON is accepted as well, with any content type."),
    responses(
        (status = 200, description = "The document is valid", body = ValidTemplate),
        (status = 422, description = "The document is invalid, or the Idempotency-Key was used for another request",
            body = InvalidTemplate)))]
async fn validate(_: AuthenticatedCaller, body: Body) -> Result<Json<ValidTemplate>> {
    read_definition(body, ValidTemplate::from, refusal).await.map(Json)
}

/// Reads and checks a definition file and converts it. The largest documents take longer than other requests may wait for
/// this thread, so that both happen on another one.
///
/// # Errors
/// What `refuse` makes of the errors of the document; those of [`read_body`].
pub async fn read_definition<T: Send + 'static>(
    body: Body,
    convert: impl FnOnce(TemplateDefinition) -> T + Send + 'static,
    refuse: fn(Vec<TemplateError>) -> Error,
) -> Result<T> {
    let document = read_body(body, MAX_DOCUMENT_BYTES).await?;
    let checked = hotdesk_base::tasks::spawn_blocking(move || template::validate(&document).map(convert));
    checked.await.map_err(Error::internal)?.map_err(|errors| refuse(errors).into())
}

/// Returns the JSON Schema (draft 07) of the definition file, for editors.
#[utoipa::path(get, path = "/template-schema", tag = "service", responses(
    (status = 200, description = "The JSON Schema", body = Object, content_type = "application/schema+json")))]
async fn schema() -> Response {
    let kind = [(header::CONTENT_TYPE, "application/schema+json")];
    (kind, template::schema().to_string()).into_response()
}

/// The answer to an invalid document: `Unprocessable` (`template_invalid`), with every error.
pub fn refusal(errors: Vec<TemplateError>) -> Error {
    let InvalidTemplate { ok, error, errors, .. } = errors.into();
    let rows = errors.into_iter().map(|error| {
        let mut row = vec![
            ("field", Field::Text(error.field)),
            ("code", Field::Text(error.code)),
            ("message", Field::Text(error.message)),
            ("line", Field::Number(error.line.into())),
            ("column", Field::Number(error.column.into())),
        ];
        row.extend(error.hint.map(|hint| ("hint", Field::Text(hint))));
        row
    });
    Error::unprocessable(error)
        .code(ErrorCode::TemplateInvalid)
        .field("ok", Field::Flag(ok))
        .field("errors", Field::Rows(rows.collect()))
}

/// The answer to a publication: `Invalid` for a text that is no document, else that of [`refusal`].
pub fn publication_refusal(errors: Vec<TemplateError>) -> Error {
    if errors.iter().any(|error| error.code == FaultCode::Syntax.as_str()) {
        return Error::invalid(InvalidTemplate::from(errors).error);
    }
    refusal(errors)
}
