//! Sign-in by the operator's OpenID Connect provider: authorization code with PKCE, state and nonce.
//!
//! ```text
//! browser                    hotdesk                                 provider
//!    | GET /sign-in/provider -> |  cookie: state, nonce, verifier        |
//!    | <- 303 ------------------|                                        |
//!    | sign-in there ----------------------------------------------->    |
//!    | <- 303 /sign-in/provider/callback?code&state ---------------------|
//!    | GET callback, cookie --> |  state matches the cookie?             |
//!    |                          |  code, verifier --------------------> |
//!    |                          | <- ID token: signature, nonce, ... ----|
//!    | <- session --------------|                                        |
//! ```
//!
//! What a request is bound to is in a cookie of its browser and nowhere else. A browser that makes a cookie up only
//! binds itself: the provider gives the code for the challenge of the verifier, and the ID token repeats the nonce.

use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue};
use cookie::{Cookie, SameSite};
use serde::Deserialize;

mod fetch;
mod id_token;
mod provider;
mod signature;

use crate::config::Config;
use crate::identity::accounts::agents;
use crate::identity::auth::session::{SignedIn, cookie_value};
use crate::web::failures::Failures;
use crate::web::origin::Origin;
use crate::web::source::Source;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::email::Email;
use hotdesk_domain::identity::oauth::pkce;
use hotdesk_domain::identity::provider_sign_in::{AddressMatch, ProviderAddress, ProviderDecision, decide};
use hotdesk_store::Store;
use hotdesk_store::identity::sign_in::provider_identities::{ConnectedPerson, ProviderPerson};
use provider::{AuthenticatedPerson, AuthorizationValues, Provider};

/// Path to which the provider leads browsers back.
pub const CALLBACK: &str = "/sign-in/provider/callback";
/// Time for the sign-in at the provider.
const LIFE: Duration = Duration::from_secs(600);
/// Characters of state, nonce and verifier: 43 of base62 are 256 bits, and the fewest of a verifier (RFC 7636).
const CHARACTERS: usize = 43;
/// Longest page to open afterwards, in bytes: a browser stores 4 KiB for a cookie.
const MAX_NEXT: usize = 1024;
/// Beginnings of one client address in a minute, and as many failures.
const MAX_PER_SOURCE: u32 = 30;
const MINUTE: Duration = Duration::from_secs(60);

/// Sign-ins by the provider.
#[derive(Debug)]
pub struct OidcSignIn {
    store: Store,
    provider: Option<Provider>,
    /// Whether browsers reach the service by https only.
    secure: bool,
    beginnings: Failures<Source>,
    failures: Failures<Source>,
}

/// Redirect to the provider.
#[derive(Debug)]
pub struct ProviderRedirect {
    /// Address at the provider.
    pub url: String,
    /// Value of `Set-Cookie`.
    pub cookie: HeaderValue,
}

/// Query of the callback.
#[derive(Debug, Deserialize)]
pub struct Callback {
    #[serde(default)]
    code: Option<Secret>,
    #[serde(default)]
    state: Option<Secret>,
    #[serde(default)]
    iss: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

/// Request of a browser to the provider: the content of its cookie.
#[derive(Debug, Deserialize)]
struct BrowserRequest {
    state: Secret,
    nonce: Secret,
    verifier: Secret,
    /// Page to open afterwards.
    next: String,
    /// Session whose account is to be connected; empty for a sign-in.
    session: String,
}

/// Outcome of a callback.
#[derive(Debug)]
pub struct ProviderOutcome {
    /// Account to sign in to.
    pub account: AccountId,
    /// Page to open.
    pub next: String,
}

impl OidcSignIn {
    /// Creates the service of a configuration.
    ///
    /// # Errors
    /// Those of [`Provider::open`].
    pub fn new(store: Store, config: &Config) -> Result<Self> {
        Ok(Self {
            store,
            provider: Provider::open(&config.oidc)?,
            secure: config.public_url.starts_with("https://"),
            beginnings: Failures::new(MAX_PER_SOURCE, MINUTE),
            failures: Failures::new(MAX_PER_SOURCE, MINUTE),
        })
    }

    /// Returns the provider's name on pages; `None` when no provider is configured.
    pub fn name(&self) -> Option<&str> {
        self.provider.as_ref().map(|provider| provider.name.as_str())
    }

    /// Returns the person at the provider with whom an account is connected.
    ///
    /// # Errors
    /// `NotFound` without a provider; `Internal` when the database fails.
    pub async fn connected(&self, account: AccountId) -> Result<Option<ConnectedPerson>> {
        self.store.provider_person(account, &self.provider()?.issuer).await
    }

    /// Ends the connection of an account.
    ///
    /// # Errors
    /// `NotFound` without a provider; `Forbidden` for an account without a password, and without a connection;
    /// `Internal` when the database fails.
    pub async fn disconnect(&self, account: AccountId) -> Result<()> {
        if self.store.disconnect_provider_person(account, &self.provider()?.issuer).await? {
            return Ok(());
        }
        Err(Error::forbidden(
            "This account is not connected, or has no password and could not sign in any more. Ask the operator for \
             a password first.",
        ))
    }

    /// Begins a sign-in, or the connection of the account that is signed in to as `connecting`.
    ///
    /// # Errors
    /// `NotFound` without a provider; `RateLimited` after many beginnings of one address; `Unavailable` when the
    /// provider does not answer.
    pub async fn begin(
        &self,
        source: Source,
        origin: &Origin,
        next: &str,
        connecting: Option<&SignedIn>,
    ) -> Result<ProviderRedirect> {
        let provider = self.provider()?;
        if !source.is_this_machine() {
            self.beginnings.attempt(&source, Instant::now())?;
        }
        let (state, nonce, verifier) =
            (Secret::random(CHARACTERS), Secret::random(CHARACTERS), Secret::random(CHARACTERS));
        let session = connecting.map(|who| who.session.to_string()).unwrap_or_default();
        let content = serde_urlencoded::to_string([
            ("state", state.reveal()),
            ("nonce", nonce.reveal()),
            ("verifier", verifier.reveal()),
            ("next", if next.len() > MAX_NEXT { "/" } else { next }),
            ("session", &session),
        ]);
        let redirect_uri = format!("{}{CALLBACK}", origin.0);
        let values = AuthorizationValues {
            redirect_uri: &redirect_uri,
            state: &state,
            nonce: &nonce,
            verifier: &verifier,
        };
        let url = provider.authorization_url(&values, &pkce::challenge(verifier.reveal())).await?;
        let mut cookie = self.cookie(content.map_err(Error::internal)?);
        cookie.set_max_age(cookie::time::Duration::try_from(LIFE).map_err(Error::internal)?);
        Ok(ProviderRedirect { url, cookie: header_value(&cookie)? })
    }

    /// Finishes what [`OidcSignIn::begin`] began in this browser. `present` is the person whom it is signed in as.
    ///
    /// # Errors
    /// `NotFound` without a provider; `Forbidden` when this browser began nothing, and when nobody may sign in;
    /// `RateLimited` after many failures of one address; `Unavailable` when the provider does not answer as it
    /// should.
    pub async fn finish(
        &self,
        source: Source,
        origin: &Origin,
        headers: &HeaderMap,
        callback: &Callback,
        present: Option<&SignedIn>,
    ) -> Result<ProviderOutcome> {
        let provider = self.provider()?;
        let request = self.request_of(headers).ok_or_else(not_begun)?;
        if !callback.state.as_ref().is_some_and(|state| request.state.matches(state.reveal())) {
            return Err(not_begun());
        }
        // RFC 9207: the answer of another provider is not for this one.
        if callback.iss.as_ref().is_some_and(|issuer| *issuer != provider.issuer) {
            return Err(not_begun());
        }
        let code = callback.code.as_ref().ok_or_else(|| refused(callback.error.as_deref()))?;
        let connecting = match request.session.as_str() {
            "" => None,
            session => {
                Some(present.filter(|who| who.session.to_string() == session).ok_or_else(not_begun)?.account)
            }
        };
        self.failures.attempt(&source, Instant::now())?;
        let redirect_uri = format!("{}{CALLBACK}", origin.0);
        let values = AuthorizationValues {
            redirect_uri: &redirect_uri,
            state: &request.state,
            nonce: &request.nonce,
            verifier: &request.verifier,
        };
        let person = provider.exchange(code, &values).await?;
        self.failures.forgive(&source);
        let account = self.account_of(provider, &person, connecting).await?;
        Ok(ProviderOutcome { account, next: request.next })
    }

    /// Returns the value of `Set-Cookie` that ends a request.
    ///
    /// # Errors
    /// `Internal`, which does not happen.
    pub fn end(&self) -> Result<HeaderValue> {
        let mut cookie = self.cookie(String::new());
        cookie.make_removal();
        header_value(&cookie)
    }

    /// Returns the account that a person signs in to, and connects the two if they are not.
    async fn account_of(
        &self,
        provider: &Provider,
        person: &AuthenticatedPerson,
        connecting: Option<AccountId>,
    ) -> Result<AccountId> {
        let known = self.store.account_of_provider_person(&provider.issuer, &person.claims.sub).await?;
        let email = if known.is_none() { provider.verified_email(person).await? } else { None };
        let address = match &email {
            Some(email) if connecting.is_none() => self.address_match(email).await?,
            _ => ProviderAddress::Unverified,
        };
        let connect = async |account, only_sign_in| {
            let subject = person.claims.sub.clone();
            let person = ProviderPerson { issuer: provider.issuer.clone(), subject, email: email.clone() };
            if self.store.connect_provider_person(account, &person, only_sign_in).await? {
                return Ok(account);
            }
            Err(Error::conflict("The account was connected meanwhile, or has another sign-in: sign in again"))
        };
        match decide(known, connecting, address) {
            ProviderDecision::SignIn(account) => Ok(account),
            ProviderDecision::Connect(account) => connect(account, false).await,
            ProviderDecision::ConnectAndSignIn(account) => connect(account, true).await,
            ProviderDecision::Refuse(why) => Err(Error::forbidden(why.message())),
        }
    }

    async fn address_match(&self, email: &str) -> Result<ProviderAddress> {
        let Ok(email) = Email::parse(email) else { return Ok(ProviderAddress::NoAccount) };
        let Some(account) = self.store.account_of(email.as_str()).await? else {
            return Ok(ProviderAddress::NoAccount);
        };
        Ok(ProviderAddress::Account(AddressMatch {
            account: account.id,
            is_person: account.kind != agents::KIND,
            is_operator: account.id == self.store.operator_account().await?,
            has_sign_in: account.password_hash.is_some()
                || self.store.has_provider_person(account.id).await?
                || !self.store.passkeys_of(account.id).await?.is_empty(),
        }))
    }

    fn provider(&self) -> Result<&Provider> {
        self.provider.as_ref().ok_or_else(|| Error::not_found("Nobody signs in by a provider here"))
    }

    fn request_of(&self, headers: &HeaderMap) -> Option<BrowserRequest> {
        let content = cookie_value(headers, cookie_name(self.secure))?;
        serde_urlencoded::from_str(content.reveal()).ok()
    }

    /// Lax: the provider's redirect carries the cookie.
    fn cookie(&self, content: String) -> Cookie<'static> {
        let cookie = Cookie::build((cookie_name(self.secure), content)).path("/").http_only(true);
        cookie.secure(self.secure).same_site(SameSite::Lax).build()
    }
}

/// The prefix `__Host-` ensures that no other host or path set the cookie (RFC 6265bis section 4.1.3.2).
fn cookie_name(secure: bool) -> &'static str {
    if secure { "__Host-hotdesk-provider" } else { "hotdesk-provider" }
}

fn header_value(cookie: &Cookie<'_>) -> Result<HeaderValue> {
    HeaderValue::from_str(&cookie.to_string()).map_err(Error::internal)
}

fn not_begun() -> Error {
    Error::forbidden(
        "This browser did not begin this sign-in, or it took longer than ten minutes: sign in again.",
    )
}

/// The provider signs nobody in. Its error code is shown if it looks like one (RFC 6749 section 4.1.2.1).
fn refused(code: Option<&str>) -> Error {
    let is_plain =
        |code: &&str| code.len() <= 40 && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let code = code.filter(is_plain).unwrap_or("no code");
    Error::forbidden(format!("The provider did not sign you in ({code})."))
}
