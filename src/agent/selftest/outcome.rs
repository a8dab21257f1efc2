//! Result of a check: figures with a sentence, a failure, or a reason to skip it.

use std::collections::BTreeMap;
use std::time::Duration;

use hotdesk_domain::error::Error;
use hotdesk_wire::agent::selftest::{Check, CheckOutcome};

/// Result of a check.
pub(super) type CheckResult = Result<Measurement, NotPassed>;

/// Sentence and figures.
#[derive(Debug, Default)]
pub(super) struct Measurement {
    detail: String,
    figures: BTreeMap<String, f64>,
}

/// Reason for which a check did not pass.
#[derive(Debug)]
pub(super) enum NotPassed {
    /// The check failed.
    Failed(Measurement),
    /// The computer does not have the checked part; the text says why.
    Skipped(String),
}

impl Measurement {
    /// Returns a sentence without figures.
    pub(super) fn new(detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), figures: BTreeMap::new() }
    }

    /// Adds a figure, rounded to three decimals. The suffix of the name is its unit.
    pub(super) fn with(mut self, name: &str, value: impl Into<f64>) -> Self {
        self.figures.insert(name.to_owned(), (value.into() * 1000.0).round() / 1000.0);
        self
    }

    /// Returns itself when `condition` holds.
    ///
    /// # Errors
    /// `Failed` with these figures and the sentence of `describe_failure` otherwise.
    pub(super) fn pass_if(
        mut self,
        condition: bool,
        describe_failure: impl FnOnce() -> String,
    ) -> CheckResult {
        if condition {
            return Ok(self);
        }
        self.detail = describe_failure();
        Err(NotPassed::Failed(self))
    }
}

/// An error of the checked part is a failure of the check. Only the public message is shown.
impl From<Error> for NotPassed {
    fn from(error: Error) -> Self {
        Self::Failed(Measurement::new(error.message))
    }
}

/// Returns a failure without figures.
pub(super) fn failed(detail: impl Into<String>) -> CheckResult {
    Err(NotPassed::Failed(Measurement::new(detail)))
}

/// Returns a skip with its reason.
pub(super) fn skipped(why: impl Into<String>) -> CheckResult {
    Err(NotPassed::Skipped(why.into()))
}

/// Converts a result to its wire form.
pub(super) fn report(name: &str, result: CheckResult) -> Check {
    let (outcome, Measurement { detail, figures }) = match result {
        Ok(measurement) => (CheckOutcome::Passed, measurement),
        Err(NotPassed::Failed(measurement)) => (CheckOutcome::Failed, measurement),
        Err(NotPassed::Skipped(why)) => (CheckOutcome::Skipped, Measurement::new(why)),
    };
    Check { name: name.to_owned(), outcome, detail, figures }
}

/// Returns a duration in milliseconds, rounded to three decimals.
pub(super) fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

/// Returns the median of an odd number of durations in milliseconds; 0 when there is none.
pub(super) fn median(mut durations: Vec<Duration>) -> f64 {
    durations.sort_unstable();
    durations.get(durations.len() / 2).copied().map_or(0.0, millis)
}

/// Whether a program is in a folder of `$PATH`.
pub(super) fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Reads a variable of the session, or of the agent's own environment when it was started by hand.
pub(super) fn variable(environment: &[(String, String)], name: &str) -> Option<String> {
    let value = environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    value.or_else(|| std::env::var(name).ok()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_become_outcomes_with_figures() {
        let measurement = || Measurement::new("fine").with("took_ms", 1.234_56);
        let good = report("x", measurement().pass_if(true, String::new));
        assert_eq!(
            (good.outcome, &*good.detail, good.figures["took_ms"]),
            (CheckOutcome::Passed, "fine", 1.235)
        );
        let bad = report("x", measurement().pass_if(false, || "lost".to_owned()));
        assert_eq!(
            (bad.outcome, &*bad.detail, bad.figures["took_ms"]),
            (CheckOutcome::Failed, "lost", 1.235)
        );
        let none = report("x", skipped("no sound"));
        assert_eq!((none.outcome, &*none.detail), (CheckOutcome::Skipped, "no sound"));
        let refused = report("x", Err(Error::unavailable("busy").context("secret").into()));
        assert_eq!((refused.outcome, &*refused.detail), (CheckOutcome::Failed, "busy"));
        assert_eq!(median([3, 1, 2].map(Duration::from_millis).to_vec()), 2.0);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
