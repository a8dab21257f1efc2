//! Self-test of Python code: correctness and duration.

use std::time::Instant;

use super::TestContext;
use super::bash::short;
use super::outcome::{CheckResult, Measurement, failed, median};
use crate::exec::python;
use hotdesk_wire::programs::exec::Exec;

/// Number of runs; odd, for the median.
const ROUNDS: usize = 3;
/// Timeout of one run in seconds.
const TIMEOUT_SECONDS: f64 = 4.0;

pub(super) async fn check(context: &TestContext) -> CheckResult {
    let mut took = Vec::with_capacity(ROUNDS);
    let agent = &context.agent;
    for _ in 0..ROUNDS {
        let code = "print('answer:', 6 * 7)".to_owned();
        let request = Exec { code, timeout: Some(TIMEOUT_SECONDS), ..Exec::default() };
        let began = Instant::now();
        let result = python::run(&agent.commands, &agent.sessions, request).await?;
        took.push(began.elapsed());
        if !result.success || result.stdout != "answer: 42\n" {
            let why = result.error.unwrap_or(result.output);
            return failed(format!("the code returned a wrong result: {:?}", short(&why)));
        }
    }
    Ok(Measurement::new("code runs and its output is returned").with("median_ms", median(took)))
}
