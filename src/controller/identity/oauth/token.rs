//! Token endpoint: `POST /oauth/token` (RFC 6749 sections 4.1.3 and 6, RFC 9700 section 4.14).

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::answer::{ClientForm, OAuthFailure, answer};
use super::{resource, tokens};
use crate::AppState;
use crate::identity::auth::keys::digest;
use crate::web::origin::Origin;
use crate::web::source::Source;
use hotdesk_base::clock;
use hotdesk_domain::audit::AuditAction;
use hotdesk_domain::identity::oauth::parameters::Parameters;
use hotdesk_domain::identity::oauth::refusal::{Code, Refusal};
use hotdesk_domain::identity::oauth::{pkce, request};
use hotdesk_store::identity::oauth::grants::Grant;
use hotdesk_wire::identity::oauth::Tokens;

/// Grant type of an exchange.
enum Exchange {
    Code,
    Refresh,
}

/// `POST /oauth/token`.
pub async fn exchange(
    State(app): State<AppState>,
    site: Origin,
    source: Source,
    ClientForm(parameters): ClientForm,
) -> Result<Response, OAuthFailure> {
    let by = match parameters.need("grant_type", "grant_type is missing")? {
        "authorization_code" => Exchange::Code,
        "refresh_token" => Exchange::Refresh,
        _ => {
            let why = "grant_type can only be authorization_code or refresh_token";
            return Err(Code::UnsupportedGrantType.because(why).into());
        }
    };
    let client = parameters.need("client_id", "client_id is missing")?;
    if !app.oauth.is_known_client(client).await? {
        return Err(Code::InvalidClient.because("the client is not known").into());
    }
    request::check_scope(&parameters)?;
    request::check_resource(&parameters, &resource(&site))?;
    let tokens = match by {
        Exchange::Code => redeem(&app, source, client, &parameters).await?,
        Exchange::Refresh => refresh(&app, source, client, &parameters).await?,
    };
    app.wrong_credentials.forget(source);
    Ok(answer(StatusCode::OK, &tokens))
}

/// Refuses a code or token that belongs to no connection, and counts it as a possible guess. A used code of a
/// real connection does not count, because its holder is not guessing.
fn unknown(app: &AppState, source: Source) -> OAuthFailure {
    let one_too_many = app.wrong_credentials.note(source, "Invalid grant").map(Box::new);
    one_too_many.map_or_else(|| invalid_grant().into(), OAuthFailure::TooManyGuesses)
}

/// Error of an invalid code or refresh token. It is the same for every reason, so that guessing reveals
/// nothing.
fn invalid_grant() -> Refusal {
    Code::InvalidGrant.because("it is unknown, expired, used before, or another client's")
}

/// Error of a verifier that does not match the code of this client (RFC 7636 section 4.6). For a used code it
/// is [`invalid_grant`].
fn wrong_verifier(grant: &Grant) -> Refusal {
    if grant.refresh.is_some() {
        return invalid_grant();
    }
    Code::InvalidGrant.because("code_verifier does not match code_challenge by S256 (RFC 7636)")
}

/// Whether a grant belongs to this client and this resource.
fn is_for(grant: &Grant, client: &str, parameters: &Parameters) -> Result<bool, Refusal> {
    let resource_parameter = parameters.one("resource")?;
    Ok(grant.client_id == client && resource_parameter.is_none_or(|requested| requested == grant.resource))
}

async fn redeem(
    app: &AppState,
    source: Source,
    client: &str,
    parameters: &Parameters,
) -> Result<Tokens, OAuthFailure> {
    let code = digest(parameters.need("code", "code is missing")?);
    let verifier = parameters.need("code_verifier", "code_verifier is missing")?;
    let redirect = parameters.one("redirect_uri")?;
    let grant = app.store.grant_of_code(&code).await?.ok_or_else(|| unknown(app, source))?;
    // OAuth 2.1 clients may omit the redirect URI, because PKCE binds the code. If they send it, it must be
    // the same.
    let same = redirect.is_none_or(|uri| uri == grant.redirect_uri);
    if !is_for(&grant, client, parameters)? || !same {
        return Err(invalid_grant().into());
    }
    if !pkce::verifies(&grant.challenge, verifier) {
        return Err(wrong_verifier(&grant).into());
    }
    let (tokens, digests) = tokens::generate(None, grant.expires_at);
    if grant.refresh.is_none() && app.store.redeem(grant.id, &digests).await? {
        tokens::audit_client(&grant, AuditAction::TokenIssued);
        return Ok(tokens);
    }
    // The code expired or was used before. If it was used, two parties have it, and the connection ends
    // (section 4.1.2).
    let used = app.store.grant_of_code(&code).await?.filter(|grant| grant.refresh.is_some());
    if let Some(grant) = used
        && app.grants.end(grant.id, "its code was used twice").await?
    {
        tokens::audit_client(&grant, AuditAction::TokenReused);
    }
    Err(invalid_grant().into())
}

async fn refresh(
    app: &AppState,
    source: Source,
    client: &str,
    parameters: &Parameters,
) -> Result<Tokens, OAuthFailure> {
    let shown = parameters.need("refresh_token", "refresh_token is missing")?;
    let family = tokens::family_of(shown).ok_or_else(|| unknown(app, source))?;
    let grant = app.store.grant_of_family(&digest(family)).await?.ok_or_else(|| unknown(app, source))?;
    if !is_for(&grant, client, parameters)? {
        return Err(invalid_grant().into());
    }
    let (tokens, digests) = tokens::generate(Some(family), grant.expires_at);
    if app.store.rotate(grant.id, &digest(shown), &digests).await? {
        tokens::audit_client(&grant, AuditAction::TokenRefreshed);
        return Ok(tokens);
    }
    // The token is of this family but not the current one: it was used before, so two parties have it. If the
    // connection has expired, ending it does no harm.
    if app.grants.end(grant.id, "a refresh token was used twice").await? && grant.expires_at > clock::now() {
        tokens::audit_client(&grant, AuditAction::TokenReused);
    }
    Err(invalid_grant().into())
}
