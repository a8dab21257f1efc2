//! Who is asking? The API key of a request becomes a [`Caller`], or a 401 that says why not.

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::extract::FromRequestParts;
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

/// Requests per key.
pub type Limiter = DefaultKeyedRateLimiter<KeyId>;

/// The limiter that the configuration asks for.
pub fn limiter(limits: &Limits) -> Limiter {
    let least_one = |value: u32| NonZeroU32::new(value).unwrap_or(NonZeroU32::MIN);
    let quota = Quota::per_second(least_one(limits.requests_per_second));
    Limiter::keyed(quota.allow_burst(least_one(limits.request_burst)))
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        let caller = match bearer::shown(&parts.headers) {
            Shown::Nothing => return Err(Error::unauthenticated("Missing API key")),
            Shown::Unusable => {
                return Err(Error::unauthenticated("Invalid API key: send one Authorization: Bearer field"));
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
