//! Points in time in Unix milliseconds, their ISO 8601 text, months of UTC, and durations of phases for the
//! log.

use std::ops::Range;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

pub mod clock;
pub mod deadline;
pub mod phase;

/// A point in time: milliseconds since 1970-01-01T00:00:00Z, as `clock::now` reads it. Arithmetic saturates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(i64);

impl UnixMillis {
    /// The start of Unix time.
    pub const EPOCH: Self = Self(0);
    /// A time after all others.
    pub const MAX: Self = Self(i64::MAX);

    /// The time of a number of Unix milliseconds.
    pub const fn new(millis: i64) -> Self {
        Self(millis)
    }

    /// The time of Unix seconds and nanoseconds of that second, as stat(2) returns them.
    pub const fn from_seconds(seconds: i64, nanoseconds: i64) -> Self {
        Self(seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000))
    }

    /// Unix milliseconds.
    pub const fn as_i64(self) -> i64 {
        self.0
    }

    /// Whole Unix seconds.
    pub const fn as_seconds(self) -> i64 {
        self.0 / 1000
    }

    /// The time that is this much later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(whole_millis(duration)))
    }

    /// The time that is this much earlier.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(whole_millis(duration)))
    }

    /// The time that has passed since `earlier`; `None` when that is later.
    pub fn since(self, earlier: Self) -> Option<Duration> {
        u64::try_from(self.0.saturating_sub(earlier.0)).ok().map(Duration::from_millis)
    }

    /// ISO 8601 in UTC with milliseconds, the form of every time in the API; 1970 for years after 9999.
    pub fn iso8601(self) -> String {
        match Timestamp::from_millisecond(self.0) {
            Ok(at) => format!("{at:.3}"),
            Err(_) => String::from("1970-01-01T00:00:00.000Z"),
        }
    }

    /// Parses ISO 8601 with any zone; `None` for other text and for times before 1970.
    pub fn parse_iso8601(text: &str) -> Option<Self> {
        let at: Timestamp = text.parse().ok()?;
        Some(Self(at.as_millisecond())).filter(|at| *at >= Self::EPOCH)
    }

    /// Its UTC month, as `YYYY-MM`.
    pub fn month(self) -> String {
        self.iso8601().chars().take(7).collect()
    }

    /// The start of the UTC month that is `months` before its own; 1970 when it is out of range.
    #[must_use]
    pub fn months_before(self, months: i32) -> Self {
        let began = || {
            let day = Timestamp::from_millisecond(self.0).ok()?.to_zoned(TimeZone::UTC).date();
            start_of(day.first_of_month().checked_sub(Span::new().months(months)).ok()?)
        };
        began().unwrap_or(Self::EPOCH)
    }
}

/// Parses `YYYY-MM`, a month of UTC, into its range of times; `None` for other text.
pub fn parse_month(text: &str) -> Option<Range<UnixMillis>> {
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let (year, month) = text.split_once('-').filter(|(year, month)| digits(year, 4) && digits(month, 2))?;
    let first = Date::new(year.parse().ok()?, month.parse().ok()?, 1).ok()?;
    let next = first.checked_add(Span::new().months(1)).ok()?;
    Some(start_of(first)?..start_of(next)?)
}

fn start_of(day: Date) -> Option<UnixMillis> {
    Some(UnixMillis(day.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond()))
}

fn whole_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: UnixMillis = UnixMillis(1_700_000_000_120);

    #[test]
    fn stamps_have_milliseconds_and_a_zone() {
        assert_eq!(AT.iso8601(), "2023-11-14T22:13:20.120Z");
        assert_eq!(UnixMillis::EPOCH.iso8601(), "1970-01-01T00:00:00.000Z");
        assert_eq!(UnixMillis::parse_iso8601("2023-11-14T23:13:20.1209+01:00"), Some(AT));
        assert_eq!(UnixMillis::parse_iso8601("1969-12-31T23:59:59.000Z"), None);
        assert_eq!(UnixMillis::parse_iso8601("2023-11-14"), None);
    }

    #[test]
    fn arithmetic_saturates_and_no_time_has_passed_since_a_later_one() {
        let minute = Duration::from_secs(60);
        assert_eq!(AT.plus(minute).since(AT), Some(minute));
        assert_eq!(AT.minus(minute).since(AT), None);
        assert_eq!(AT.plus(Duration::MAX), UnixMillis::MAX);
        assert_eq!(UnixMillis::from_seconds(AT.as_seconds(), 120_999_999), AT);
    }

    #[test]
    fn months_begin_and_end_at_midnight_of_utc() {
        let bounds = |text| parse_month(text).map(|month| [month.start, month.end].map(UnixMillis::iso8601));
        let expected = ["2023-12-01T00:00:00.000Z", "2024-01-01T00:00:00.000Z"].map(str::to_owned);
        assert_eq!(bounds("2023-12"), Some(expected));
        assert_eq!(AT.month(), "2023-11");
        for (months, began) in [(0, "2023-11-01"), (10, "2023-01-01"), (13, "2022-10-01")] {
            assert_eq!(AT.months_before(months).iso8601(), format!("{began}T00:00:00.000Z"));
        }
        for bad in ["", "2023", "2023-13", "2023-00", "2023-1", "23-01", "2023-01-01", "+023-01", "9999-12x"]
        {
            assert_eq!(parse_month(bad), None, "{bad:?}");
        }
    }
}
