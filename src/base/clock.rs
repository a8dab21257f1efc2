//! Wall clock, boot clock, and ISO 8601. No other module reads them.

use std::io;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Span;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use nix::time::{ClockId, clock_gettime};

/// The present time in Unix milliseconds. Only for timestamps and expiries: intervals use
/// `std::time::Instant`.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A moment by two clocks: the wall clock, which can be set, and the host's boot clock, which cannot. Both
/// outlive a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Unix milliseconds.
    pub wall_ms: i64,
    /// The id of the host's boot.
    pub boot_id: String,
    /// Milliseconds since that boot, including suspend of the host.
    pub up_ms: i64,
}

impl Moment {
    /// The present moment.
    ///
    /// # Errors
    /// `NotFound` when procfs is not mounted.
    pub fn now() -> io::Result<Self> {
        let up = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME)?);
        Ok(Self {
            wall_ms: now_ms(),
            boot_id: boot_id()?,
            up_ms: i64::try_from(up.as_millis()).unwrap_or(i64::MAX),
        })
    }

    /// Milliseconds since an earlier moment, by the boot clock within one boot, else by the wall clock.
    /// `None` when the wall clock was set back to before the earlier moment.
    pub fn since(&self, earlier: &Self) -> Option<i64> {
        let passed = if self.boot_id == earlier.boot_id {
            self.up_ms.saturating_sub(earlier.up_ms)
        } else {
            self.wall_ms.saturating_sub(earlier.wall_ms)
        };
        Some(passed).filter(|passed| *passed >= 0)
    }
}

/// The id of the host's boot (`/proc/sys/kernel/random/boot_id`).
///
/// # Errors
/// `NotFound` when procfs is not mounted.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Unix milliseconds as ISO 8601 in UTC with milliseconds, the form of every time in the API.
pub fn iso8601(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(at) => format!("{at:.3}"),
        Err(_) => String::from("1970-01-01T00:00:00.000Z"),
    }
}

/// Parses ISO 8601 with any zone into Unix milliseconds; `None` for other text and for times before 1970.
pub fn parse_iso8601(text: &str) -> Option<i64> {
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(at.as_millisecond()).filter(|ms| *ms >= 0)
}

/// Parses `YYYY-MM`, a month of UTC, into its range of Unix milliseconds; `None` for other text.
pub fn month(text: &str) -> Option<Range<i64>> {
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let (year, month) = text.split_once('-').filter(|(year, month)| digits(year, 4) && digits(month, 2))?;
    let first = Date::new(year.parse().ok()?, month.parse().ok()?, 1).ok()?;
    let next = first.checked_add(Span::new().months(1)).ok()?;
    let stamp = |day: Date| day.to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp().as_millisecond());
    Some(stamp(first)?..stamp(next)?)
}

/// The first Unix millisecond of the UTC month that is `months` before the month of `ms`; 0 when it is out of
/// range.
pub fn months_before(ms: i64, months: i32) -> i64 {
    let began = || {
        let now = jiff::Timestamp::from_millisecond(ms).ok()?.to_zoned(TimeZone::UTC).date();
        let first = now.first_of_month().checked_sub(Span::new().months(months)).ok()?;
        Some(first.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
    };
    began().unwrap_or(0)
}

/// The UTC month of Unix milliseconds, as `YYYY-MM`.
pub fn month_of(ms: i64) -> String {
    iso8601(ms).chars().take(7).collect()
}

#[cfg(test)]
mod tests {
    use super::Moment;

    #[test]
    fn within_a_boot_the_wall_clock_does_not_matter() {
        const HOUR: i64 = 3_600_000;
        let at = |wall_ms, boot: &str, up_ms| Moment { wall_ms, boot_id: boot.to_owned(), up_ms };
        let began = at(10 * HOUR, "a", 1000);
        for (now, passed) in [
            (at(10 * HOUR + 500, "a", 1500), Some(500)),
            (at(11 * HOUR, "a", 1500), Some(500)),
            (at(9 * HOUR, "a", 1500), Some(500)),
            (at(11 * HOUR, "b", 7), Some(HOUR)),
            (at(9 * HOUR, "b", 7), None),
        ] {
            assert_eq!(now.since(&began), passed, "{now:?}");
        }
        let (one, two) = (Moment::now().unwrap(), Moment::now().unwrap());
        assert!(two.since(&one).is_some_and(|passed| passed < 60_000), "{one:?} {two:?}");
    }

    #[test]
    fn stamps_have_milliseconds_and_a_zone() {
        assert_eq!(super::iso8601(1_700_000_000_120), "2023-11-14T22:13:20.120Z");
        assert_eq!(super::iso8601(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(super::parse_iso8601("2023-11-14T23:13:20.1209+01:00"), Some(1_700_000_000_120));
        assert_eq!(super::parse_iso8601("1969-12-31T23:59:59.000Z"), None);
        assert_eq!(super::parse_iso8601("2023-11-14"), None);
    }

    #[test]
    fn months_begin_and_end_at_midnight_of_utc() {
        let bounds = |text| super::month(text).map(|month| [month.start, month.end].map(super::iso8601));
        let expected = ["2023-12-01T00:00:00.000Z", "2024-01-01T00:00:00.000Z"].map(str::to_owned);
        assert_eq!(bounds("2023-12"), Some(expected));
        assert_eq!(super::month_of(1_700_000_000_120), "2023-11");
        for (months, began) in [(0, "2023-11-01"), (10, "2023-01-01"), (13, "2022-10-01")] {
            let at = super::months_before(1_700_000_000_120, months);
            assert_eq!(super::iso8601(at), format!("{began}T00:00:00.000Z"));
        }
        for bad in ["", "2023", "2023-13", "2023-00", "2023-1", "23-01", "2023-01-01", "+023-01", "9999-12x"]
        {
            assert_eq!(super::month(bad), None, "{bad:?}");
        }
    }
}
