//! Authorization endpoint: checks the request, asks the person, and redirects with a code (RFC 6749 section
//! 4.1, RFC 9700, RFC 9207).
//!
//! Nothing is stored between the consent page and its form: the form is sent to the page's own address, which
//! is checked again. A person signs in first, so that strangers cannot make the service fetch documents or
//! redirect.

use axum::extract::{ConnectInfo, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect as SeeOther, Response};
use serde::Deserialize;

use super::answer::parameters;
use super::{consent, resource, tokens};
use crate::identity::auth::keys::digest;
use crate::identity::auth::session::{SignedIn, SignedInForm};
use crate::web::origin::Origin;
use crate::web::page::Failure;
use crate::web::source::Source;
use crate::{App, AppState, audit};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::AuditAction;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::Role;
use hotdesk_domain::identity::oauth::client::Client;
use hotdesk_domain::identity::oauth::refusal::{Code, Refusal};
use hotdesk_domain::identity::oauth::request as oauth_request;
use hotdesk_http::encode::percent_encode;
use hotdesk_http::serve::Peer;
use hotdesk_store::identity::oauth_grants::{GrantableWorkspace, NewGrant, workspace_not_grantable};

/// Lifetime of a code in milliseconds: a redirect and a request, A51 (docs/authentication-rules.md).
const CODE_MS: i64 = 60_000;
/// Lifetime of a connection in milliseconds, however often its tokens are refreshed (docs/api/limits.md).
const CONNECTION_MS: i64 = 30 * 24 * 3_600_000;

/// A valid authorization request.
pub(super) struct AuthorizationRequest {
    /// The client.
    pub client: Client,
    /// Target of the response: one of the client's registered addresses.
    pub redirect_uri: String,
    state: Option<String>,
    challenge: String,
}

/// Why an authorization request is refused before the person decides.
enum AuthorizationFailure {
    /// The redirect address is not trusted, so the person sees an error page (RFC 6749 section 4.1.2.1).
    Page(Error),
    /// The error is sent to the client's redirect address.
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

/// Form of the consent page: `deny`, or a workspace.
#[derive(Debug, Deserialize)]
pub(super) struct Decision {
    #[serde(default)]
    decision: String,
    #[serde(default)]
    workspace: String,
}

/// `GET /oauth/authorize`.
pub(super) async fn show(
    State(app): State<AppState>,
    who: SignedIn,
    site: Origin,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let query = query.unwrap_or_default();
    match app.show_consent(&who, &site, app.source(&peer, &headers), &query).await {
        Ok(response) => response,
        Err(failure) => failure.into_response(),
    }
}

/// `POST /oauth/authorize`, from the consent page.
pub(super) async fn decide(
    State(app): State<AppState>,
    site: Origin,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    form: SignedInForm<Decision>,
) -> Response {
    let query = query.unwrap_or_default();
    let source = app.source(&peer, &headers);
    match app.store_decision(&form, &site, source, &query).await {
        Ok(response) => response,
        Err(failure) => failure.into_response(),
    }
}

impl App {
    async fn show_consent(
        &self,
        who: &SignedIn,
        site: &Origin,
        source: Source,
        query: &str,
    ) -> Result<Response, AuthorizationFailure> {
        let request = self.checked_request(site, source, query).await?;
        let choices = self.store.grantable_workspaces(who.account).await?;
        let viewed = self.store.view_only_workspaces(who.account).await?;
        let account = self.store.account(who.account).await?;
        let email = account.map(|account| account.email).unwrap_or_default();
        Ok(consent::page(
            &request,
            &consent::Person { email: &email, csrf: &who.csrf, choices: &choices, viewed: &viewed },
            query,
        ))
    }

    async fn store_decision(
        &self,
        form: &SignedInForm<Decision>,
        site: &Origin,
        source: Source,
        query: &str,
    ) -> Result<Response, AuthorizationFailure> {
        let request = self.checked_request(site, source, query).await?;
        audit::set_client(request.client.name.as_deref().unwrap_or(&request.client.id));
        if form.form.decision != "allow" {
            audit::set_action(AuditAction::ConsentRefused);
            let refusal = Code::AccessDenied.because("the person denied access");
            return Ok(redirect_back(
                &request.redirect_uri,
                request.state.as_deref(),
                site,
                &refused(&refusal),
            ));
        }
        let chosen = self.chosen(form.who.account, &form.form.workspace).await?;
        let code = Secret::random(tokens::CHARACTERS);
        let now = now_ms();
        let grant = NewGrant {
            account: form.who.account,
            workspace: chosen.id,
            client_id: &request.client.id,
            client_name: request.client.name.as_deref(),
            redirect_uri: &request.redirect_uri,
            resource: &resource(site),
            challenge: &request.challenge,
            code: &digest(code.reveal()),
            code_expires_at: now + CODE_MS,
            expires_at: now + CONNECTION_MS,
        };
        let connection = self.store.add_grant(&grant).await?;
        audit::set_workspace(chosen.id, chosen.account, Some(Role::Member));
        audit::set_target(connection);
        audit::set_action(AuditAction::ConsentGiven);
        Ok(redirect_back(&request.redirect_uri, request.state.as_deref(), site, &[("code", code.reveal())]))
    }

    /// Returns the chosen workspace if the person may grant access to it.
    async fn chosen(&self, account: AccountId, chosen: &str) -> Result<GrantableWorkspace> {
        let choices = self.store.grantable_workspaces(account).await?;
        let found = choices.into_iter().find(|choice| choice.id.to_string() == chosen);
        found.ok_or_else(workspace_not_grantable)
    }

    /// Checks a request: first the client and the redirect address, then the parameters.
    async fn checked_request(
        &self,
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
        let checked = state.and_then(|_| oauth_request::challenge(&parameters, &resource(site)));
        match checked {
            Ok(challenge) => Ok(AuthorizationRequest {
                client,
                redirect_uri: redirect_uri.to_owned(),
                state: known.map(str::to_owned),
                challenge: challenge.to_owned(),
            }),
            Err(refusal) => Err(AuthorizationFailure::Redirect(redirect_back(
                redirect_uri,
                known,
                site,
                &refused(&refusal),
            ))),
        }
    }
}

fn refused(refusal: &Refusal) -> [(&'static str, &'static str); 2] {
    [("error", refusal.code.name()), ("error_description", refusal.description)]
}

/// Redirects to the client: with 303, so that the form's data is not forwarded (RFC 9700 section 4.12), and
/// with the issuer (RFC 9207 section 2).
fn redirect_back(
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
