//! OpenAPI document: generated from the routes, completed with what holds for all operations.

use std::sync::Arc;

use axum::Json;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::server::Server;
use utoipa::openapi::{Content, InfoBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::idempotency;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_http::idempotency::StoredAnswerHeader;
use hotdesk_wire::error::ErrorBody;

/// Version of the API description.
const VERSION: &str = "2.0.0";
/// Name of the API key's security scheme.
const KEY_SCHEME: &str = "api_key";

/// Failures of every operation that needs a key.
const KEY_FAILURES: [(&str, &str); 7] = [
    ("400", "The request is malformed or a value is out of range"),
    ("401", "Missing or invalid API key"),
    ("403", "Not allowed: plan limit, scope or ownership"),
    ("404", "Not found"),
    ("429", "Too many requests; see Retry-After"),
    ("500", "Unexpected failure of the service or the computer"),
    ("503", "Not ready, or a dependency is unavailable; may have Retry-After"),
];
/// Failures of operations that change or use something with a state.
const STATE_FAILURES: [(&str, &str); 5] = [
    ("402", "The trial has ended, or the payment has lapsed"),
    ("408", "The request body did not arrive in time"),
    ("409", "The state of the resource forbids the operation"),
    ("413", "The request body is too large"),
    ("504", "The computer did not respond in time"),
];

/// Adds what holds for all operations: title, servers, the security scheme, and failures.
pub fn complete(mut document: OpenApi) -> OpenApi {
    document.info = InfoBuilder::new()
        .title("hotdesk")
        .version(VERSION)
        .description(Some(
            "Self-hosted cloud computers. In every path `/projects` is an alias of `/workspaces`, and \
             `/clients` of `/v1/accounts`.",
        ))
        .build();
    document.servers = Some(vec![Server::new("/api")]);
    let components = document.components.get_or_insert_default();
    components.schemas.insert(ErrorBody::name().into_owned(), ErrorBody::schema());
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme(KEY_SCHEME, SecurityScheme::Http(bearer));
    for item in document.paths.paths.values_mut() {
        [&mut item.put, &mut item.post, &mut item.patch, &mut item.delete]
            .into_iter()
            .flatten()
            .for_each(complete_change);
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete]
            .into_iter()
            .flatten();
        operations.for_each(complete_operation);
    }
    document
}

/// Whether an operation needs no key.
fn is_public(operation: &Operation) -> bool {
    operation.tags.as_ref().is_some_and(|tags| tags.iter().any(|tag| tag == "service"))
}

/// Documents the `Idempotency-Key` of an operation that changes something.
fn complete_change(operation: &mut Operation) {
    if is_public(operation) {
        return;
    }
    if !idempotency::names_a_key(operation) {
        let kept = StoredAnswerHeader::into_params(|| None).into_iter().map(RefOr::T);
        operation.parameters.get_or_insert_default().extend(kept);
    }
    let reused = "This Idempotency-Key was used for another request";
    operation.responses.responses.entry("422".to_owned()).or_insert_with(|| refusal(reused));
}

fn refusal(description: &str) -> RefOr<Response> {
    let content = Content::new(Some(RefOr::Ref(Ref::from_schema_name(ErrorBody::name()))));
    RefOr::T(ResponseBuilder::new().description(description).content("application/json", content).build())
}

fn complete_operation(operation: &mut Operation) {
    // Handlers in several modules have the same name, but operation ids must be unique (OpenAPI 3.1 section
    // 4.8.10).
    if let (Some(tag), Some(name)) = (operation.tags.iter().flatten().next(), &operation.operation_id) {
        operation.operation_id = Some(format!("{tag}_{name}"));
    }
    if is_public(operation) {
        return;
    }
    operation.security = Some(vec![SecurityRequirement::new::<_, [&str; 0], &str>(KEY_SCHEME, [])]);
    for (status, description) in KEY_FAILURES.into_iter().chain(STATE_FAILURES) {
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| refusal(description));
    }
}

/// `GET /openapi.json`.
pub async fn answer(document: Arc<OpenApi>) -> Json<OpenApi> {
    Json((*document).clone())
}

/// Returns the complete document.
pub fn document() -> OpenApi {
    let (_, document) = super::documented().split_for_parts();
    complete(document)
}

/// Returns the document as JSON, for `hotdesk openapi` and for the test that compares it with
/// `packaging/openapi.json`.
///
/// # Errors
/// `Internal` when it cannot be serialized.
pub fn text() -> Result<String> {
    document().to_pretty_json().map_err(Error::internal)
}
