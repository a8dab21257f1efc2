//! Does Python code run, and what does a run cost?

use std::time::Instant;

use super::Stage;
use super::bash::short;
use super::finding::{Found, Measured, failed, median};
use crate::exec::python;
use hotdesk_wire::exec::Exec;

/// How many runs; odd, for the median.
const ROUNDS: usize = 3;
/// Seconds that one may take.
const SECONDS: f64 = 4.0;

pub(super) async fn check(stage: &Stage) -> Found {
    let mut took = Vec::with_capacity(ROUNDS);
    let agent = &stage.agent;
    for _ in 0..ROUNDS {
        let code = "print('answer:', 6 * 7)".to_owned();
        let request = Exec { code, timeout: Some(SECONDS), ..Exec::default() };
        let began = Instant::now();
        let result = python::run(&agent.commands, &agent.sessions, request).await?;
        took.push(began.elapsed());
        if !result.success || result.stdout != "answer: 42\n" {
            let why = result.error.unwrap_or(result.output);
            return failed(format!("code answered wrongly: {:?}", short(&why)));
        }
    }
    Ok(Measured::new("code runs and its output comes back").with("median_ms", median(took)))
}
