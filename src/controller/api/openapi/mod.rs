//! OpenAPI document: recorded for the program, and built by tests from the routes and from what holds for all
//! operations.

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::response::{IntoResponse, Response as HttpResponse};
use flate2::read::GzDecoder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::server::Server;
use utoipa::openapi::tag::Tag;
use utoipa::openapi::{
    Content, InfoBuilder, LicenseBuilder, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder,
};
use utoipa::{IntoParams, PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

mod schemas;

use crate::AppState;
use crate::api::idempotency;
use crate::web::console::accepts_gzip;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_http::error_response::HttpError;
use hotdesk_http::idempotency::StoredAnswerHeader;
use hotdesk_wire::error::ErrorBody;

/// Version of the API description.
const VERSION: &str = "2.0.0";
/// Licence of the API description, an SPDX expression.
const LICENSE: &str = "MIT OR Apache-2.0";
/// Media type of values of JSON, one on each line.
const JSON_LINES: &str = "application/x-ndjson";
/// Field of the content of a stream that refers to the type of its values.
const ITEM_SCHEMA: &str = "x-item-schema";
/// Name of the API key's security scheme.
const KEY_SCHEME: &str = "api_key";

/// Types of bodies that may be absent: every field of theirs is optional.
const OPTIONAL_BODIES: [&str; 19] = [
    "ChangeThread",
    "CloneComputer",
    "CloseWindow",
    "CreateSnapshot",
    "ElementClick",
    "FireTrigger",
    "ForkComputer",
    "HandBack",
    "MakeThreadTitle",
    "MoveToHost",
    "PointerButton",
    "PollDevice",
    "ScreenSize",
    "StartDevice",
    "StartRecording",
    "SyncSecrets",
    "TakeControl",
    "WaitChange",
    "WaitStable",
];

/// Types of JSON bodies that may have unknown fields (docs/api/compatibility.md#fields-without-effect).
const TOLERANT_BODIES: [&str; 4] = ["ChatCompletionRequest", "CreateComputer", "PollDevice", "StartDevice"];

/// Subjects of operations, with a description.
const TAGS: [(&str, &str); 28] = [
    ("account", "The account: plan, capacity, profile and claim"),
    ("actions", "Screenshots, mouse, keyboard, waits and commands"),
    ("audit", "The audit log"),
    ("chat", "Language models that work on computers"),
    ("clients", "Workspaces of other people's programs, with limits of their own"),
    ("clipboard", "The clipboard of a screen"),
    ("computer files", "Files in a computer"),
    ("computers", "Computers: create, read, rename, copy, move and delete"),
    ("elements", "Accessibility elements of programs"),
    ("events", "The catalogue of desktop events"),
    ("execution", "Background processes and Python sessions"),
    ("files", "Files of a workspace"),
    ("keys", "API keys"),
    ("lifecycle", "Start, stop, restart, suspend and resume"),
    ("members", "People of a workspace"),
    ("ports", "Ports of programs in a computer, and links to them"),
    ("recordings", "Recordings of screens"),
    ("resize", "CPU, RAM, disk and bandwidth of a computer"),
    ("screens", "Screens of a computer, and tickets that open one"),
    ("secrets", "Secrets for computers, and their transfer to one"),
    ("selftest", "The self-test of a computer"),
    ("service", "The service itself; these operations need no key"),
    ("snapshots", "Snapshots and rollbacks"),
    ("streaming", "RTMP streams"),
    ("templates", "Templates: definition files, builds and launches"),
    ("threads", "Chat threads of computers, with the steps of their runs"),
    ("windows", "Windows and programs"),
    ("workspaces", "Workspaces"),
];

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

/// Adds what holds for all operations: title, servers, tags, the security scheme, and failures. Rewrites
/// schemas that generators of clients do not support.
pub fn complete(mut document: OpenApi) -> OpenApi {
    document.info = InfoBuilder::new()
        .title("hotdesk")
        .version(VERSION)
        .description(Some(
            "Self-hosted cloud computers. In every path `/projects` is an alias of `/workspaces`, \
             `/clients` of `/v1/accounts`, and `/v1/threads` of `/chat/threads`.",
        ))
        .license(Some(LicenseBuilder::new().name(LICENSE).identifier(Some(LICENSE)).build()))
        .build();
    document.tags = Some(TAGS.into_iter().map(tag).collect());
    document.servers = Some(vec![Server::new("/api")]);
    let strict = strict_bodies(&document);
    let components = document.components.get_or_insert_default();
    components.schemas.insert(ErrorBody::name().into_owned(), ErrorBody::schema());
    schemas::simplify(&mut components.schemas, &strict);
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
    schemas::remove_unused(&mut document);
    document
}

fn tag((name, description): (&str, &str)) -> Tag {
    let mut tag = Tag::new(name);
    tag.description = Some(description.to_owned());
    tag
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
        operation.operation_id = Some(format!("{}_{name}", tag.replace(' ', "_")));
    }
    complete_schemas(operation);
    if is_public(operation) {
        operation.security = Some(Vec::new());
        return;
    }
    operation.security = Some(vec![SecurityRequirement::new::<_, [&str; 0], &str>(KEY_SCHEME, [])]);
    for (status, description) in KEY_FAILURES.into_iter().chain(STATE_FAILURES) {
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| refusal(description));
    }
}

/// Completes the schemas of parameters, bodies and answers.
fn complete_schemas(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter
            && let Some(schema) = &mut parameter.schema
        {
            schemas::without_null(schema);
            schemas::list_words(schema);
            schemas::limit_field(schema);
        }
    }
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        if body.content.values().filter_map(type_of).any(|name| OPTIONAL_BODIES.contains(&name)) {
            body.required = Some(Required::False);
        }
        body.content.iter_mut().for_each(|(kind, content)| complete_content(kind, content));
    }
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            response.content.iter_mut().for_each(|(kind, content)| complete_content(kind, content));
        }
    }
}

/// The names of JSON bodies that refuse unknown fields.
fn strict_bodies(document: &OpenApi) -> BTreeSet<String> {
    let operations = document.paths.paths.values().flat_map(idempotency::changing);
    let bodies = operations.filter_map(|(_, operation)| match &operation.request_body {
        Some(RefOr::T(body)) => Some(body.content.values().filter_map(type_of)),
        Some(RefOr::Ref(_)) | None => None,
    });
    bodies.flatten().filter(|name| !TOLERANT_BODIES.contains(name)).map(str::to_owned).collect()
}

/// The name of the schema of a content.
fn type_of(content: &RefOr<Content>) -> Option<&str> {
    match content {
        RefOr::T(Content { schema: Some(RefOr::Ref(reference)), .. }) => schemas::name_of(reference),
        RefOr::T(_) | RefOr::Ref(_) => None,
    }
}

/// Gives content that is not JSON its schema: text or bytes.
fn complete_content(kind: &str, content: &mut RefOr<Content>) {
    let RefOr::T(content) = content else { return };
    // Lines of JSON are not one value, as which generators would read them.
    let has_form = kind != JSON_LINES && ["json", "form-data"].iter().any(|name| kind.contains(name));
    if !has_form {
        name_items(content);
        let is_text = kind.starts_with("text/");
        content.schema = Some(if is_text { schemas::text() } else { schemas::bytes() });
    }
}

/// Keeps the type of the values of a stream, such as server-sent events. Without it nothing would refer to
/// the type, and clients would not have it. OpenAPI 3.2 calls it `itemSchema`, which 3.1 does not know.
fn name_items(content: &mut Content) {
    if let Some(RefOr::Ref(items)) = &content.schema {
        let items = serde_json::json!({"$ref": items.ref_location});
        content.extensions.get_or_insert_default().insert(ITEM_SCHEMA.to_owned(), items);
    }
}

/// Compression of the recorded document (`packaging/dev/embed.rs`).
static RECORDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"));

/// The recorded document, decompressed when it is first read. Strangers who read it again and again cost little.
static PLAIN: LazyLock<std::io::Result<Bytes>> = LazyLock::new(|| {
    let mut plain = Vec::new();
    GzDecoder::new(RECORDED).read_to_end(&mut plain)?;
    Ok(plain.into())
});

/// Returns the recorded document (`packaging/openapi.json`), for `hotdesk openapi` and for clients. The code
/// that builds it is not in the installed program.
///
/// # Errors
/// `Internal` when it cannot be decompressed.
pub fn recorded() -> Result<Bytes> {
    PLAIN.as_ref().cloned().map_err(|error| Error::internal(format!("the OpenAPI document: {error}")))
}

/// `GET /openapi.json`.
///
/// # Errors
/// Those of [`recorded`].
pub async fn answer(headers: HeaderMap) -> Result<HttpResponse, HttpError> {
    let kind = [(CONTENT_TYPE, "application/json"), (VARY, "accept-encoding")];
    if accepts_gzip(&headers) {
        return Ok((kind, [(CONTENT_ENCODING, "gzip")], Bytes::from_static(RECORDED)).into_response());
    }
    Ok((kind, recorded()?).into_response())
}

/// Builds the complete document from the routes. Only tests need it: they compare it with the recorded one.
pub fn document() -> OpenApi {
    complete(super::documented::<OpenApiRouter<AppState>>().into_openapi())
}

/// Builds the document as JSON, in the form of `packaging/openapi.json`.
///
/// # Errors
/// `Internal` when it cannot be serialized.
pub fn build() -> Result<String> {
    document().to_pretty_json().map(|json| json + "\n").map_err(Error::internal)
}
