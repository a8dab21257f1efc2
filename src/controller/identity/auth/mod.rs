//! Who is asking? The API key of a request becomes a [`Caller`], or a 401 that says why not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::config::Limits;
use super::{App, Shared};
use hotdesk_base::living::Hold;
use hotdesk_domain::access::{Caller, Credential, Intent};
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::bearer::{self, Shown};
use hotdesk_http::error_response::HttpError;
use hotdesk_http::serve::Peer;
use hotdesk_store::accounts::Holder;

pub mod devices;
pub mod door;
pub mod failures;
pub mod grounds;
pub mod key_ring;
pub mod keys;
pub mod live;
pub mod rate;
pub mod session;
pub mod sign_ins;
pub mod source;
pub mod tickets;
pub mod usage;

use failures::Failures;
use rate::Standing;
use source::Source;

/// How every key begins, whatever kind it is of (interface.md "Authentication").
const KEY_FAMILY: &str = "sk_";
/// The time in which wrong credentials are counted, in seconds: their bound in the configuration is one a minute.
const GUESSES_SECONDS: u32 = 60;

/// Wrong keys, tokens and codes of late, by source. They never shut out one that is right: that is looked up first.
pub fn guesses(limits: &Limits) -> Failures<Source> {
    Failures::new(limits.wrong_keys_per_minute, Duration::from_secs(GUESSES_SECONDS.into()))
}

/// Whether a request is for the one operation whose refusals interface.md words in its own way ("Errors of this operation").
fn suspends(parts: &Parts) -> bool {
    let route = parts.extensions.get::<MatchedPath>();
    route.is_some_and(|route| route.as_str().ends_with("/computers/{id}/suspend"))
}

/// Who sends a request, found once by [`identify`] for all that ask.
#[derive(Clone, Debug)]
pub struct Identified(pub Result<Caller>);

/// What the credential of a request is called, for the audit log.
#[derive(Clone, Debug)]
pub struct ClientName(pub String);

/// What was found out about the sender of a request.
struct Finding {
    caller: Result<Caller>,
    /// How it stands with its rate.
    standing: Option<Standing>,
    /// Its credential, which may end meanwhile, and what that is called.
    held: Option<(Hold<Credential>, String)>,
}

impl From<Error> for Finding {
    fn from(error: Error) -> Self {
        Self { caller: Err(error), standing: None, held: None }
    }
}

/// Finds out who sends a request, before its handler and whatever else goes by it. A refusal is for those who ask: some
/// operations need nobody. The answer tells how the sender stands with the limits, and is not to be kept by anybody:
/// many answers hold a credential (access.md A6).
pub async fn identify(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let shown = bearer::shown(&parts.headers) != Shown::Nothing;
    let source = source(&app, &parts);
    let finding = app.identify(&parts).await;
    let known = finding.caller.is_ok();
    if known && let Some(source) = source {
        app.guesses.forget(&source);
    }
    if let Some((hold, name)) = finding.held {
        parts.extensions.insert(hold);
        parts.extensions.insert(ClientName(name));
    }
    parts.extensions.insert(Identified(finding.caller));
    let mut response = next.run(Request::from_parts(parts, body)).await;
    if let Some(standing) = finding.standing {
        standing.write(response.headers_mut());
    }
    if response.status() == StatusCode::UNAUTHORIZED {
        if shown
            && !known
            && let Some(source) = source
            && let Some(refused) = app.guessed(source, "Invalid API key")
        {
            response = refused;
        }
        challenge(shown, &mut response);
    }
    if known {
        response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    response
}

/// A 401 names the scheme, and what is wrong with what was shown (RFC 9110 section 15.5.2, RFC 6750 section 3.1).
fn challenge(shown: bool, response: &mut Response) {
    if response.status() == StatusCode::UNAUTHORIZED {
        let wrong = if shown { "Bearer error=\"invalid_token\"" } else { "Bearer" };
        let fields = response.headers_mut();
        fields.entry(header::WWW_AUTHENTICATE).or_insert(HeaderValue::from_static(wrong));
    }
}

fn source(app: &App, parts: &Parts) -> Option<Source> {
    let ConnectInfo(peer) = parts.extensions.get::<ConnectInfo<Peer>>()?;
    Some(app.source(peer, &parts.headers))
}

impl App {
    async fn identify(&self, parts: &Parts) -> Finding {
        let key = match bearer::shown(&parts.headers) {
            Shown::Nothing if suspends(parts) => {
                return Error::unauthenticated("Authentication required").into();
            }
            Shown::Nothing => return Error::unauthenticated("Missing API key").into(),
            Shown::Unusable => {
                return Error::unauthenticated("Invalid API key: send one Authorization: Bearer field")
                    .into();
            }
            Shown::Bearer(key) if suspends(parts) && !key.starts_with(KEY_FAMILY) => {
                return Error::unauthenticated("Authentication required").into();
            }
            Shown::Bearer(key) => key,
        };
        let (holder, hold) = match self.hold_key(key).await {
            Ok(held) => held,
            Err(error) => return error.into(),
        };
        self.usage.note(holder.key);
        let credential = Credential::Key(holder.key);
        let taken = self.rates.take(&credential);
        let intent = if parts.method.is_safe() { Intent::Read } else { Intent::Change };
        let caller = Caller { credential, account: holder.account, scope: holder.scope, intent };
        let (caller, standing) = match taken {
            Ok(standing) => (Ok(caller), standing),
            Err(standing) => (Err(Error::rate_limited(standing.seconds)), standing),
        };
        Finding { caller, standing: Some(standing), held: Some((hold, holder.name)) }
    }

    /// Who holds a key, and the key for as long as a request goes on under it. A key that is deleted after it was
    /// looked up and before it is held has ended unheard: then it is looked up again.
    async fn hold_key(&self, key: &str) -> Result<(Holder, Hold<Credential>)> {
        loop {
            let ends = self.store.live.ends();
            let holder = keys::holder(&self.store, key).await?;
            let hold = self.store.live.hold(Credential::Key(holder.key));
            if self.store.live.ends() == ends {
                return Ok((holder, hold));
            }
        }
    }

    /// Counts a wrong credential of a source, whatever kind it is of; what it is said to be begins the refusal of one too many. To be
    /// called once it was looked up: the right one is never shut out.
    pub fn guessed(&self, source: Source, wrong: &str) -> Option<Response> {
        let quota = self.config.limits.wrong_keys_per_minute;
        let refused = self.guesses.attempt(&source, Instant::now()).err()?;
        let seconds = refused.retry_after.unwrap_or(1);
        let message = format!("{wrong}, and too many wrong ones before it from your address");
        let mut response = HttpError(Error { message, ..refused }).into_response();
        let window = GUESSES_SECONDS;
        Standing { policy: "wrong-keys", quota, window, left: 0, seconds }.write(response.headers_mut());
        Some(response)
    }
}

/// The caller of a request, as an extractor.
pub struct Authenticated(pub Caller);

impl FromRequestParts<Arc<App>> for Authenticated {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, HttpError> {
        let found = match parts.extensions.get::<Identified>() {
            Some(Identified(found)) => found.clone(),
            None => app.identify(parts).await.caller,
        };
        Ok(Self(found?))
    }
}
