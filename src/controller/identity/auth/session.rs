//! Browser sessions of the console.
//!
//! Only the SHA-256 of a session's cookie is stored. The REST API accepts no cookies, A7
//! (docs/authentication-rules.md). Each form carries a token that other sites cannot know.

use std::sync::Arc;
use std::time::Duration;

use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use cookie::{Cookie, SameSite};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use super::browser::BrowserDescription;
use super::credential_uses::CredentialUses;
use super::keys;
use crate::web::origin::Origin;
use crate::web::page::Failure;
use crate::{App, audit};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, SessionId};
use hotdesk_base::secret::Secret;
use hotdesk_base::tasks;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::{Caller, Credential, Intent};
use hotdesk_http::encode::percent_encode;
use hotdesk_http::extract::read_body;
use hotdesk_http::serve::remember_source;
use hotdesk_store::Store;
use hotdesk_store::identity::sign_in::links::SignInLink;
use hotdesk_store::identity::sign_in::sessions::{NewSession, Session};

/// Lifetime of a session.
const LIFE: Duration = Duration::from_secs(14 * 24 * 3600);
/// Characters of a cookie: 43 of base62 are 256 random bits.
const CHARACTERS: usize = 43;
/// Largest form in bytes: a few fields of text.
const MAX_FORM_BYTES: usize = 64 * 1024;
/// Passwords that are hashed concurrently. Each needs 19 MiB and a core.
const HASHERS: usize = 2;
/// Fewest characters of a password (NIST SP 800-63B section 5.1.1).
pub const MIN_PASSWORD: usize = 8;
/// Most bytes of a password. Hashing more would be wasted work.
pub const MAX_PASSWORD: usize = 1024;

/// Most passwords that are hashed or wait for it: at 50 ms a hash the last one waits for about a second.
const MAX_HASHES: usize = 32;
/// Seconds after which a person whom [`MAX_HASHES`] turned away tries again.
const RETRY_SECONDS: u32 = 1;

static PLACES: Semaphore = Semaphore::const_new(MAX_HASHES);
static TURNS: Semaphore = Semaphore::const_new(HASHERS);

/// Signed-in person.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// Session id.
    pub session: SessionId,
    /// Account of the person.
    pub account: AccountId,
    /// Token that every form of this session must carry.
    pub csrf: String,
}

impl SignedIn {
    /// Returns the caller for access checks.
    pub fn caller(&self, intent: Intent) -> Caller {
        Caller { credential: Credential::Session(self.session), account: self.account, scope: None, intent }
    }
}

/// Form that a signed-in person sent from one of the service's pages.
#[derive(Clone, Debug)]
pub struct SignedInForm<T> {
    /// The person who sent it.
    pub who: SignedIn,
    /// Its fields.
    pub form: T,
}

/// Form that anybody may send from one of the service's pages.
#[derive(Clone, Debug)]
pub struct PublicForm<T>(pub T);

#[derive(Deserialize)]
struct CsrfField {
    #[serde(default)]
    csrf: String,
}

/// Browser sessions.
pub struct Sessions {
    store: Store,
    uses: CredentialUses,
    /// Whether browsers reach the service by https only.
    secure: bool,
}

impl Sessions {
    /// Creates the service for browsers that reach the service at `public_url`.
    pub fn new(store: Store, public_url: &str, uses: CredentialUses) -> Self {
        Self { store, uses, secure: public_url.starts_with("https://") }
    }

    /// Creates a session and returns the value of `Set-Cookie`.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn sign_in(&self, account: AccountId, browser: &BrowserDescription) -> Result<HeaderValue> {
        let secret = Secret::random(CHARACTERS);
        let digest = keys::digest(secret.reveal());
        let session = self.store.add_session(account, &new_session(&digest, browser)).await?;
        audit::set_actor(Credential::Session(session), account);
        self.new_cookie(&secret)
    }

    /// Creates a session by a sign-in link, which it consumes. Returns the value of `Set-Cookie` and the link, or
    /// `None` when no valid link has this token.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn sign_in_by_link(
        &self,
        token: &Secret,
        browser: &BrowserDescription,
    ) -> Result<Option<(HeaderValue, SignInLink)>> {
        let (secret, digest) = (Secret::random(CHARACTERS), keys::digest(token.reveal()));
        let cookie_digest = keys::digest(secret.reveal());
        let session = new_session(&cookie_digest, browser);
        let redeemed = self.store.redeem_sign_in_link(&digest, &session).await?;
        let Some((session, link)) = redeemed else { return Ok(None) };
        audit::set_actor(Credential::Session(session), link.account);
        Ok(Some((self.new_cookie(&secret)?, link)))
    }

    fn new_cookie(&self, secret: &Secret) -> Result<HeaderValue> {
        let mut cookie = self.cookie(secret.reveal());
        cookie.set_max_age(cookie::time::Duration::try_from(LIFE).map_err(Error::internal)?);
        HeaderValue::from_str(&cookie.to_string()).map_err(Error::internal)
    }

    /// Ends the session of a browser and returns the value of `Set-Cookie`.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn sign_out(&self, who: &SignedIn) -> Result<HeaderValue> {
        self.store.remove_session(who.account, who.session).await?;
        let mut cookie = self.cookie("");
        cookie.make_removal();
        HeaderValue::from_str(&cookie.to_string()).map_err(Error::internal)
    }

    /// Returns the sessions of an account, the newest sign-in first, with their last uses.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn of(&self, account: AccountId) -> Result<Vec<Session>> {
        let mut sessions = self.store.sessions_of(account).await?;
        for session in &mut sessions {
            session.last_used_at = self.uses.last(Credential::Session(session.id), session.last_used_at);
        }
        Ok(sessions)
    }

    /// Ends a session of an account, and what it has open.
    ///
    /// # Errors
    /// `NotFound` ("Session not found") when the account has no such session; `Internal` when the database
    /// fails.
    pub async fn end(&self, account: AccountId, id: &str) -> Result<()> {
        let unknown = || Error::not_found("Session not found");
        let session: SessionId = id.parse().map_err(|_| unknown())?;
        audit::set_target(session);
        if self.store.remove_session(account, session).await? { Ok(()) } else { Err(unknown()) }
    }

    /// Ends the sessions of an account except `keep`, and what they have open.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn end_all(&self, account: AccountId, keep: Option<SessionId>) -> Result<()> {
        self.store.remove_sessions(account, keep).await
    }

    /// Lax: a link from another site (such as an MCP client's authorization) carries the cookie, but a form
    /// from another site does not.
    fn cookie<'a>(&self, value: &'a str) -> Cookie<'a> {
        let name = cookie_name(self.secure);
        let cookie = Cookie::build((name, value)).path("/").http_only(true).secure(self.secure);
        cookie.same_site(SameSite::Lax).build()
    }

    /// Returns the signed-in person of a request, if any.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn signed_in(&self, headers: &HeaderMap) -> Result<Option<SignedIn>> {
        let Some(cookie) = cookie_value(headers, cookie_name(self.secure)) else { return Ok(None) };
        let found = self.store.session(&keys::digest(cookie.reveal())).await?;
        if let Some((session, _)) = found {
            self.uses.note(Credential::Session(session));
        }
        Ok(found.map(|(session, account)| SignedIn { session, account, csrf: csrf(cookie.reveal()) }))
    }
}

fn new_session<'a>(digest: &'a str, browser: &'a BrowserDescription) -> NewSession<'a> {
    NewSession {
        user_agent: browser.user_agent.as_deref(),
        address: browser.address.map(|address| address.to_string()),
        ..NewSession::new(digest, clock::now().plus(LIFE))
    }
}

/// Returns the value of a cookie.
pub fn cookie_value(headers: &HeaderMap, name: &str) -> Option<Secret> {
    let fields = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = fields.flat_map(|field| Cookie::split_parse(field.to_owned())).flatten();
    cookies.find(|cookie| cookie.name() == name).map(|cookie| Secret::new(cookie.value()))
}

/// The prefix `__Host-` ensures that no other host or path set the cookie (RFC 6265bis section 4.1.3.2).
fn cookie_name(secure: bool) -> &'static str {
    if secure { "__Host-hotdesk" } else { "hotdesk" }
}

/// Derives the form token from the cookie. Other sites cannot read the cookie, and the token has no other
/// use.
fn csrf(cookie: &str) -> String {
    keys::digest(&format!("form token of {cookie}"))
}

/// Returns the argon2id hash of a password.
///
/// # Errors
/// `Invalid` for a password that is too short or too long.
pub async fn hash_password(password: Secret) -> Result<String> {
    let length = password.reveal().chars().count();
    if length < MIN_PASSWORD || password.reveal().len() > MAX_PASSWORD {
        return Err(Error::invalid(format!(
            "a password has at least {MIN_PASSWORD} characters and at most {MAX_PASSWORD} bytes"
        )));
    }
    let work =
        move || Argon2::default().hash_password(password.reveal().as_bytes()).map(|hash| hash.to_string());
    blocking(work).await?.map_err(Error::internal)
}

/// Whether a password matches an argon2 hash. Without a hash the check takes as long and returns false, so
/// that the duration does not reveal which accounts exist.
///
/// # Errors
/// `Internal` when the hash is malformed.
pub async fn is_password(password: Secret, hash: Option<String>) -> Result<bool> {
    if password.reveal().len() > MAX_PASSWORD {
        return Ok(false);
    }
    let Some(hash) = hash else {
        let work = move || Argon2::default().hash_password(password.reveal().as_bytes()).is_ok();
        return blocking(work).await.map(|_| false);
    };
    let work = move || {
        let hash = argon2::PasswordHash::new(&hash).map_err(Error::internal)?;
        Ok(Argon2::default().verify_password(password.reveal().as_bytes(), &hash).is_ok())
    };
    blocking(work).await?
}

/// Runs the work of a hash in its turn. The turn ends with the work, also when the request was cancelled.
///
/// # Errors
/// `Unavailable` when [`MAX_HASHES`] others are hashed or wait.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let place = PLACES.try_acquire().map_err(|_| {
        Error::unavailable("Too many people sign in at this moment: try again in a second")
            .retry_after(RETRY_SECONDS)
    })?;
    let turn = TURNS.acquire().await.map_err(Error::internal)?;
    let work = move || {
        let _held = (place, turn);
        work()
    };
    tasks::spawn_blocking(work).await.map_err(Error::internal)
}

impl FromRequestParts<Arc<App>> for SignedIn {
    type Rejection = Response;

    /// Redirects a person who is not signed in to the sign-in page, which leads back afterwards.
    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Response> {
        let found =
            app.sessions.signed_in(&parts.headers).await.map_err(|error| Failure(error).into_response())?;
        if let Some(who) = &found {
            audit::set_actor(Credential::Session(who.session), who.account);
            remember_source(&parts.extensions);
        }
        found.ok_or_else(|| {
            let back = parts.uri.path_and_query().map_or("/", |whole| whole.as_str());
            Redirect::to(&format!("/sign-in?next={}", percent_encode(back))).into_response()
        })
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for SignedInForm<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let who = SignedIn::from_request_parts(&mut parts, app).await?;
        let read = async {
            check_same_site(&mut parts, app).await?;
            let bytes = read_body(body, MAX_FORM_BYTES).await?;
            let token: CsrfField = fields(&bytes)?;
            if !Secret::new(who.csrf.clone()).matches(&token.csrf) {
                return Err(Error::forbidden(
                    "This form belongs to another session: go back, reload the page and try again",
                ));
            }
            fields(&bytes)
        };
        let form = read.await.map_err(|error: Error| Failure(error).into_response())?;
        Ok(Self { who, form })
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for PublicForm<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let read = async {
            check_same_site(&mut parts, app).await?;
            fields(&read_body(body, MAX_FORM_BYTES).await?)
        };
        read.await.map(Self).map_err(|error: Error| Failure(error).into_response())
    }
}

/// Refuses a form that a page of another site sent.
async fn check_same_site(parts: &mut Parts, app: &Arc<App>) -> Result<()> {
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (from, site) = (text("origin"), text("sec-fetch-site"));
    let Origin(own) = Origin::from_request_parts(parts, app).await?;
    if is_foreign(from.as_deref(), site.as_deref(), &own) {
        return Err(Error::forbidden("This form was sent by another site's page"));
    }
    Ok(())
}

/// Whether `Origin` or `Sec-Fetch-Site` shows that another site's page sent a form to `own`.
///
/// Our pages send no referrer, so their origin is `null` (Fetch, "append a request `Origin` header"). A
/// foreign page can have that origin too, and only `Sec-Fetch-Site` reveals it. Browsers send that field to
/// https sites and to this machine, which are the cases where an attacker on the network cannot change the
/// page anyway.
fn is_foreign(from: Option<&str>, site: Option<&str>, own: &str) -> bool {
    from.is_some_and(|from| from != own && from != "null")
        || site.is_some_and(|site| !matches!(site, "same-origin" | "none"))
}

fn fields<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_urlencoded::from_bytes(bytes).map_err(|error| Error::invalid(format!("invalid form: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::wait;

    #[tokio::test]
    async fn a_turn_ends_with_the_hash_and_not_with_the_person_who_hangs_up() {
        let turns = || (PLACES.available_permits(), TURNS.available_permits());
        let (begun, begins) = tokio::sync::oneshot::channel();
        let (finish, finished) = std::sync::mpsc::channel::<()>();
        let mut hashing = Box::pin(blocking(move || (begun.send(()), finished.recv().is_ok())));
        tokio::select! {
            _early = &mut hashing => panic!("the hash goes on"),
            began = begins => began.expect("it has begun"),
        }
        drop(hashing);
        assert_eq!(turns(), (MAX_HASHES - 1, HASHERS - 1));
        finish.send(()).expect("the hash goes on");
        let free = async || (turns() == (MAX_HASHES, HASHERS)).then_some(());
        assert!(wait::until(Duration::from_secs(10), free).await.is_some(), "{:?}", turns());
    }

    #[test]
    fn a_form_is_foreign_when_the_browser_says_so() {
        for (from, site, foreign) in [
            (None, None, false),
            (Some("https://own"), Some("same-origin"), false),
            (Some("null"), Some("same-origin"), false),
            (Some("null"), None, false),
            (None, Some("none"), false),
            (Some("https://evil"), None, true),
            (Some("https://own.evil"), Some("same-origin"), true),
            (Some("null"), Some("cross-site"), true),
            (Some("null"), Some("same-site"), true),
            (None, Some("cross-site"), true),
        ] {
            assert_eq!(is_foreign(from, site, "https://own"), foreign, "{from:?} {site:?}");
        }
    }
}
