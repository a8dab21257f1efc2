//! Times in a definition file: durations, rates and cron schedules.

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions};

use hotdesk_base::time::UnixMillis;

use super::fault::{Fault, RuleResult, quoted};

/// Units of a duration with their milliseconds, the largest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// Longest duration, in milliseconds: 30 days, the longest auto-stop time of a computer.
const MAX_MS: u64 = 30 * 86_400_000;

/// Reads a duration such as `500ms`, `30s`, `5m`, `1h30m` or `1d`; returns it in its shortest form.
///
/// # Errors
/// `InvalidValue` for anything else, for zero and for more than 30 days.
pub fn duration(text: &str) -> RuleResult<String> {
    match milliseconds(text) {
        Some(ms) if (1..=MAX_MS).contains(&ms) => Ok(shortest(ms)),
        Some(_) => Err(Fault::invalid(format!("must be a duration of 1ms to 30d, not {}", quoted(text)))),
        None => {
            Err(Fault::invalid(format!("must be a duration such as 30s, 5m or 1h30m, not {}", quoted(text))))
        }
    }
}

/// The milliseconds of a duration; `None` for other text, and above 2 to the power of 64.
pub fn milliseconds(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0u64;
    let mut units = UNITS.iter();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        // Each unit once, the larger before the smaller.
        let (_, ms) = units.find(|(unit, _)| *unit == &rest[..end])?;
        total = total.checked_add(number.checked_mul(*ms)?)?;
        rest = &rest[end..];
    }
    (!text.is_empty()).then_some(total)
}

/// The form with the fewest units: 90 minutes are `1h30m`.
fn shortest(mut ms: u64) -> String {
    let mut text = String::new();
    for (unit, size) in UNITS {
        if ms >= size {
            text.push_str(&format!("{}{unit}", ms / size));
            ms %= size;
        }
    }
    text
}

/// Reads a rate such as `10/1m`, a number of times in a duration; returns it in its shortest form.
///
/// # Errors
/// `InvalidValue` for anything else.
pub fn rate(text: &str) -> RuleResult<String> {
    let wrong = || Fault::invalid(format!("must be a rate such as 10/1m, not {}", quoted(text)));
    let (count, window) = text.split_once('/').ok_or_else(wrong)?;
    let count = count.parse::<u16>().ok().filter(|count| *count > 0).ok_or_else(wrong)?;
    Ok(format!("{count}/{}", duration(window).map_err(|_| wrong())?))
}

/// Returns the next time of a schedule after a time; `None` when it has none, or is no schedule here: the names of time zones
/// come from the system.
pub fn next_time(schedule: &str, after: UnixMillis) -> Option<UnixMillis> {
    let crontab = parse_schedule(schedule)?;
    let after = MakeTimestamp::from_millisecond(after.as_i64()).ok()?;
    let next = crontab.find_next(after).ok()?;
    Some(UnixMillis::new(next.timestamp().as_millisecond()))
}

fn parse_schedule(text: &str) -> Option<Crontab> {
    // `H` needs a value for each template, which a schedule does not have.
    let mut options = ParseOptions::default();
    options.fallback_timezone_option = FallbackTimezoneOption::UTC;
    cronexpr::parse_crontab_with(text, options).ok()
}

/// Checks a cron schedule of five fields, with an optional time zone behind them; UTC without one.
///
/// # Errors
/// `InvalidValue` with the reason, for anything else.
pub fn schedule(text: &str) -> RuleResult<String> {
    match parse_schedule(text) {
        Some(_) => Ok(text.split_whitespace().collect::<Vec<&str>>().join(" ")),
        None => Err(Fault::invalid(format!("must be a cron schedule of five fields, not {}", quoted(text)))
            .hint("minute, hour, day of month, month, day of week: 0 9 * * 1-5")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_one_form() {
        for (text, shown) in [
            ("500ms", "500ms"),
            ("30s", "30s"),
            ("90s", "1m30s"),
            ("120s", "2m"),
            ("1h30m", "1h30m"),
            ("24h", "1d"),
            ("1000ms", "1s"),
            ("30d", "30d"),
        ] {
            assert_eq!(duration(text).unwrap(), shown);
            assert_eq!(duration(shown).unwrap(), shown);
        }
        for bad in
            ["", "5", "s", "0s", "31d", "1m1h", "1s1s", "-1s", "1.5s", "1 s", "1S", "99999999999999999999s"]
        {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_next_time_of_a_schedule_is_after_the_present_one() {
        let next = |schedule: &str, after: &str| {
            next_time(schedule, UnixMillis::parse_iso8601(after).unwrap()).map(UnixMillis::iso8601)
        };
        for (schedule, after, expected) in [
            ("*/5 * * * *", "2026-11-25T22:01:30.000Z", "2026-11-25T22:05:00.000Z"),
            ("*/5 * * * *", "2026-11-25T22:05:00.000Z", "2026-11-25T22:10:00.000Z"),
            ("0 9 * * 1-5", "2026-11-27T09:00:00.000Z", "2026-11-30T09:00:00.000Z"),
            ("0 9 * * * UTC", "2026-11-27T08:00:00.000Z", "2026-11-27T09:00:00.000Z"),
        ] {
            assert_eq!(next(schedule, after).as_deref(), Some(expected), "{schedule} {after}");
        }
        assert_eq!(next("x", "2026-11-25T22:01:30.000Z"), None);
    }

    #[test]
    fn rates_are_a_number_in_a_duration() {
        assert_eq!(rate("10/60s").unwrap(), "10/1m");
        for bad in ["", "10", "0/1m", "10/", "/1m", "10/1m/2", "70000/1m", "-1/1m"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn schedules_are_those_of_cron() {
        for good in ["* * * * *", "*/5 0-6 1,15 * 1-5", "0 9 * * MON-FRI", "0 9 * * * Europe/Berlin"] {
            assert_eq!(schedule(good).unwrap(), good);
        }
        assert_eq!(schedule(" 0  9 * * * ").unwrap(), "0 9 * * *");
        for bad in ["", "* * * *", "60 * * * *", "a b c d e", "* * * * * Mars/Crater", "H * * * *", "@reboot"]
        {
            assert!(schedule(bad).is_err(), "{bad}");
        }
    }
}
