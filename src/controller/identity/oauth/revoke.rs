//! Token revocation: `POST /oauth/revoke` (RFC 7009). Either token ends the whole connection.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::answer::{ClientForm, OAuthFailure, answer};
use super::tokens;
use crate::AppState;
use crate::identity::auth::keys::digest;
use hotdesk_domain::audit::AuditAction;
use hotdesk_domain::identity::oauth::refusal::Code;

/// `POST /oauth/revoke`. An unknown token counts as revoked (section 2.2).
pub async fn revoke(
    State(app): State<AppState>,
    ClientForm(parameters): ClientForm,
) -> Result<Response, OAuthFailure> {
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
        if app.grants.end(grant.id, "its client revoked it").await? {
            tokens::audit_client(&grant, AuditAction::ConnectionRevoked);
        }
    }
    Ok(answer(StatusCode::OK, &json!({})))
}
