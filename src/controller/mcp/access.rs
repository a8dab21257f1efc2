//! Checks of the credentials of MCP requests: access tokens at `/mcp`, API keys at `/mcp/stdio`. A57
//! (docs/authentication-rules.md).

use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use crate::identity::auth;
use crate::identity::auth::rate::RateStatus;
use crate::identity::oauth::challenge::{TokenProblem, challenge};
use crate::web::origin::Origin;
use crate::web::source::Source;
use crate::{AppState, audit};
use hotdesk_base::revocation_registry::Lease;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::{Caller, Credential};
use hotdesk_domain::identity::api_key;
use hotdesk_http::bearer::{self, Credentials};
use hotdesk_http::error_response::HttpError;
use hotdesk_http::serve::remember_source;

/// Kind of credential that a path accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcceptedCredential {
    /// A token of a connection, which a person granted.
    AccessToken,
    /// An API key, of the relay `hotdesk mcp`.
    ApiKey,
}

/// Caller of a request, with its credential.
pub(super) struct KnownCaller {
    pub(super) caller: Caller,
    /// Name of the client or of the key, for the audit log.
    pub(super) client: String,
    pub(super) lease: Lease<Credential>,
    pub(super) rate_status: RateStatus,
}

/// Outcome of the checks.
pub(super) enum Admission {
    /// The request may be served.
    Granted(KnownCaller),
    /// Its answer.
    Refusal(Response),
}

/// Checks the credential of a request.
///
/// # Errors
/// `Internal` when the database fails; `Forbidden` (`origin_not_allowed`) for a page with an API key.
pub(super) async fn check(
    app: &AppState,
    own: &Origin,
    source: Source,
    accepted: AcceptedCredential,
    parts: &Parts,
) -> Result<Admission> {
    match accepted {
        AcceptedCredential::AccessToken => by_token(app, own, source, parts).await,
        AcceptedCredential::ApiKey => by_key(app, source, parts).await,
    }
}

async fn by_token(app: &AppState, own: &Origin, source: Source, parts: &Parts) -> Result<Admission> {
    let found = match bearer::credentials(&parts.headers) {
        Credentials::Missing => Err(TokenProblem::NoToken),
        Credentials::Invalid => Err(TokenProblem::BadToken),
        Credentials::Bearer(token) => {
            let wrong = if token.starts_with(api_key::PREFIX) {
                TokenProblem::ApiKey
            } else {
                TokenProblem::BadToken
            };
            app.grants.hold(token).await?.ok_or(wrong)
        }
    };
    let (caller, client, lease) = match found {
        Ok(found) => found,
        Err(TokenProblem::NoToken) => {
            return Ok(Admission::Refusal(challenge(own, TokenProblem::NoToken)));
        }
        Err(why) => {
            let one_too_many = app.wrong_credentials.note(source, "Invalid access token");
            return Ok(Admission::Refusal(one_too_many.unwrap_or_else(|| challenge(own, why))));
        }
    };
    note_known(app, source, parts, &caller);
    Ok(match app.rates.take(&caller.credential) {
        Ok(rate_status) => Admission::Granted(KnownCaller { caller, client, lease, rate_status }),
        Err(rate_status) => {
            let mut refused = HttpError(Error::rate_limited(rate_status.seconds)).into_response();
            rate_status.write(refused.headers_mut());
            Admission::Refusal(refused)
        }
    })
}

async fn by_key(app: &AppState, source: Source, parts: &Parts) -> Result<Admission> {
    if parts.headers.contains_key(header::ORIGIN) {
        let message = "Web pages may not send an API key to the MCP server";
        return Err(Error::forbidden(message).code(ErrorCode::OriginNotAllowed));
    }
    let shown = bearer::credentials(&parts.headers) != Credentials::Missing;
    let identification = app.authenticator.identify(parts).await;
    let error = match (identification.caller, identification.held, identification.standing) {
        (Ok(caller), Some((lease, client)), Some(rate_status))
            if matches!(caller.credential, Credential::Key(_)) =>
        {
            note_known(app, source, parts, &caller);
            return Ok(Admission::Granted(KnownCaller { caller, client, lease, rate_status }));
        }
        // The token of a console's page, which is no program.
        (Ok(caller), _, _) if matches!(caller.credential, Credential::Session(_)) => {
            Error::unauthenticated("Invalid API key")
        }
        (Ok(_), _, _) => Error::internal("a caller without a lease or a rate limit"),
        (Err(error), _, standing) => {
            if let Some(standing) = standing {
                let mut refused = HttpError(error).into_response();
                standing.write(refused.headers_mut());
                return Ok(Admission::Refusal(refused));
            }
            error
        }
    };
    if error.kind != Kind::Unauthenticated {
        return Err(error);
    }
    let one_too_many = shown.then(|| app.wrong_credentials.note(source, "Invalid API key")).flatten();
    let mut refused = one_too_many.unwrap_or_else(|| HttpError(error).into_response());
    auth::add_challenge(shown, &mut refused);
    Ok(Admission::Refusal(refused))
}

fn note_known(app: &AppState, source: Source, parts: &Parts, caller: &Caller) {
    app.wrong_credentials.forget(source);
    remember_source(&parts.extensions);
    audit::set_actor(caller.credential, caller.account);
}
