//! What does a check find? Figures and a sentence, or what is wrong, or why there is nothing to check.

use std::collections::BTreeMap;
use std::time::Duration;

use hotdesk_domain::error::Error;
use hotdesk_wire::selftest::{Check, CheckOutcome};

/// What a check found.
pub(super) type Found = Result<Measured, Flaw>;

/// A sentence and figures.
#[derive(Debug, Default)]
pub(super) struct Measured {
    detail: String,
    figures: BTreeMap<String, f64>,
}

/// Why a check did not pass.
#[derive(Debug)]
pub(super) enum Flaw {
    /// It does not work.
    Failed(Measured),
    /// There is nothing to check.
    Skipped(String),
}

impl Measured {
    /// Nothing measured yet.
    pub(super) fn new(detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), figures: BTreeMap::new() }
    }

    /// Adds a figure, to three decimals.
    pub(super) fn with(mut self, name: &str, value: impl Into<f64>) -> Self {
        self.figures.insert(name.to_owned(), (value.into() * 1000.0).round() / 1000.0);
        self
    }

    /// Passes when it is so; else it is a failure of these figures, told by `wrong`.
    pub(super) fn only_if(mut self, so: bool, wrong: impl FnOnce() -> String) -> Found {
        if so {
            return Ok(self);
        }
        self.detail = wrong();
        Err(Flaw::Failed(self))
    }
}

/// A refusal of a part of the agent is the failure of its check.
impl From<Error> for Flaw {
    fn from(error: Error) -> Self {
        Self::Failed(Measured::new(error.message))
    }
}

/// A failure without figures.
pub(super) fn failed(detail: impl Into<String>) -> Found {
    Err(Flaw::Failed(Measured::new(detail)))
}

/// Nothing to check.
pub(super) fn skipped(why: impl Into<String>) -> Found {
    Err(Flaw::Skipped(why.into()))
}

/// As the wire has it.
pub(super) fn report(name: &str, found: Found) -> Check {
    let (outcome, Measured { detail, figures }) = match found {
        Ok(measured) => (CheckOutcome::Passed, measured),
        Err(Flaw::Failed(measured)) => (CheckOutcome::Failed, measured),
        Err(Flaw::Skipped(why)) => (CheckOutcome::Skipped, Measured::new(why)),
    };
    Check { name: name.to_owned(), outcome, detail, figures }
}

/// A duration as a figure.
pub(super) fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

/// The middle one, of an odd number.
pub(super) fn median(mut durations: Vec<Duration>) -> f64 {
    durations.sort_unstable();
    durations.get(durations.len() / 2).copied().map_or(0.0, millis)
}

/// Whether a program is in `$PATH`.
pub(super) fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A variable of the session, or of the agent's own environment where it was started by hand in one.
pub(super) fn variable(environment: &[(String, String)], name: &str) -> Option<String> {
    let told = environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    told.or_else(|| std::env::var(name).ok()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_becomes_an_outcome_with_its_figures() {
        let measured = || Measured::new("fine").with("took_ms", 1.234_56);
        let good = report("x", measured().only_if(true, String::new));
        assert_eq!(
            (good.outcome, &*good.detail, good.figures["took_ms"]),
            (CheckOutcome::Passed, "fine", 1.235)
        );
        let bad = report("x", measured().only_if(false, || "lost".to_owned()));
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
