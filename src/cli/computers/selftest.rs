//! `hotdesk computers selftest`: function checks of a computer, with measurements.

use std::process::ExitCode;
use std::time::Duration;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::computers::ComputerArg;
use crate::failure::Outcome;
use crate::output;
use crate::progress::Progress;
use hotdesk_domain::limits::MAX_SELFTEST_SECONDS;
use hotdesk_wire::agent::selftest::{Check, CheckOutcome, SelfTest};

/// Runs the self-test and prints its results; the exit code is 1 when a check fails.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(session: &Session, target: &ComputerArg) -> Outcome {
    let id = resolve::computer(&session.api, &target.computer).await?;
    let progress = Progress::operation("selftest", format!("testing {}", target.computer));
    // Longer than the server's own timeout, so that the server reports a slow computer.
    let timeout = REQUEST_TIMEOUT + Duration::from_secs_f64(MAX_SELFTEST_SECONDS);
    let response = session.api.get(&["computers", &id, "selftest"], &[], timeout).await?;
    progress.complete();
    let report: SelfTest = response.decode()?;
    session.show(&response, || {
        output::table(&["", "CHECK", "RESULT", "FIGURES"], report.checks.iter().map(row).collect())?;
        output::line(&verdict(&target.computer, &report))
    })?;
    Ok(if report.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row(check: &Check) -> Vec<String> {
    let mark = match check.outcome {
        CheckOutcome::Passed => "ok",
        CheckOutcome::Failed => "FAILED",
        CheckOutcome::Skipped => "skipped",
    };
    let figures: Vec<String> =
        check.figures.iter().map(|(name, value)| format!("{name} {}", rounded(*value))).collect();
    // The text comes from inside the computer: control characters could break the table or the terminal.
    let detail = check.detail.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    vec![mark.to_owned(), check.name.clone(), detail, figures.join(", ")]
}

/// Three decimals for small fractions; none for whole numbers and from 100 on.
fn rounded(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

fn verdict(name: &str, report: &SelfTest) -> String {
    let count = |outcome| report.checks.iter().filter(|check| check.outcome == outcome).count();
    let seconds = report.took_ms / 1000.0;
    match count(CheckOutcome::Failed) {
        0 => {
            let (passed, skipped) = (count(CheckOutcome::Passed), count(CheckOutcome::Skipped));
            format!("{name} works: {passed} checks passed, {skipped} skipped, in {seconds:.1} s.")
        }
        failed => format!("{failed} of {} checks of {name} failed, in {seconds:.1} s.", report.checks.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_is_one_line_and_the_verdict_counts_them() {
        let check = |outcome, detail: &str| Check {
            name: "click".to_owned(),
            outcome,
            detail: detail.to_owned(),
            figures: [("median_ms".to_owned(), 0.2514), ("sent".to_owned(), 101.0)].into(),
        };
        let fine = check(CheckOutcome::Passed, "a\nb\u{1b}");
        assert_eq!(row(&fine), ["ok", "click", "a b ", "median_ms 0.251, sent 101"]);
        let bad = check(CheckOutcome::Failed, "");
        let report = |checks| SelfTest { passed: false, took_ms: 1234.0, checks };
        assert_eq!(
            verdict("x", &report(vec![fine.clone()])),
            "x works: 1 checks passed, 0 skipped, in 1.2 s."
        );
        assert_eq!(verdict("x", &report(vec![fine, bad])), "1 of 2 checks of x failed, in 1.2 s.");
        assert_eq!(rounded(4321.5), "4322");
    }
}
