//! How does a person let an MCP client in? `/oauth/authorize`: the request is checked, the person asked, a code sent back
//! (RFC 6749 section 4.1, RFC 9700, RFC 9207).
//!
//! Nothing is remembered between the question and the answer: the form goes to the address of the question, which is checked
//! again. Who is not signed in does that first, so that no stranger has documents fetched or is redirected by us.

use axum::extract::{ConnectInfo, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect as SeeOther, Response};
use serde::Deserialize;

use super::answer::parameters;
use super::{consent, resource, tokens};
use crate::auth::keys::digest;
use crate::auth::session::{Posted, SignedIn};
use crate::auth::source::Source;
use crate::console::page::Failure;
use crate::origin::Origin;
use crate::{App, Shared, audit};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::access::Role;
use hotdesk_domain::audit::Action;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_domain::oauth::client::Client;
use hotdesk_domain::oauth::refusal::{Code, Refusal};
use hotdesk_domain::oauth::request;
use hotdesk_http::encode::percent_encode;
use hotdesk_http::serve::Peer;
use hotdesk_store::oauth_grants::{Choice, NewGrant, not_theirs};

/// How long a code lives: a redirect and a request (access.md A51).
const CODE_MS: i64 = 60_000;
/// How long a connection lasts, however often its tokens are renewed (interface.md "Limits").
const CONNECTION_MS: i64 = 30 * 24 * 3_600_000;

/// What a client asks for, as far as it is sound.
pub(super) struct Asked {
    /// Who asks.
    pub client: Client,
    /// Where the answer goes: one of the client's own.
    pub redirect_uri: String,
    state: Option<String>,
    challenge: String,
}

/// Why a request is not put before a person.
enum Unsound {
    /// Nobody is known who could be told: a page, and no redirect (RFC 6749 section 4.1.2.1).
    Page(Error),
    /// The client is told.
    Told(Response),
}

impl From<Error> for Unsound {
    fn from(error: Error) -> Self {
        Self::Page(error)
    }
}

impl From<Refusal> for Unsound {
    fn from(refusal: Refusal) -> Self {
        Self::Page(Error::invalid(format!("The client's request is not sound: {}", refusal.description)))
    }
}

impl IntoResponse for Unsound {
    fn into_response(self) -> Response {
        match self {
            Self::Page(error) => Failure(error).into_response(),
            Self::Told(response) => response,
        }
    }
}

/// The answer to a question: `deny`, or a workspace.
#[derive(Debug, Deserialize)]
pub(super) struct Decision {
    #[serde(default)]
    decision: String,
    #[serde(default)]
    workspace: String,
}

/// `GET /oauth/authorize`.
pub(super) async fn ask(
    State(app): State<Shared>,
    who: SignedIn,
    site: Origin,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let query = query.unwrap_or_default();
    match app.question(&who, &site, app.source(&peer, &headers), &query).await {
        Ok(response) => response,
        Err(unsound) => unsound.into_response(),
    }
}

/// `POST /oauth/authorize`, from the page of the same address.
pub(super) async fn decide(
    State(app): State<Shared>,
    site: Origin,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    posted: Posted<Decision>,
) -> Response {
    let query = query.unwrap_or_default();
    let source = app.source(&peer, &headers);
    match app.answer(&posted, &site, source, &query).await {
        Ok(response) => response,
        Err(unsound) => unsound.into_response(),
    }
}

impl App {
    async fn question(
        &self,
        who: &SignedIn,
        site: &Origin,
        source: Source,
        query: &str,
    ) -> Result<Response, Unsound> {
        let asked = self.asked(site, source, query).await?;
        let choices = self.store.choices(who.account).await?;
        let viewed = self.store.only_viewed(who.account).await?;
        let account = self.store.account(who.account).await?;
        let email = account.map(|account| account.email).unwrap_or_default();
        Ok(consent::page(
            &asked,
            &consent::Person { email: &email, csrf: &who.csrf, choices: &choices, viewed: &viewed },
            query,
        ))
    }

    async fn answer(
        &self,
        posted: &Posted<Decision>,
        site: &Origin,
        source: Source,
        query: &str,
    ) -> Result<Response, Unsound> {
        let asked = self.asked(site, source, query).await?;
        audit::named(asked.client.name.as_deref().unwrap_or(&asked.client.id));
        if posted.form.decision != "allow" {
            audit::did(Action::ConsentRefused);
            let refusal = Code::AccessDenied.because("the person did not let the client in");
            return Ok(told(&asked.redirect_uri, asked.state.as_deref(), site, &refused(&refusal)));
        }
        let chosen = self.chosen(posted.who.account, &posted.form.workspace).await?;
        let code = Secret::random(tokens::CHARACTERS);
        let now = now_ms();
        let grant = NewGrant {
            account: posted.who.account,
            workspace: chosen.id,
            client_id: &asked.client.id,
            client_name: asked.client.name.as_deref(),
            redirect_uri: &asked.redirect_uri,
            resource: &resource(site),
            challenge: &asked.challenge,
            code: &digest(code.reveal()),
            code_expires_at: now + CODE_MS,
            expires_at: now + CONNECTION_MS,
        };
        let connection = self.store.add_grant(&grant).await?;
        audit::about(chosen.id, chosen.account, Some(Role::Member));
        audit::target(connection);
        audit::did(Action::ConsentGiven);
        Ok(told(&asked.redirect_uri, asked.state.as_deref(), site, &[("code", code.reveal())]))
    }

    /// The workspace that was chosen, if it may be.
    async fn chosen(&self, account: AccountId, chosen: &str) -> Result<Choice> {
        let choices = self.store.choices(account).await?;
        let found = choices.into_iter().find(|choice| choice.id.to_string() == chosen);
        found.ok_or_else(not_theirs)
    }

    /// Checks a request: first whom it is from and where the answer goes, then what it asks for.
    async fn asked(&self, site: &Origin, source: Source, query: &str) -> Result<Asked, Unsound> {
        let parameters = parameters(query.as_bytes())?;
        let id = parameters.need("client_id", "client_id is missing")?;
        let redirect_uri = parameters.need("redirect_uri", "redirect_uri is missing")?;
        let client = self.client(id, source).await?;
        if !client.may_be_sent_to(redirect_uri) {
            let wrong =
                "The client wants the answer sent to an address (redirect_uri) that it has not registered";
            return Err(Error::invalid(wrong).into());
        }
        // A state that was sent twice is none.
        let state = parameters.one("state");
        let known = state.as_ref().ok().copied().flatten();
        let checked = state.and_then(|_| request::challenge(&parameters, &resource(site)));
        match checked {
            Ok(challenge) => Ok(Asked {
                client,
                redirect_uri: redirect_uri.to_owned(),
                state: known.map(str::to_owned),
                challenge: challenge.to_owned(),
            }),
            Err(refusal) => Err(Unsound::Told(told(redirect_uri, known, site, &refused(&refusal)))),
        }
    }
}

fn refused(refusal: &Refusal) -> [(&'static str, &'static str); 2] {
    [("error", refusal.code.name()), ("error_description", refusal.description)]
}

/// Sends the person back to the client: 303, so that nothing of a form goes along (RFC 9700 section 4.12), with the issuer
/// (RFC 9207 section 2).
fn told(redirect_uri: &str, state: Option<&str>, site: &Origin, said: &[(&str, &str)]) -> Response {
    let mut target = redirect_uri.to_owned();
    let state = state.map(|state| ("state", state));
    for (name, value) in said.iter().copied().chain(state).chain([("iss", site.0.as_str())]) {
        target.push(if target.contains('?') { '&' } else { '?' });
        target.push_str(&format!("{name}={}", percent_encode(value)));
    }
    let fields = [
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (fields, SeeOther::to(&target)).into_response()
}
