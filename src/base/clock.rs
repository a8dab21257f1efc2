//! What time is it? The one place that reads the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch. Only for stamps and expiries: intervals use `std::time::Instant`.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A stamp as ISO 8601 in UTC with milliseconds, the form of every time on the wire.
pub fn iso8601(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(at) => format!("{at:.3}"),
        Err(_) => String::from("1970-01-01T00:00:00.000Z"),
    }
}

/// The stamp that an ISO 8601 text with any zone stands for; `None` when it is none, or before 1970.
pub fn parse_iso8601(text: &str) -> Option<i64> {
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(at.as_millisecond()).filter(|ms| *ms >= 0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn stamps_have_milliseconds_and_a_zone() {
        assert_eq!(super::iso8601(1_700_000_000_120), "2023-11-14T22:13:20.120Z");
        assert_eq!(super::iso8601(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(super::parse_iso8601("2023-11-14T23:13:20.1209+01:00"), Some(1_700_000_000_120));
        assert_eq!(super::parse_iso8601("1969-12-31T23:59:59.000Z"), None);
        assert_eq!(super::parse_iso8601("2023-11-14"), None);
    }
}
