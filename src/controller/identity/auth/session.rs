//! Whose browser is it? A cookie says so, of which only the SHA-256 is kept.
//!
//! The REST API takes no cookies (access.md A7): a session is for the console's pages alone, and each of their forms carries
//! a token that another site cannot know.

use std::sync::Arc;

use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use cookie::{Cookie, SameSite};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use super::keys;
use crate::console::page::Failure;
use crate::origin::Origin;
use crate::{App, audit};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, SessionId};
use hotdesk_base::secret::Secret;
use hotdesk_domain::access::{Caller, Credential, Intent};
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::encode::percent_encode;
use hotdesk_http::extract::read_body;

/// How long a browser stays signed in.
const LIFE_MS: i64 = 14 * 24 * 3_600_000;
/// Characters of a cookie: 43 of base62 are 256 random bits.
const CHARACTERS: usize = 43;
/// Largest form in bytes: a few fields of text.
const MAX_FORM_BYTES: usize = 64 * 1024;
/// Passwords that are hashed at once: each takes 19 MiB and a core for as long as it takes.
const HASHERS: usize = 2;
/// Passwords have at least so many characters (NIST SP 800-63B section 5.1.1) ...
pub const MIN_PASSWORD: usize = 8;
/// ... and at most so many bytes: to hash more is work for nothing.
pub const MAX_PASSWORD: usize = 1024;

static TURNS: Semaphore = Semaphore::const_new(HASHERS);

/// A person in front of a signed-in browser.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// The session.
    pub session: SessionId,
    /// Whose it is.
    pub account: AccountId,
    /// What every form of this browser must carry.
    pub csrf: String,
}

impl SignedIn {
    /// Who it is to the rules of workspaces.
    pub fn caller(&self, intent: Intent) -> Caller {
        Caller { credential: Credential::Session(self.session), account: self.account, scope: None, intent }
    }
}

/// A form that a signed-in person sent from one of our own pages.
#[derive(Clone, Debug)]
pub struct Posted<T> {
    /// Who sent it.
    pub who: SignedIn,
    /// Its fields.
    pub form: T,
}

/// A form that anybody may send from one of our own pages.
#[derive(Clone, Debug)]
pub struct Open<T>(pub T);

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    csrf: String,
}

impl App {
    /// Signs a browser in; the answer's `Set-Cookie`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sign_in(&self, account: AccountId) -> Result<HeaderValue> {
        let secret = Secret::random(CHARACTERS);
        let session =
            self.store.add_session(account, &keys::digest(secret.reveal()), now_ms() + LIFE_MS).await?;
        audit::by(Credential::Session(session), account);
        let mut cookie = self.cookie(secret.reveal());
        cookie.set_max_age(cookie::time::Duration::milliseconds(LIFE_MS));
        HeaderValue::from_str(&cookie.to_string()).map_err(Error::internal)
    }

    /// Signs a browser out; the answer's `Set-Cookie`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sign_out(&self, session: SessionId) -> Result<HeaderValue> {
        self.store.remove_session(session).await?;
        let mut cookie = self.cookie("");
        cookie.make_removal();
        HeaderValue::from_str(&cookie.to_string()).map_err(Error::internal)
    }

    /// Lax: a link from elsewhere (an MCP client's authorization) finds its person signed in; a form from elsewhere does not.
    fn cookie<'a>(&self, value: &'a str) -> Cookie<'a> {
        let secure = self.secure();
        let cookie = Cookie::build((cookie_name(secure), value)).path("/").http_only(true).secure(secure);
        cookie.same_site(SameSite::Lax).build()
    }

    /// Whether browsers reach us by https alone.
    fn secure(&self) -> bool {
        self.config.public_url.starts_with("https://")
    }

    /// Who sits before the browser that sends this, if somebody signed it in.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn signed_in(&self, headers: &HeaderMap) -> Result<Option<SignedIn>> {
        let Some(cookie) = shown(headers, cookie_name(self.secure())) else { return Ok(None) };
        let found = self.store.session(&keys::digest(cookie.reveal())).await?;
        Ok(found.map(|(session, account)| SignedIn { session, account, csrf: csrf(cookie.reveal()) }))
    }
}

/// The value of a cookie that a browser sent.
fn shown(headers: &HeaderMap, name: &str) -> Option<Secret> {
    let fields = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = fields.flat_map(|field| Cookie::split_parse(field.to_owned())).flatten();
    cookies.find(|cookie| cookie.name() == name).map(|cookie| Secret::new(cookie.value()))
}

/// `__Host-`: no other host and no other path can have set it (RFC 6265bis section 4.1.3.2).
fn cookie_name(secure: bool) -> &'static str {
    if secure { "__Host-hotdesk" } else { "hotdesk" }
}

/// What a browser's forms carry: made from its cookie, which no other site can read, and good for nothing else.
fn csrf(cookie: &str) -> String {
    keys::digest(&format!("form token of {cookie}"))
}

/// Hashes a password with argon2id.
///
/// # Errors
/// `Invalid` for one that is too short or too long.
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

/// Whether a password is the one of this argon2 text. Without a text it takes as long, and is false: who asks does not
/// learn which accounts there are.
///
/// # Errors
/// When the text is none of argon2's.
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

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let _turn = TURNS.acquire().await.map_err(Error::internal)?;
    tokio::task::spawn_blocking(work).await.map_err(Error::internal)
}

impl FromRequestParts<Arc<App>> for SignedIn {
    type Rejection = Response;

    /// Who is not signed in is sent to the page for it, and back again afterwards.
    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Response> {
        let found = app.signed_in(&parts.headers).await.map_err(|error| Failure(error).into_response())?;
        if let Some(who) = &found {
            audit::by(Credential::Session(who.session), who.account);
        }
        found.ok_or_else(|| {
            let back = parts.uri.path_and_query().map_or("/", |whole| whole.as_str());
            Redirect::to(&format!("/sign-in?next={}", percent_encode(back))).into_response()
        })
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Posted<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let who = SignedIn::from_request_parts(&mut parts, app).await?;
        let read = async {
            own_page(&mut parts, app).await?;
            let bytes = read_body(body, MAX_FORM_BYTES).await?;
            let token: Token = fields(&bytes)?;
            if !Secret::new(who.csrf.clone()).matches(&token.csrf) {
                return Err(Error::forbidden(
                    "This form is from another sign-in: go back, load the page again and repeat",
                ));
            }
            fields(&bytes)
        };
        let form = read.await.map_err(|error: Error| Failure(error).into_response())?;
        Ok(Self { who, form })
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Open<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let read = async {
            own_page(&mut parts, app).await?;
            fields(&read_body(body, MAX_FORM_BYTES).await?)
        };
        read.await.map(Self).map_err(|error: Error| Failure(error).into_response())
    }
}

/// Refuses a form that another site's page sent: browsers say where a form comes from.
async fn own_page(parts: &mut Parts, app: &Arc<App>) -> Result<()> {
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (from, site) = (text("origin"), text("sec-fetch-site"));
    let Origin(own) = Origin::from_request_parts(parts, app).await?;
    if is_foreign(from.as_deref(), site.as_deref(), &own) {
        return Err(Error::forbidden("This form was sent by another site's page"));
    }
    Ok(())
}

/// Whether `Origin` or `Sec-Fetch-Site` says that another site's page sent a form to `own`. Our pages send no referrer, and
/// therefore the origin `null` (Fetch, "append a request `Origin` header"); so may a page that hides where it is, of
/// which only `Sec-Fetch-Site` tells. Browsers send that where an attacker on the line cannot rewrite the page anyway: by
/// https and to this machine.
fn is_foreign(from: Option<&str>, site: Option<&str>, own: &str) -> bool {
    from.is_some_and(|from| from != own && from != "null")
        || site.is_some_and(|site| !matches!(site, "same-origin" | "none"))
}

fn fields<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_urlencoded::from_bytes(bytes).map_err(|error| Error::invalid(format!("invalid form: {error}")))
}

#[cfg(test)]
mod tests {
    use super::is_foreign;

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
