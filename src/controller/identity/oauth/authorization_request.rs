//! Check of an authorization request, and the redirection back to its client (RFC 6749 section 4.1).

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Redirect as SeeOther, Response};

use super::answer::parameters;
use super::{AuthorizationServer, resource};
use crate::web::origin::Origin;
use crate::web::page::Failure;
use crate::web::source::Source;
use hotdesk_base::ids::AccountId;
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::oauth::client::Client;
use hotdesk_domain::identity::oauth::refusal::Refusal;
use hotdesk_domain::identity::oauth::request;
use hotdesk_http::encode::percent_encode;

/// A valid authorization request.
pub(super) struct AuthorizationRequest {
    /// The client.
    pub client: Client,
    /// Target of the response: one of the client's registered addresses.
    pub redirect_uri: String,
    /// Value that the response repeats.
    pub state: Option<String>,
    /// PKCE challenge.
    pub challenge: String,
}

/// Why an authorization request is refused before the person decides.
pub(super) enum AuthorizationFailure {
    /// The redirect address is not trusted, so the person sees an error page (RFC 6749 section 4.1.2.1).
    Page(Error),
    /// The error is sent to the redirect address of a client that the person knows.
    Redirect(Response),
}

impl From<Error> for AuthorizationFailure {
    fn from(error: Error) -> Self {
        Self::Page(error)
    }
}

impl From<Refusal> for AuthorizationFailure {
    fn from(refusal: Refusal) -> Self {
        Self::Page(Error::invalid(format!(
            "The client's authorization request is invalid: {}",
            refusal.description
        )))
    }
}

impl IntoResponse for AuthorizationFailure {
    fn into_response(self) -> Response {
        match self {
            Self::Page(error) => Failure(error).into_response(),
            Self::Redirect(response) => response,
        }
    }
}

impl AuthorizationServer {
    /// Checks a request: first the client and the redirect address, then the parameters. Anybody can register a
    /// client, so an error goes to its address only if the person has let the client in before (RFC 9700 section
    /// 4.11.2).
    pub(super) async fn checked_request(
        &self,
        who: AccountId,
        site: &Origin,
        source: Source,
        query: &str,
    ) -> Result<AuthorizationRequest, AuthorizationFailure> {
        let parameters = parameters(query.as_bytes())?;
        let id = parameters.need("client_id", "client_id is missing")?;
        let redirect_uri = parameters.need("redirect_uri", "redirect_uri is missing")?;
        let client = self.client(id, source).await?;
        if !client.allows_redirect_to(redirect_uri) {
            let wrong = "The client asked for a redirect address (redirect_uri) that it has not registered";
            return Err(Error::invalid(wrong).into());
        }
        // A `state` that was sent twice is invalid.
        let state = parameters.one("state");
        let known = state.as_ref().ok().copied().flatten();
        let checked = state.and_then(|_| request::challenge(&parameters, &resource(site)));
        match checked {
            Ok(challenge) => Ok(AuthorizationRequest {
                client,
                redirect_uri: redirect_uri.to_owned(),
                state: known.map(str::to_owned),
                challenge: challenge.to_owned(),
            }),
            Err(refusal) if self.store.has_connection(who, &client.id, redirect_uri).await? => {
                let back = redirect_back(redirect_uri, known, site, &refused(&refusal));
                Err(AuthorizationFailure::Redirect(back))
            }
            Err(refusal) => Err(refusal.into()),
        }
    }
}

/// Returns the parameters of an error response.
pub(super) fn refused(refusal: &Refusal) -> [(&'static str, &'static str); 2] {
    [("error", refusal.code.name()), ("error_description", refusal.description)]
}

/// Redirects to the client: with 303, so that the form's data is not forwarded (RFC 9700 section 4.12), and
/// with the issuer (RFC 9207 section 2).
pub(super) fn redirect_back(
    redirect_uri: &str,
    state: Option<&str>,
    site: &Origin,
    parameters: &[(&str, &str)],
) -> Response {
    let mut target = redirect_uri.to_owned();
    let state = state.map(|state| ("state", state));
    for (name, value) in parameters.iter().copied().chain(state).chain([("iss", site.0.as_str())]) {
        target.push(if target.contains('?') { '&' } else { '?' });
        target.push_str(&format!("{name}={}", percent_encode(value)));
    }
    let fields = [
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (fields, SeeOther::to(&target)).into_response()
}
