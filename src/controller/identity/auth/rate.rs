//! How many requests may a credential send? A bucket for each; every answer to a caller tells what is left in it, in the syntax of
//! draft-ietf-httpapi-ratelimit-headers-11.

use std::hash::Hash;
use std::num::NonZeroU32;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{DefaultKeyedRateLimiter, NotUntil, Quota, RateLimiter};

use crate::config::Limits;
use hotdesk_domain::access::Credential;
use hotdesk_domain::error::{self, Error};

type Limiter =
    RateLimiter<Credential, DefaultKeyedStateStore<Credential>, DefaultClock, StateInformationMiddleware>;

/// A moment of the clock that limiters go by.
type Now = <DefaultClock as Clock>::Instant;

/// Requests of the callers.
pub struct Rates {
    limiter: Limiter,
    per_second: NonZeroU32,
    burst: NonZeroU32,
}

/// How somebody stands with a limit: what an answer's `RateLimit` and `RateLimit-Policy` say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The limit's name.
    pub policy: &'static str,
    /// What it gives in each window.
    pub quota: u32,
    /// The window in seconds.
    pub window: u32,
    /// What is left.
    pub left: u32,
    /// Seconds within which no more than that can be had.
    pub seconds: u32,
}

impl Rates {
    /// The rates that the configuration asks for.
    pub fn new(limits: &Limits) -> Self {
        let least_one = |value: u32| NonZeroU32::new(value).unwrap_or(NonZeroU32::MIN);
        let (per_second, burst) = (least_one(limits.requests_per_second), least_one(limits.request_burst));
        let limiter = RateLimiter::keyed(Quota::per_second(per_second).allow_burst(burst));
        Self { limiter: limiter.with_middleware::<StateInformationMiddleware>(), per_second, burst }
    }

    /// Counts a request; how its sender stands afterwards.
    ///
    /// # Errors
    /// How it stands when this is one too many.
    pub fn take(&self, credential: &Credential) -> Result<Standing, Standing> {
        match self.limiter.check_key(credential) {
            Ok(state) => {
                let left = state.remaining_burst_capacity();
                Ok(self.standing(left, self.refilled_in(left)))
            }
            Err(refused) => Err(self.standing(0, seconds_left(&refused))),
        }
    }

    /// Forgets the credentials whose buckets are full again.
    pub fn forget_idle(&self) {
        self.limiter.retain_recent();
    }

    fn standing(&self, left: u32, seconds: u32) -> Standing {
        let window = self.refilled_in(self.burst.get());
        Standing { policy: "requests", quota: self.burst.get(), window, left, seconds }
    }

    /// Seconds in which so many come in. Whoever divides what is left by them finds the rate that can be kept up, and no
    /// higher one (section 8.5 of the draft).
    fn refilled_in(&self, requests: u32) -> u32 {
        requests.div_ceil(self.per_second.get()).max(1)
    }
}

impl Standing {
    /// Writes it into an answer.
    pub fn write(&self, headers: &mut HeaderMap) {
        let Self { policy, quota, window, left, seconds } = self;
        for (name, value) in [
            ("ratelimit-policy", format!("\"{policy}\";q={quota};w={window}")),
            ("ratelimit", format!("\"{policy}\";r={left};t={seconds}")),
        ] {
            // Names are words of ours.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
}

/// So many in a minute, all at once if need be.
pub fn per_minute(most: u32) -> Quota {
    Quota::per_minute(NonZeroU32::new(most).unwrap_or(NonZeroU32::MIN))
}

/// Counts one more of a key's, where nobody is told how it stands.
///
/// # Errors
/// `RateLimited` when it is one too many.
pub fn count<K: Clone + Eq + Hash>(limiter: &DefaultKeyedRateLimiter<K>, key: &K) -> error::Result<()> {
    limiter.check_key(key).map_err(|refused| limited(&refused))
}

/// The refusal of one too many, with the time to wait.
pub fn limited(refused: &NotUntil<Now>) -> Error {
    Error::rate_limited(seconds_left(refused))
}

/// Whole seconds until there is room again.
fn seconds_left(refused: &NotUntil<Now>) -> u32 {
    let wait = refused.wait_time_from(DefaultClock::default().now());
    u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::KeyId;

    #[test]
    fn each_credential_has_a_bucket_and_is_told_what_is_in_it() {
        let limits = Limits { requests_per_second: 1, request_burst: 5, ..Limits::default() };
        let (rates, one) = (Rates::new(&limits), Credential::Key(KeyId::random()));
        let first = rates.take(&one).unwrap();
        assert_eq!((first.quota, first.window, first.left, first.seconds), (5, 5, 4, 4));
        let refused = (0..100).find_map(|_| rates.take(&one).err()).unwrap();
        assert_eq!((refused.left, refused.seconds), (0, 1));
        assert_eq!(rates.take(&Credential::Key(KeyId::random())).unwrap().left, 4);
        let mut headers = HeaderMap::new();
        refused.write(&mut headers);
        assert_eq!(headers["ratelimit-policy"], "\"requests\";q=5;w=5");
        assert_eq!(headers["ratelimit"], "\"requests\";r=0;t=1");
    }
}
