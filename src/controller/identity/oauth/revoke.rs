//! How does a client give its tokens back? `POST /oauth/revoke` (RFC 7009): either token ends the whole connection.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::answer::{ClientForm, Failed, answer};
use super::tokens;
use crate::Shared;
use crate::auth::keys::digest;
use hotdesk_domain::audit::Action;
use hotdesk_domain::oauth::refusal::Code;

/// `POST /oauth/revoke`. A token that is not known is revoked already (section 2.2).
pub async fn revoke(
    State(app): State<Shared>,
    ClientForm(parameters): ClientForm,
) -> Result<Response, Failed> {
    let token = parameters.need("token", "token is missing")?;
    let client = parameters.one("client_id")?;
    let found = match tokens::family_of(token) {
        Some(family) => app.store.grant_of_family(&digest(family)).await?,
        None => app.store.grant_of_access(&digest(token)).await?,
    };
    if let Some(grant) = found {
        if client.is_some_and(|client| client != grant.client_id) {
            return Err(Code::InvalidClient.because("the token is another client's").into());
        }
        if app.end_grant(grant.id, "its client gave it back").await? {
            tokens::told(&grant, Action::ConnectionRevoked);
        }
    }
    Ok(answer(StatusCode::OK, &json!({})))
}
