//! How long did computers run, and how large were they meanwhile? Sums over the stored times of running.

use std::collections::BTreeMap;
use std::ops::Range;

use hotdesk_base::clock::months_before;
use hotdesk_base::ids::ComputerId;

/// Whole months before the present one for which runs are kept: a year's statement can be drawn up a month after its end.
pub const MONTHS_KEPT: i32 = 13;

/// Milliseconds of an hour.
const HOUR_MS: f64 = 3_600_000.0;

/// A computer of one size that ran from one moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The computer, which may be gone.
    pub computer: ComputerId,
    /// Its RAM in GB.
    pub ram_gb: u32,
    /// Since when, in milliseconds since 1970.
    pub started_at: i64,
    /// Until when; `None`: it runs still.
    pub ended_at: Option<i64>,
}

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Hours that computers ran, added up.
    pub computer_hours: f64,
    /// Those hours times the GB of RAM.
    pub ram_gb_hours: f64,
}

/// Since when runs are kept, at `now`: the beginning of a month, so that each is kept as a whole or not at all.
pub fn kept_since(now: i64) -> i64 {
    months_before(now, MONTHS_KEPT)
}

/// What each computer used within a time, as far as that is past at `now`.
pub fn by_computer(runs: &[Run], within: &Range<i64>, now: i64) -> BTreeMap<ComputerId, Used> {
    let mut all: BTreeMap<ComputerId, Used> = BTreeMap::new();
    for run in runs {
        let end = run.ended_at.unwrap_or(now).min(within.end);
        let hours = (end - run.started_at.max(within.start)).max(0) as f64 / HOUR_MS;
        let used = all.entry(run.computer).or_default();
        used.computer_hours += hours;
        used.ram_gb_hours += hours * f64::from(run.ram_gb);
    }
    all
}

/// All of it together.
pub fn total<'a>(parts: impl IntoIterator<Item = &'a Used>) -> Used {
    parts.into_iter().fold(Used::default(), |sum, part| Used {
        computer_hours: sum.computer_hours + part.computer_hours,
        ram_gb_hours: sum.ram_gb_hours + part.ram_gb_hours,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_within_the_month_counts() {
        const H: i64 = 3_600_000;
        let (month, now, computer) = (100 * H..200 * H, 190 * H, ComputerId::random());
        for (started, ended, hours) in [
            (110, Some(120), 10.0),
            (90, Some(110), 10.0),
            (195, Some(205), 5.0),
            (50, Some(300), 100.0),
            (50, Some(90), 0.0),
            (200, Some(210), 0.0),
            (180, None, 10.0),
            (90, None, 90.0),
            // A clock that was set back.
            (120, Some(110), 0.0),
        ] {
            let run =
                Run { computer, ram_gb: 8, started_at: started * H, ended_at: ended.map(|end| end * H) };
            let used = by_computer(&[run], &month, now)[&computer];
            assert_eq!((used.computer_hours, used.ram_gb_hours), (hours, hours * 8.0), "{run:?}");
        }
        let run = |ram_gb| Run { computer, ram_gb, started_at: 100 * H, ended_at: Some(101 * H) };
        let all = by_computer(&[run(4), run(8)], &month, now);
        assert_eq!(total(all.values()), Used { computer_hours: 2.0, ram_gb_hours: 12.0 });
    }
}
