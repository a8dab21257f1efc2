//! Usage: running time of computers and RAM-hours, summed over stored runs.

use std::collections::BTreeMap;
use std::ops::Range;

use hotdesk_base::ids::ComputerId;
use hotdesk_base::time::UnixMillis;

/// Months before the current one for which runs are stored: a yearly statement can be made a month after the
/// year's end.
pub const RETAINED_MONTHS: i32 = 13;

/// Milliseconds in an hour.
const HOUR_MS: f64 = 3_600_000.0;

/// A period in which a computer ran at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The computer, which may have been deleted.
    pub computer: ComputerId,
    /// Its RAM, in GB.
    pub ram_gb: u32,
    /// Start.
    pub started_at: UnixMillis,
    /// End; `None` while it runs.
    pub ended_at: Option<UnixMillis>,
}

/// Sum of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunTotals {
    /// Running time of all computers, in hours.
    pub computer_hours: f64,
    /// Running time in hours times RAM in GB.
    pub ram_gb_hours: f64,
}

/// Returns the time from which runs are stored: the start of a month, so that each month is complete.
pub fn retained_since(now: UnixMillis) -> UnixMillis {
    now.months_before(RETAINED_MONTHS)
}

/// Returns the usage of each computer within a time range, up to `now`.
pub fn by_computer(
    runs: &[Run],
    within: &Range<UnixMillis>,
    now: UnixMillis,
) -> BTreeMap<ComputerId, RunTotals> {
    let mut all: BTreeMap<ComputerId, RunTotals> = BTreeMap::new();
    for run in runs {
        let end = run.ended_at.unwrap_or(now).min(within.end);
        let ran = end.since(run.started_at.max(within.start)).unwrap_or_default();
        let hours = ran.as_millis() as f64 / HOUR_MS;
        let used = all.entry(run.computer).or_default();
        used.computer_hours += hours;
        used.ram_gb_hours += hours * f64::from(run.ram_gb);
    }
    all
}

/// Sums up usage.
pub fn total<'a>(parts: impl IntoIterator<Item = &'a RunTotals>) -> RunTotals {
    parts.into_iter().fold(RunTotals::default(), |sum, part| RunTotals {
        computer_hours: sum.computer_hours + part.computer_hours,
        ram_gb_hours: sum.ram_gb_hours + part.ram_gb_hours,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_within_the_month_counts() {
        let hour = |count: i64| UnixMillis::new(count * 3_600_000);
        let (month, now, computer) = (hour(100)..hour(200), hour(190), ComputerId::random());
        for (started, ended, hours) in [
            (110, Some(120), 10.0),
            (90, Some(110), 10.0),
            (195, Some(205), 5.0),
            (50, Some(300), 100.0),
            (50, Some(90), 0.0),
            (200, Some(210), 0.0),
            (180, None, 10.0),
            (90, None, 90.0),
            // The clock was set back.
            (120, Some(110), 0.0),
        ] {
            let run = Run { computer, ram_gb: 8, started_at: hour(started), ended_at: ended.map(hour) };
            let used = by_computer(&[run], &month, now)[&computer];
            assert_eq!((used.computer_hours, used.ram_gb_hours), (hours, hours * 8.0), "{run:?}");
        }
        let run = |ram_gb| Run { computer, ram_gb, started_at: hour(100), ended_at: Some(hour(101)) };
        let all = by_computer(&[run(4), run(8)], &month, now);
        assert_eq!(total(all.values()), RunTotals { computer_hours: 2.0, ram_gb_hours: 12.0 });
    }
}
