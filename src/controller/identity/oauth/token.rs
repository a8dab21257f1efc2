//! How does a code or a refresh token become tokens? `POST /oauth/token` (RFC 6749 sections 4.1.3 and 6, RFC 9700 section 4.14).

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::answer::{ClientForm, Failed, answer};
use super::{resource, tokens};
use crate::Shared;
use crate::auth::keys::digest;
use crate::auth::source::Source;
use crate::origin::Origin;
use hotdesk_base::clock::now_ms;
use hotdesk_domain::audit::Action;
use hotdesk_domain::oauth::parameters::Parameters;
use hotdesk_domain::oauth::refusal::{Code, Refusal};
use hotdesk_domain::oauth::{pkce, request};
use hotdesk_store::oauth_grants::Grant;
use hotdesk_wire::oauth::Tokens;

/// What is exchanged.
enum Exchange {
    Code,
    Refresh,
}

/// `POST /oauth/token`.
pub async fn exchange(
    State(app): State<Shared>,
    site: Origin,
    source: Source,
    ClientForm(parameters): ClientForm,
) -> Result<Response, Failed> {
    let by = match parameters.need("grant_type", "grant_type is missing")? {
        "authorization_code" => Exchange::Code,
        "refresh_token" => Exchange::Refresh,
        _ => {
            let why = "grant_type can only be authorization_code or refresh_token";
            return Err(Code::UnsupportedGrantType.because(why).into());
        }
    };
    let client = parameters.need("client_id", "client_id is missing")?;
    if !app.knows_client(client).await? {
        return Err(Code::InvalidClient.because("the client is not known").into());
    }
    request::check_scope(&parameters)?;
    request::check_resource(&parameters, &resource(&site))?;
    let tokens = match by {
        Exchange::Code => redeem(&app, source, client, &parameters).await?,
        Exchange::Refresh => refresh(&app, source, client, &parameters).await?,
    };
    app.guesses.forget(&source);
    Ok(answer(StatusCode::OK, &tokens))
}

/// The refusal of what leads to no connection: it may be a guess, and counts as one. What leads to one and opens nothing does not,
/// since who has it guesses no more.
fn unknown(app: &Shared, source: Source) -> Failed {
    let one_too_many = app.guessed(source, "Invalid grant").map(Box::new);
    one_too_many.map_or_else(|| dead().into(), Failed::Guessed)
}

/// A code or a refresh token that opens nothing: the same words whatever the reason, so that whoever guesses does not learn which
/// were real.
fn dead() -> Refusal {
    Code::InvalidGrant.because("it is unknown, expired, used before, or another client's")
}

/// The refusal of a verifier that does not fit a code which this very client was given (RFC 7636 section 4.6). Of a code that
/// was used it says no more than [`dead`].
fn unproven(grant: &Grant) -> Refusal {
    if grant.refresh.is_some() {
        return dead();
    }
    Code::InvalidGrant
        .because("code_verifier is not the one that code_challenge was made of by S256 (RFC 7636)")
}

/// Whether a grant was given to who asks, for what is asked for.
fn is_for(grant: &Grant, client: &str, parameters: &Parameters) -> Result<bool, Refusal> {
    let asked = parameters.one("resource")?;
    Ok(grant.client_id == client && asked.is_none_or(|asked| asked == grant.resource))
}

async fn redeem(
    app: &Shared,
    source: Source,
    client: &str,
    parameters: &Parameters,
) -> Result<Tokens, Failed> {
    let code = digest(parameters.need("code", "code is missing")?);
    let verifier = parameters.need("code_verifier", "code_verifier is missing")?;
    let redirect = parameters.one("redirect_uri")?;
    let grant = app.store.grant_of_code(&code).await?.ok_or_else(|| unknown(app, source))?;
    // OAuth 2.1 clients need not repeat the redirect URI, because PKCE binds the code; one that is repeated must be the same.
    let same = redirect.is_none_or(|uri| uri == grant.redirect_uri);
    if !is_for(&grant, client, parameters)? || !same {
        return Err(dead().into());
    }
    if !pkce::verifies(&grant.challenge, verifier) {
        return Err(unproven(&grant).into());
    }
    let (tokens, digests) = tokens::fresh(None, grant.expires_at);
    if grant.refresh.is_none() && app.store.redeem(grant.id, &digests).await? {
        tokens::told(&grant, Action::TokenIssued);
        return Ok(tokens);
    }
    // Dead of age, or used before: then two have it, and one of them should not (section 4.1.2).
    let used = app.store.grant_of_code(&code).await?.filter(|grant| grant.refresh.is_some());
    if let Some(grant) = used
        && app.end_grant(grant.id, "its code was used twice").await?
    {
        tokens::told(&grant, Action::TokenReused);
    }
    Err(dead().into())
}

async fn refresh(
    app: &Shared,
    source: Source,
    client: &str,
    parameters: &Parameters,
) -> Result<Tokens, Failed> {
    let shown = parameters.need("refresh_token", "refresh_token is missing")?;
    let family = tokens::family_of(shown).ok_or_else(|| unknown(app, source))?;
    let grant = app.store.grant_of_family(&digest(family)).await?.ok_or_else(|| unknown(app, source))?;
    if !is_for(&grant, client, parameters)? {
        return Err(dead().into());
    }
    let (tokens, digests) = tokens::fresh(Some(family), grant.expires_at);
    if app.store.rotate(grant.id, &digest(shown), &digests).await? {
        tokens::told(&grant, Action::TokenRefreshed);
        return Ok(tokens);
    }
    // It has the family and is not the current one: it was used before, so two have it. Or the connection is over, and then it
    // does no harm.
    if app.end_grant(grant.id, "a refresh token was used twice").await? && grant.expires_at > now_ms() {
        tokens::told(&grant, Action::TokenReused);
    }
    Err(dead().into())
}
