//! Bounds of requests to back ends, and the rule of their retries.

use std::time::Duration;

/// Bounds of one request to a back end and of its retries. The default suits every server; tests shorten it.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Longest wait for a connection.
    pub connect: Duration,
    /// Longest wait for the first bytes of a reply.
    pub first_byte: Duration,
    /// Longest pause between two pieces of a reply.
    pub idle: Duration,
    /// Longest time of a request with all its retries.
    pub total: Duration,
    /// Largest reply in bytes, with its framing.
    pub reply_bytes: usize,
    /// Most attempts.
    pub attempts: u32,
    /// Pause before the second attempt. Each further pause is twice as long.
    pub first_pause: Duration,
    /// Longest pause that the back end did not ask for.
    pub longest_pause: Duration,
    /// Longest `Retry-After` that is waited for. A longer one ends the request.
    pub longest_retry_after: Duration,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            // A server on this machine without a GPU reads a long conversation for minutes.
            first_byte: Duration::from_secs(300),
            // Anthropic sends a ping each 15 s or so; other servers send nothing while a model thinks.
            idle: Duration::from_secs(120),
            // 64,000 tokens at 40 in a second take 27 minutes.
            total: Duration::from_secs(1800),
            // 64,000 tokens with 400 bytes of framing each.
            reply_bytes: 32 * 1024 * 1024,
            // The vendors' own clients make three; one more, because a lost step ends a whole run.
            attempts: 4,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(8),
            // Limits of requests refill within a minute at both vendors.
            longest_retry_after: Duration::from_secs(60),
        }
    }
}

impl RequestLimits {
    /// Returns the pause before the next attempt, or `None` when there is none. `failed` counts the attempts
    /// so far. `spread` is a random number from 0 to 1, so that many callers do not come back together.
    pub(crate) fn pause(&self, failed: u32, retry_after: Option<Duration>, spread: f64) -> Option<Duration> {
        if failed >= self.attempts {
            return None;
        }
        let doublings = failed.saturating_sub(1).min(16);
        let longest = (self.first_pause * 2_u32.pow(doublings)).min(self.longest_pause);
        let own = longest.mul_f64(0.5 + spread.clamp(0.0, 1.0) / 2.0);
        match retry_after {
            Some(after) if after > self.longest_retry_after => None,
            Some(after) => Some(after.max(own)),
            None => Some(own),
        }
    }
}

/// Returns the value of `Retry-After` (RFC 9110 section 10.2.3): seconds, or a date, which is compared with
/// `now`. A fraction of a second is accepted. `None` for another text.
pub(crate) fn retry_after(value: &str, now: jiff::Timestamp) -> Option<Duration> {
    // A year bounds what a server can ask for; sums of times stay in range.
    const MAX_SECONDS: f64 = 366.0 * 86_400.0;
    let value = value.trim();
    let seconds = match value.parse::<f64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let at = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
            at.duration_since(now).as_secs_f64().max(0.0)
        }
    };
    (seconds.is_finite() && seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(MAX_SECONDS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_heed_the_server_up_to_a_bound() {
        let limits = RequestLimits {
            attempts: 6,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(1),
            longest_retry_after: Duration::from_secs(5),
            ..RequestLimits::default()
        };
        let seconds = Duration::from_secs;
        for (failed, after, spread, expected) in [
            (1, None, 1.0, Some(Duration::from_millis(100))),
            (1, None, 0.0, Some(Duration::from_millis(50))),
            (2, None, 1.0, Some(Duration::from_millis(200))),
            (5, None, 1.0, Some(seconds(1))),
            (6, None, 1.0, None),
            (1, Some(seconds(3)), 1.0, Some(seconds(3))),
            (5, Some(seconds(0)), 1.0, Some(seconds(1))),
            (1, Some(seconds(5)), 1.0, Some(seconds(5))),
            (1, Some(seconds(6)), 1.0, None),
            (6, Some(seconds(1)), 1.0, None),
        ] {
            assert_eq!(limits.pause(failed, after, spread), expected, "{failed} {after:?} {spread}");
        }
        assert!(RequestLimits { attempts: u32::MAX, ..limits }.pause(4_000_000, None, 0.5).is_some());
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = "2026-01-02T03:04:05Z".parse().expect("a time");
        for (value, expected) in [
            ("7", Some(7.0)),
            (" 0 ", Some(0.0)),
            ("1.5", Some(1.5)),
            ("1e99", Some(366.0 * 86_400.0)),
            ("Fri, 02 Jan 2026 03:04:35 GMT", Some(30.0)),
            ("Fri, 02 Jan 2026 03:04:00 GMT", Some(0.0)),
            ("-1", None),
            ("inf", None),
            ("NaN", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after(value, now).map(|after| after.as_secs_f64()), expected, "{value}");
        }
    }
}
