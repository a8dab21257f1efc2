//! Dynamic client registration: `POST /oauth/register` (RFC 7591). Only public clients, in a bounded number.

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::answer::{MAX_BYTES, OAuthFailure, answer};
use super::clients::validated_fields;
use crate::AppState;
use crate::identity::auth::rate::count;
use crate::web::source::Source;
use hotdesk_base::clock;
use hotdesk_base::secret::Secret;
use hotdesk_domain::identity::oauth::SCOPE;
use hotdesk_domain::identity::oauth::refusal::Code;
use hotdesk_http::extract::read_body;
use hotdesk_wire::identity::oauth::{ClientMetadata, RegisteredClient};

/// Characters of a client id. It is not secret, but ids must not collide.
const CHARACTERS: usize = 22;

/// `POST /oauth/register`. Clients are registered as public whatever authentication method they request
/// (section 3.2.1 allows that).
pub async fn register(
    State(app): State<AppState>,
    source: Source,
    body: Body,
) -> Result<Response, OAuthFailure> {
    count(&app.oauth.registrations, &source)?;
    let body = read_body(body, MAX_BYTES).await?;
    let metadata: ClientMetadata = serde_json::from_slice(&body)
        .map_err(|_| Code::InvalidClientMetadata.because("the body is no JSON object of client metadata"))?;
    let client = validated_fields(metadata).accept(Secret::random(CHARACTERS).reveal().to_owned())?;
    app.store.add_oauth_client(&client).await?;
    let strings = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
    let registered = RegisteredClient {
        client_id: client.id,
        client_id_issued_at: clock::now().as_seconds(),
        client_name: client.name,
        redirect_uris: client.redirect_uris,
        grant_types: strings(&["authorization_code", "refresh_token"]),
        response_types: strings(&["code"]),
        token_endpoint_auth_method: "none".to_owned(),
        scope: SCOPE.to_owned(),
    };
    Ok(answer(StatusCode::CREATED, &registered))
}
