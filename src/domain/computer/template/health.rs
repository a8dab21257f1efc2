//! State of a health check, from the results of its probes.
//!
//! ```text
//! starting -- success --> healthy <-- success -- unhealthy -- each RETRIES failures in a row --> action
//!     |                      |                       ^
//!     +- RETRIES failures ---+-----------------------+--> action
//!        after START_PERIOD
//! ```
//! The time is a parameter, so that the rule needs no clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time after the start of the services in which failures do not count until the first success: a server may load for
/// half a minute on a busy host.
pub const START_PERIOD: Duration = Duration::from_secs(60);
/// Time between two checks without `every`.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);
/// Shortest time between two checks: each one may start a process.
pub const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time of a check without `timeout`.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Failures in a row before the action without `retries`.
pub const DEFAULT_RETRIES: u32 = 3;
/// Least time between an action and the next one: a service that was restarted needs time to come up. It doubles with
/// each action that did not help.
const MIN_ACTION_PAUSE: Duration = Duration::from_secs(30);
/// Longest such time.
const MAX_ACTION_PAUSE: Duration = Duration::from_secs(3600);

/// Known status of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthStatus {
    /// No check has succeeded, and none has failed for long.
    Starting,
    /// The last check succeeded, or too few have failed since.
    Healthy,
    /// Several checks in a row failed.
    Unhealthy,
}

impl HealthStatus {
    /// Returns the name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// Consequence of a result beside the new status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthNews {
    /// Nothing.
    None,
    /// The application works again.
    Recovered,
    /// The application does not work: the action runs.
    ActionDue,
}

/// Results of one health check so far.
#[derive(Clone, Debug)]
pub struct HealthRecord {
    retries: u32,
    status: HealthStatus,
    failures: u32,
    /// Failures since the last action, or since the last success.
    uncounted: u32,
    actions: u32,
    /// When the next action may run, as time since the start of the services.
    next_action: Duration,
}

impl HealthRecord {
    /// Makes the record of a check without results. Zero retries mean that the first failure counts, as one does.
    pub fn new(retries: u32) -> Self {
        Self {
            retries: retries.max(1),
            status: HealthStatus::Starting,
            failures: 0,
            uncounted: 0,
            actions: 0,
            next_action: Duration::ZERO,
        }
    }

    /// The status after the last result.
    pub fn status(&self) -> HealthStatus {
        self.status
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Records a result. `at` is the time since the start of the services.
    pub fn record(&mut self, succeeded: bool, at: Duration) -> HealthNews {
        if succeeded {
            let was = self.status;
            (self.status, self.failures, self.uncounted) = (HealthStatus::Healthy, 0, 0);
            (self.actions, self.next_action) = (0, Duration::ZERO);
            return if was == HealthStatus::Unhealthy { HealthNews::Recovered } else { HealthNews::None };
        }
        self.failures = self.failures.saturating_add(1);
        if self.status == HealthStatus::Starting && at < START_PERIOD {
            return HealthNews::None;
        }
        self.uncounted = self.uncounted.saturating_add(1);
        if self.uncounted < self.retries {
            return HealthNews::None;
        }
        self.status = HealthStatus::Unhealthy;
        if at < self.next_action {
            return HealthNews::None;
        }
        let pause = MIN_ACTION_PAUSE.saturating_mul(1 << self.actions.min(16));
        self.next_action = at + pause.min(MAX_ACTION_PAUSE);
        (self.actions, self.uncounted) = (self.actions.saturating_add(1), 0);
        HealthNews::ActionDue
    }
}

/// Most restarts of a computer by its health checks within [`RESTART_WINDOW`]: an application that does not come up must not
/// restart its computer for ever.
pub const MAX_RESTARTS: usize = 3;
/// Time in which they count.
pub const RESTART_WINDOW: Duration = Duration::from_secs(3600);

/// Restarts that health checks may still ask for.
#[derive(Clone, Debug, Default)]
pub struct RestartBudget {
    times: VecDeque<Instant>,
}

impl RestartBudget {
    /// Takes one restart. Returns false when there were [`MAX_RESTARTS`] within the last [`RESTART_WINDOW`].
    pub fn take(&mut self, now: Instant) -> bool {
        self.times.retain(|time| now.duration_since(*time) < RESTART_WINDOW);
        let is_left = self.times.len() < MAX_RESTARTS;
        if is_left {
            self.times.push_back(now);
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds at which a result was news, for `(second, succeeded)`.
    fn news(retries: u32, results: &[(u64, bool)]) -> Vec<(u64, HealthNews)> {
        let mut record = HealthRecord::new(retries);
        let mut all = Vec::new();
        for (second, succeeded) in results {
            match record.record(*succeeded, Duration::from_secs(*second)) {
                HealthNews::None => {}
                news @ (HealthNews::Recovered | HealthNews::ActionDue) => all.push((*second, news)),
            }
        }
        all
    }

    #[test]
    fn an_action_is_due_after_several_failures_in_a_row() {
        use HealthNews::{ActionDue, Recovered};
        for (retries, results, expected) in [
            (3, vec![(0, true), (1, false), (2, false), (3, false)], vec![(3, ActionDue)]),
            (3, vec![(0, true), (1, false), (2, false), (3, true), (4, false), (5, false)], vec![]),
            (1, vec![(0, true), (1, false), (2, true)], vec![(1, ActionDue), (2, Recovered)]),
            (0, vec![(0, true), (1, false)], vec![(1, ActionDue)]),
            // Until the first success, the start-up takes its time.
            (1, vec![(0, false), (30, false), (59, false)], vec![]),
            (2, vec![(0, false), (59, false), (60, false), (61, false)], vec![(61, ActionDue)]),
            // A success ends the start-up.
            (1, vec![(0, false), (1, true), (2, false)], vec![(2, ActionDue)]),
        ] {
            assert_eq!(news(retries, &results), expected, "{retries} {results:?}");
        }
    }

    #[test]
    fn actions_that_do_not_help_come_less_and_less_often() {
        let mut results = vec![(0, true)];
        results.extend((1..600).map(|second| (second, false)));
        let due: Vec<u64> = news(1, &results).into_iter().map(|(second, _)| second).collect();
        assert_eq!(due, [1, 31, 91, 211, 451]);
        // A success begins anew.
        results.extend([(600, true), (601, false), (631, false)]);
        let due: Vec<_> = news(1, &results).into_iter().skip(5).collect();
        let (recovered, action) = (HealthNews::Recovered, HealthNews::ActionDue);
        assert_eq!(due, [(600, recovered), (601, action), (631, action)]);
    }

    #[test]
    fn restarts_of_a_computer_are_bounded() {
        let (began, mut budget) = (Instant::now(), RestartBudget::default());
        let mut take = |minute: u64| budget.take(began + Duration::from_secs(60 * minute));
        let taken: Vec<bool> = [0, 2, 4, 6, 59, 60, 61, 62, 64, 65].into_iter().map(&mut take).collect();
        assert_eq!(taken, [true, true, true, false, false, true, false, true, true, false]);
    }

    #[test]
    fn the_status_is_that_of_the_last_results() {
        let mut record = HealthRecord::new(2);
        let mut after = |succeeded, second| {
            record.record(succeeded, Duration::from_secs(second));
            (record.status(), record.failures())
        };
        assert_eq!(after(false, 1), (HealthStatus::Starting, 1));
        assert_eq!(after(true, 2), (HealthStatus::Healthy, 0));
        assert_eq!(after(false, 3), (HealthStatus::Healthy, 1));
        assert_eq!(after(false, 4), (HealthStatus::Unhealthy, 2));
        assert_eq!(after(false, 5), (HealthStatus::Unhealthy, 3));
        assert_eq!(after(true, 6), (HealthStatus::Healthy, 0));
    }
}
