//! `hotdesk computers selftest`: does a computer do what it says, and how fast?

use std::process::ExitCode;
use std::time::Duration;

use super::client::api::QUICK;
use super::client::{Session, resolve};
use super::computers::Which;
use super::failure::Outcome;
use super::output;
use super::progress::Progress;
use hotdesk_domain::limits::MAX_SELFTEST_SECONDS;
use hotdesk_wire::selftest::{Check, CheckOutcome, SelfTest};

/// Has the computer try itself and prints what was found. Ends with 1 when something does not work.
///
/// # Errors
/// When the server refuses or is not reached.
pub async fn run(session: &Session, which: &Which) -> Outcome {
    let id = resolve::computer(&session.api, &which.computer).await?;
    let waiting = Progress::waiting(format!("trying {}", which.computer));
    // The server waits a little longer than the computer, and this a little longer than the server.
    let patience = QUICK + Duration::from_secs_f64(MAX_SELFTEST_SECONDS);
    let answer = session.api.get(&["computers", &id, "selftest"], &[], patience).await?;
    drop(waiting);
    let found: SelfTest = answer.decode()?;
    session.show(&answer, || {
        output::table(&["", "WHAT", "FOUND", "FIGURES"], found.checks.iter().map(row).collect())?;
        output::line(&verdict(&which.computer, &found))
    })?;
    Ok(if found.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row(check: &Check) -> Vec<String> {
    let mark = match check.outcome {
        CheckOutcome::Passed => "ok",
        CheckOutcome::Failed => "FAILED",
        CheckOutcome::Skipped => "skipped",
    };
    let figures: Vec<String> =
        check.figures.iter().map(|(name, value)| format!("{name} {}", rounded(*value))).collect();
    // What comes from inside the computer stays on its line.
    let detail = check.detail.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    vec![mark.to_owned(), check.name.clone(), detail, figures.join(", ")]
}

/// Three decimals of what is small, none of what is large.
fn rounded(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

fn verdict(name: &str, found: &SelfTest) -> String {
    let count = |outcome| found.checks.iter().filter(|check| check.outcome == outcome).count();
    let seconds = found.took_ms / 1000.0;
    match count(CheckOutcome::Failed) {
        0 => {
            let (passed, skipped) = (count(CheckOutcome::Passed), count(CheckOutcome::Skipped));
            format!("{name} works: {passed} checks passed, {skipped} skipped, in {seconds:.1} s.")
        }
        failed => format!("{failed} of {} checks of {name} failed, in {seconds:.1} s.", found.checks.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_a_line_and_the_end_tells_what_came_of_all() {
        let check = |outcome, detail: &str| Check {
            name: "click".to_owned(),
            outcome,
            detail: detail.to_owned(),
            figures: [("median_ms".to_owned(), 0.2514), ("sent".to_owned(), 101.0)].into(),
        };
        let fine = check(CheckOutcome::Passed, "a\nb\u{1b}");
        assert_eq!(row(&fine), ["ok", "click", "a b ", "median_ms 0.251, sent 101"]);
        let bad = check(CheckOutcome::Failed, "");
        let found = |checks| SelfTest { passed: false, took_ms: 1234.0, checks };
        assert_eq!(
            verdict("x", &found(vec![fine.clone()])),
            "x works: 1 checks passed, 0 skipped, in 1.2 s."
        );
        assert_eq!(verdict("x", &found(vec![fine, bad])), "1 of 2 checks of x failed, in 1.2 s.");
        assert_eq!(rounded(4321.5), "4322");
    }
}
