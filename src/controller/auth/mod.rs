//! Who is asking? The API key of a request becomes a [`Caller`], or a 401 that says why not.

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath};
use axum::http::request::Parts;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};

use super::App;
use super::config::Limits;
use crate::base::ids::KeyId;
use crate::domain::access::Caller;
use crate::domain::error::{Error, Result};
use crate::http::bearer::{self, Shown};

pub mod door;
pub mod keys;
pub mod tickets;

/// How every key begins, whatever kind it is of (interface.md "Authentication").
const KEY_FAMILY: &str = "sk_";

/// Requests per key.
pub type Limiter = DefaultKeyedRateLimiter<KeyId>;

/// The limiter that the configuration asks for.
pub fn limiter(limits: &Limits) -> Limiter {
    let least_one = |value: u32| NonZeroU32::new(value).unwrap_or(NonZeroU32::MIN);
    let quota = Quota::per_second(least_one(limits.requests_per_second));
    Limiter::keyed(quota.allow_burst(least_one(limits.request_burst)))
}

/// Whether a request is for the one operation whose refusals interface.md words in its own way ("Errors of this operation").
fn suspends(parts: &Parts) -> bool {
    let route = parts.extensions.get::<MatchedPath>();
    route.is_some_and(|route| route.as_str().ends_with("/computers/{id}/suspend"))
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        let caller = match bearer::shown(&parts.headers) {
            Shown::Nothing if suspends(parts) => {
                return Err(Error::unauthenticated("Authentication required"));
            }
            Shown::Nothing => return Err(Error::unauthenticated("Missing API key")),
            Shown::Unusable => {
                return Err(Error::unauthenticated("Invalid API key: send one Authorization: Bearer field"));
            }
            Shown::Bearer(key) if suspends(parts) && !key.starts_with(KEY_FAMILY) => {
                return Err(Error::unauthenticated("Authentication required"));
            }
            Shown::Bearer(key) => keys::caller(&app.store, key).await?,
        };
        app.limiter.check_key(&caller.key).map_err(|refused| {
            let wait = refused.wait_time_from(DefaultClock::default().now());
            Error::rate_limited(u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1))
        })?;
        Ok(caller)
    }
}
