//! Discovery documents: RFC 9728, RFC 8414, RFC 9727, and `/llms.txt` (docs/api/mcp.md).

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use super::resource;
use crate::AppState;
use crate::web::cors::allow_any_origin;
use crate::web::origin::Origin;
use hotdesk_domain::identity::oauth::SCOPE;
use hotdesk_wire::identity::oauth::{ResourceMetadata, ServerMetadata};

/// Path of the MCP endpoint's metadata by RFC 9728 section 3.1. The path at the root has the same document.
pub(super) const RESOURCE_METADATA: &str = "/.well-known/oauth-protected-resource/mcp";
/// Path of the API catalogue (RFC 9727 section 2).
const CATALOGUE: &str = "/.well-known/api-catalog";

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/.well-known/oauth-protected-resource", allow_any_origin(get(resource_metadata)))
        .route(RESOURCE_METADATA, allow_any_origin(get(resource_metadata)))
        .route("/.well-known/oauth-authorization-server", allow_any_origin(get(server_metadata)))
        .route(CATALOGUE, allow_any_origin(get(catalogue)))
        .route("/llms.txt", allow_any_origin(get(text_for_agents)))
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&word| word.to_owned()).collect()
}

async fn resource_metadata(site: Origin) -> Json<ResourceMetadata> {
    Json(ResourceMetadata {
        resource: resource(&site),
        resource_documentation: format!("{}/llms.txt", site.0),
        authorization_servers: vec![site.0],
        scopes_supported: strings(&[SCOPE]),
        bearer_methods_supported: strings(&["header"]),
        resource_name: "hotdesk".to_owned(),
    })
}

async fn server_metadata(Origin(site): Origin) -> Json<ServerMetadata> {
    Json(ServerMetadata {
        authorization_endpoint: format!("{site}/oauth/authorize"),
        token_endpoint: format!("{site}/oauth/token"),
        registration_endpoint: format!("{site}/oauth/register"),
        revocation_endpoint: format!("{site}/oauth/revoke"),
        service_documentation: format!("{site}/llms.txt"),
        issuer: site,
        scopes_supported: strings(&[SCOPE]),
        response_types_supported: strings(&["code"]),
        response_modes_supported: strings(&["query"]),
        grant_types_supported: strings(&["authorization_code", "refresh_token"]),
        token_endpoint_auth_methods_supported: strings(&["none"]),
        revocation_endpoint_auth_methods_supported: strings(&["none"]),
        code_challenge_methods_supported: strings(&["S256"]),
        client_id_metadata_document_supported: true,
        authorization_response_iss_parameter_supported: true,
    })
}

/// Linkset (RFC 9264 section 4.2) of the REST API and the MCP endpoint.
async fn catalogue(Origin(site): Origin) -> Response {
    let link = |path: &str, kind: &str| json!([{"href": format!("{site}{path}"), "type": kind}]);
    let linkset = json!({"linkset": [
        {
            "anchor": format!("{site}/api"),
            "service-desc": link("/openapi.json", "application/json"),
            "service-doc": link("/llms.txt", "text/plain"),
            "status": link("/health", "application/json"),
        },
        {
            "anchor": format!("{site}/mcp"),
            "service-doc": link("/llms.txt", "text/plain"),
            "service-meta": link(RESOURCE_METADATA, "application/json"),
        },
    ]});
    let fields = [
        (
            header::CONTENT_TYPE,
            "application/linkset+json; profile=\"https://www.rfc-editor.org/info/rfc9727\"".to_owned(),
        ),
        (header::LINK, format!("<{site}{CATALOGUE}>; rel=\"api-catalog\"")),
    ];
    (fields, linkset.to_string()).into_response()
}

/// `GET /llms.txt` (llmstxt.org): an introduction for AI agents.
async fn text_for_agents(State(app): State<AppState>, Origin(site): Origin) -> Response {
    let agents = if app.config.agent_accounts.enabled {
        format!(
            " Without a person, make an account for yourself: `POST {site}/api/agent-accounts` with `{{\"name\": \"...\"}}` answers \
with a key, its limits and a link by which a person takes the account over; if it wants work shown first, \
`GET {site}/api/agent-accounts/challenge` says which."
        )
    } else {
        String::new()
    };
    let text = format!(
        "# hotdesk

> Cloud computers for programs and AI agents: virtual Linux desktops that you start, look at, click and type on, run commands \
on and give files to.

There are two ways in. Over HTTP: send `Authorization: Bearer <API key>` to {site}/api. Over MCP: connect to {site}/mcp; a person \
lets you into one workspace in a browser, and no key is copied.

A key comes from a person: signed in, they make one at {site}/settings/keys; or you begin with `POST {site}/api/cli/auth/start`, \
show them its code and page, and poll `POST {site}/api/cli/auth/poll` until they have approved.{agents}

Begin with `POST /workspaces` and `POST /computers`, wait until its `status` is `running`, then `GET /computers/{{id}}/screenshot`, \
`POST /computers/{{id}}/click`, `POST /computers/{{id}}/type` and `POST /computers/{{id}}/bash`. A failure is JSON with `error`, and \
with `code` where a program can act on it.

## Documents

- [OpenAPI description]({site}/openapi.json): every operation, its fields and its failures
- [API catalogue]({site}{CATALOGUE}): the same in RFC 9727's form
- [MCP resource]({site}{RESOURCE_METADATA}): where an MCP client gets its tokens
- [Authorization server]({site}/.well-known/oauth-authorization-server): OAuth 2.1, PKCE, client ID documents, registration
"
    );
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}
