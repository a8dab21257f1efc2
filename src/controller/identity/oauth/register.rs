//! How does a client without a URL of its own become known? `POST /oauth/register` (RFC 7591): public clients, a bounded number.

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use super::answer::{Failed, MAX_BYTES, answer};
use super::clients::claims;
use crate::Shared;
use crate::auth::rate::count;
use hotdesk_base::clock::now_ms;
use hotdesk_base::secret::Secret;
use hotdesk_domain::oauth::SCOPE;
use hotdesk_domain::oauth::refusal::Code;
use hotdesk_http::extract::read_body;
use hotdesk_http::serve::Peer;
use hotdesk_wire::oauth::{ClientMetadata, Registered};

/// Characters of a client's id: it is no secret, but nobody should hit another's.
const CHARACTERS: usize = 22;

/// `POST /oauth/register`. Whatever way to show a secret is asked for, there is none (section 3.2.1 lets us say so).
pub async fn register(
    State(app): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failed> {
    count(&app.oauth.registrations, &app.source(&peer, &headers))?;
    let body = read_body(body, MAX_BYTES).await?;
    let said: ClientMetadata = serde_json::from_slice(&body)
        .map_err(|_| Code::InvalidClientMetadata.because("the body is no JSON object of client metadata"))?;
    let client = claims(said).accept(Secret::random(CHARACTERS).reveal().to_owned())?;
    app.store.add_oauth_client(&client).await?;
    let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
    let registered = Registered {
        client_id: client.id,
        client_id_issued_at: now_ms() / 1000,
        client_name: client.name,
        redirect_uris: client.redirect_uris,
        grant_types: words(&["authorization_code", "refresh_token"]),
        response_types: words(&["code"]),
        token_endpoint_auth_method: "none".to_owned(),
        scope: SCOPE.to_owned(),
    };
    Ok(answer(StatusCode::CREATED, &registered))
}
