//! When does a computer that nobody uses go to rest? (interface.md "States": idle for `auto_stop_minutes` minutes)
//!
//! All times are of the monotonic clock: a wall clock that jumps puts nothing to rest (threats.md T21).

use std::time::{Duration, Instant};

/// What a computer's agent told of its use.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// When it was asked.
    pub at: Instant,
    /// How long there had been no input then.
    pub idle: Duration,
    /// Whether something is at work, so that it must not rest; also when it cannot tell.
    pub held: bool,
    /// When something was last seen at work: the end of work is use as well.
    pub worked: Option<Instant>,
}

/// What becomes of a computer if nothing more happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It is always on.
    Never,
    /// Something is at work.
    Held,
    /// It is due after this time; at once when it is zero.
    In(Duration),
}

/// Decides for a computer that may be idle for `patience` (none: always on), was last acted on over the API, or started,
/// at `acted`, and whose agent told `seen` (none: not asked yet).
pub fn decide(patience: Option<Duration>, acted: Instant, seen: Option<&Seen>, now: Instant) -> Rest {
    let Some(patience) = patience else { return Rest::Never };
    if seen.is_some_and(|seen| seen.held) {
        return Rest::Held;
    }
    let input = seen.and_then(|seen| seen.at.checked_sub(seen.idle));
    let used = [input, seen.and_then(|seen| seen.worked)].into_iter().flatten().fold(acted, Instant::max);
    Rest::In(patience.saturating_sub(now.saturating_duration_since(used)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computer_rests_when_its_last_use_is_long_enough_ago() {
        let began = Instant::now();
        let at = |minute: u64| began + Duration::from_secs(60 * minute);
        let minutes = |count: u64| Duration::from_secs(60 * count);
        let seen = |minute, idle, held, worked: Option<u64>| {
            Some(Seen { at: at(minute), idle: minutes(idle), held, worked: worked.map(at) })
        };
        let now = 100;
        let left = |count| Rest::In(minutes(count));
        let table = [
            // patience, acted at, seen, expected
            ("always on", None, 0, seen(100, 100, false, None), Rest::Never),
            ("always on and at work", None, 0, seen(100, 100, true, Some(100)), Rest::Never),
            ("never used", Some(10), 0, seen(100, 100, false, None), left(0)),
            ("just due", Some(10), 90, seen(100, 10, false, None), left(0)),
            ("used over the API", Some(10), 97, seen(100, 50, false, None), left(7)),
            ("used by hand", Some(10), 0, seen(100, 4, false, None), left(6)),
            ("told a while ago", Some(10), 0, seen(99, 4, false, None), left(5)),
            ("at work", Some(10), 0, seen(100, 50, true, Some(100)), Rest::Held),
            ("work has ended", Some(10), 0, seen(100, 50, false, Some(98)), left(8)),
            ("not asked yet", Some(10), 95, None, left(5)),
            ("the agent knows of a time before all", Some(10), 95, seen(100, 1 << 50, false, None), left(5)),
            ("acted on in the moment after the look", Some(10), 101, seen(100, 50, false, None), left(10)),
        ];
        for (what, patience, acted, seen, expected) in table {
            let decided = decide(patience.map(minutes), at(acted), seen.as_ref(), at(now));
            assert_eq!(decided, expected, "{what}");
        }
    }
}
