//! Request authentication: the API key of a request, or the token of a console's page, becomes a [`Caller`]
//! or a 401.

use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use super::console_tokens::{self, ConsoleTokens};
use crate::web::caller::{ClientName, IdentifiedCaller};
use crate::web::source::Source;
use crate::{App, AppState};
use hotdesk_base::ids::{AccountId, WorkspaceId};
use hotdesk_base::revocation_registry::Lease;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::{Caller, Credential, Intent};
use hotdesk_http::bearer::{self, Credentials};
use hotdesk_http::error_response::HttpError;
use hotdesk_http::serve::{Peer, remember_source};
use hotdesk_http::untrusted_content::ProgramAnswer;
use hotdesk_store::Store;
use hotdesk_store::identity::accounts::KeyOwner;

pub mod browser;
pub mod credential_uses;
pub mod devices;
pub mod keys;
pub mod known_browsers;
pub mod pending_sign_ins;
pub mod rate;
pub mod revocation;
pub mod session;
pub mod sign_ins;
pub mod socket_auth;
pub mod ssh_keys;
pub mod tickets;
pub mod wrong_credentials;

use credential_uses::CredentialUses;
use rate::{RateStatus, Rates};

/// Prefix of every kind of API key (docs/api/authentication.md).
pub const KEY_FAMILY: &str = "sk_";
/// Name of the console's tokens in the audit log, where keys have theirs.
const CONSOLE: &str = "console";

/// Whether a bearer credential looks like one that the API accepts.
pub fn is_known_form(bearer: &str) -> bool {
    bearer.starts_with(KEY_FAMILY) || console_tokens::is_token(bearer)
}

/// Whether a request is for the operation whose 401 has its own text (docs/api/errors.md).
fn is_suspend(parts: &Parts) -> bool {
    let route = parts.extensions.get::<MatchedPath>();
    route.is_some_and(|route| route.as_str().ends_with("/computers/{id}/suspend"))
}

/// Result of identifying a request's sender.
pub(crate) struct Identification {
    /// The sender.
    pub(crate) caller: Result<Caller>,
    /// State of its rate limit.
    pub(crate) standing: Option<RateStatus>,
    /// Its credential, which may be revoked meanwhile, and the credential's name.
    pub(crate) held: Option<(Lease<Credential>, String)>,
}

impl From<Error> for Identification {
    fn from(error: Error) -> Self {
        Self { caller: Err(error), standing: None, held: None }
    }
}

/// Identifies the sender of a request before its handler runs.
///
/// The handler decides about a refusal, because some operations need no caller. The response has the rate
/// limit fields, and is not cached because many responses hold a credential, A6
/// (docs/authentication-rules.md).
pub async fn identify(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let shown = bearer::credentials(&parts.headers) != Credentials::Missing;
    let source = source(&app, &parts);
    let identification = app.authenticator.identify(&parts).await;
    let known = identification.caller.is_ok();
    if known && let Some(source) = source {
        app.wrong_credentials.forget(source);
    }
    if let Some((hold, name)) = identification.held {
        remember_source(&parts.extensions);
        parts.extensions.insert(hold);
        parts.extensions.insert(ClientName(name));
    }
    parts.extensions.insert(IdentifiedCaller(identification.caller));
    let mut response = next.run(Request::from_parts(parts, body)).await;
    if let Some(standing) = identification.standing {
        standing.write(response.headers_mut());
    }
    // The 401 of a program in a computer says nothing about the key.
    let is_own = response.extensions().get::<ProgramAnswer>().is_none();
    if response.status() == StatusCode::UNAUTHORIZED && is_own {
        if shown
            && !known
            && let Some(source) = source
            && let Some(refused) = app.wrong_credentials.note(source, "Invalid API key")
        {
            response = refused;
        }
        add_challenge(shown, &mut response);
    }
    if known {
        response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    response
}

/// Adds `WWW-Authenticate` to a 401 (RFC 9110 section 15.5.2, RFC 6750 section 3.1).
pub(crate) fn add_challenge(shown: bool, response: &mut Response) {
    if response.status() == StatusCode::UNAUTHORIZED {
        let wrong = if shown { "Bearer error=\"invalid_token\"" } else { "Bearer" };
        let fields = response.headers_mut();
        fields.entry(header::WWW_AUTHENTICATE).or_insert(HeaderValue::from_static(wrong));
    }
}

fn source(app: &App, parts: &Parts) -> Option<Source> {
    let ConnectInfo(peer) = parts.extensions.get::<ConnectInfo<Peer>>()?;
    Some(Source::of_request(&app.trusted_proxies, peer, &parts.headers))
}

/// Identification of a request's sender by its API key, or by the token of a console's page.
pub struct Authenticator {
    store: Store,
    uses: CredentialUses,
    rates: Arc<Rates>,
    console_tokens: Arc<ConsoleTokens>,
}

/// Valid credential of a request.
struct LeasedCredential {
    credential: Credential,
    account: AccountId,
    /// The only workspace that it can access, with its name; `None` for all of the account.
    scope: Option<(WorkspaceId, String)>,
    /// Its name for the audit log.
    name: String,
    lease: Lease<Credential>,
}

impl Authenticator {
    /// Creates the service of the stored keys and of the console's tokens, with the request rates of their
    /// credentials.
    pub fn new(
        store: Store,
        uses: CredentialUses,
        rates: Arc<Rates>,
        console_tokens: Arc<ConsoleTokens>,
    ) -> Self {
        Self { store, uses, rates, console_tokens }
    }

    /// Identifies the sender of a request, and counts the request for its rate limit.
    pub(crate) async fn identify(&self, parts: &Parts) -> Identification {
        let key = match bearer::credentials(&parts.headers) {
            Credentials::Missing if is_suspend(parts) => {
                return Error::unauthenticated("Authentication required").into();
            }
            Credentials::Missing => return Error::unauthenticated("Missing API key").into(),
            Credentials::Invalid => {
                return Error::unauthenticated("Invalid API key: send one Authorization: Bearer field")
                    .into();
            }
            Credentials::Bearer(key) if is_suspend(parts) && !is_known_form(key) => {
                return Error::unauthenticated("Authentication required").into();
            }
            Credentials::Bearer(key) => key,
        };
        let leased = if console_tokens::is_token(key) {
            self.hold_console_token(key).await
        } else {
            self.hold_key(key).await
        };
        let LeasedCredential { credential, account, scope, name, lease } = match leased {
            Ok(leased) => leased,
            Err(error) => return error.into(),
        };
        self.uses.note(credential);
        let taken = self.rates.take(&credential);
        let intent = if parts.method.is_safe() { Intent::Read } else { Intent::Change };
        let caller = Caller { credential, account, scope, intent };
        let (caller, standing) = match taken {
            Ok(standing) => (Ok(caller), standing),
            Err(standing) => (Err(Error::rate_limited(standing.seconds)), standing),
        };
        Identification { caller, standing: Some(standing), held: Some((lease, name)) }
    }

    /// Returns the caller with this key, for a socket whose key is in its address. The key counts as used, and the
    /// caller's rate limit applies.
    ///
    /// # Errors
    /// `Unauthenticated` for an unknown key; `RateLimited`; `Unavailable` when the database fails.
    pub async fn caller_of_key(&self, key: &str) -> Result<Caller> {
        if !key.starts_with(KEY_FAMILY) {
            return Err(Error::unauthenticated("Invalid API key"));
        }
        let LeasedCredential { credential, account, scope, .. } = self.hold_key(key).await?;
        self.uses.note(credential);
        self.rates.take(&credential).map_err(|status| Error::rate_limited(status.seconds))?;
        Ok(Caller { credential, account, scope, intent: Intent::Read })
    }

    /// Looks up a key and takes a lease on it. If a credential was revoked between the two steps, the lease
    /// may have missed it, and the look-up is repeated.
    async fn hold_key(&self, key: &str) -> Result<LeasedCredential> {
        loop {
            let ends = self.store.credentials.revocations();
            let holder = keys::holder(&self.store, key).await?;
            let credential = Credential::Key(holder.key);
            let lease = self.store.credentials.lease(credential);
            if self.store.credentials.revocations() == ends {
                let KeyOwner { account, scope, name, .. } = holder;
                return Ok(LeasedCredential { credential, account, scope, name, lease });
            }
        }
    }

    /// Looks up the token of a console's page and takes a lease on its session, A91
    /// (docs/authentication-rules.md).
    async fn hold_console_token(&self, token: &str) -> Result<LeasedCredential> {
        let unknown =
            || Error::unauthenticated("Invalid API key: the token of this page has expired, reload it");
        let caller = self.console_tokens.find(token).ok_or_else(unknown)?;
        let credential = Credential::Session(caller.session);
        // Taken before the look-up, so that a later revocation is noticed.
        let lease = self.store.credentials.lease(credential);
        let ended = self.store.ended_credentials(&[credential]).await.map_err(keys::unavailable_store)?;
        if !ended.is_empty() {
            self.console_tokens.end(caller.session);
            return Err(unknown());
        }
        let name = CONSOLE.to_owned();
        Ok(LeasedCredential { credential, account: caller.account, scope: None, name, lease })
    }
}

/// Extractor of a request's caller.
pub struct AuthenticatedCaller(pub Caller);

impl FromRequestParts<Arc<App>> for AuthenticatedCaller {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, HttpError> {
        let found = match parts.extensions.get::<IdentifiedCaller>() {
            Some(IdentifiedCaller(found)) => found.clone(),
            None => app.authenticator.identify(parts).await.caller,
        };
        Ok(Self(found?))
    }
}
