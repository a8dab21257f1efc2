//! Idle timeout of a computer: when it is suspended because nobody uses it (docs/lifecycle.md).
//!
//! All times come from the monotonic clock, so that a jump of the wall clock suspends nothing (T21,
//! docs/security.md).

use std::time::{Duration, Instant};

/// Activity of a computer as its agent reported it.
#[derive(Clone, Copy, Debug)]
pub struct AgentActivity {
    /// Time of the report.
    pub at: Instant,
    /// Time since the last input, at `at`.
    pub idle: Duration,
    /// Whether work is in progress, so that the computer must not be suspended. Also true when the agent
    /// cannot tell.
    pub busy: bool,
    /// Time of the last report with work in progress: the end of work counts as use.
    pub last_busy: Option<Instant>,
}

/// Decision on an idle computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleDecision {
    /// The computer is always on.
    Never,
    /// Work is in progress.
    Busy,
    /// The timeout expires after this time if nothing happens; it has expired when this is zero.
    In(Duration),
}

/// Decides for a computer with the idle timeout `timeout` (`None`: always on). `last_action` is the time of
/// its start or of the last action over the API. `report` is the newest report of its agent, if there is one.
pub fn decide(
    timeout: Option<Duration>,
    last_action: Instant,
    report: Option<&AgentActivity>,
    now: Instant,
) -> IdleDecision {
    let Some(timeout) = timeout else { return IdleDecision::Never };
    if report.is_some_and(|report| report.busy) {
        return IdleDecision::Busy;
    }
    let input = report.and_then(|report| report.at.checked_sub(report.idle));
    let work = report.and_then(|report| report.last_busy);
    let used = [input, work].into_iter().flatten().fold(last_action, Instant::max);
    IdleDecision::In(timeout.saturating_sub(now.saturating_duration_since(used)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_counts_from_the_last_use() {
        let began = Instant::now();
        let at = |minute: u64| began + Duration::from_secs(60 * minute);
        let minutes = |count: u64| Duration::from_secs(60 * count);
        let report = |minute, idle, busy, last_busy: Option<u64>| {
            Some(AgentActivity { at: at(minute), idle: minutes(idle), busy, last_busy: last_busy.map(at) })
        };
        let now = 100;
        let left = |count| IdleDecision::In(minutes(count));
        let table = [
            // timeout, last action, report, expected
            ("always on", None, 0, report(100, 100, false, None), IdleDecision::Never),
            ("always on and at work", None, 0, report(100, 100, true, Some(100)), IdleDecision::Never),
            ("never used", Some(10), 0, report(100, 100, false, None), left(0)),
            ("just due", Some(10), 90, report(100, 10, false, None), left(0)),
            ("used over the API", Some(10), 97, report(100, 50, false, None), left(7)),
            ("used by hand", Some(10), 0, report(100, 4, false, None), left(6)),
            ("an old report", Some(10), 0, report(99, 4, false, None), left(5)),
            ("at work", Some(10), 0, report(100, 50, true, Some(100)), IdleDecision::Busy),
            ("work has ended", Some(10), 0, report(100, 50, false, Some(98)), left(8)),
            ("no report yet", Some(10), 95, None, left(5)),
            (
                "idle for longer than the clock counts",
                Some(10),
                95,
                report(100, 1 << 50, false, None),
                left(5),
            ),
            ("an action right after the report", Some(10), 101, report(100, 50, false, None), left(10)),
        ];
        for (what, timeout, last_action, report, expected) in table {
            let decided = decide(timeout.map(minutes), at(last_action), report.as_ref(), at(now));
            assert_eq!(decided, expected, "{what}");
        }
    }
}
