//! Self-test of shell commands: correctness and duration.

use std::time::Instant;

use super::TestContext;
use super::outcome::{CheckResult, Measurement, median};
use crate::exec::bash;
use hotdesk_wire::desktop::bash::Bash;

/// Number of commands; odd, for the median.
const ROUNDS: usize = 9;
/// Timeout of one command in seconds.
const TIMEOUT_SECONDS: f64 = 3.0;

pub(super) async fn check(context: &TestContext) -> CheckResult {
    let mut took = Vec::with_capacity(ROUNDS);
    let mut wrong = None;
    for _ in 0..ROUNDS {
        let command = "read -r line; echo \"$line $((6 * 7))\"; echo aside >&2; exit 7".to_owned();
        let stdin = Some("answer:\n".to_owned());
        let request = Bash { command, stdin, timeout: Some(TIMEOUT_SECONDS), ..Bash::default() };
        let began = Instant::now();
        let result = bash::run(&context.agent.commands, request).await?;
        took.push(began.elapsed());
        let is_correct =
            (&*result.stdout, &*result.stderr, result.exit_code) == ("answer: 42\n", "aside\n", 7);
        if !is_correct {
            wrong = Some(format!("exit code {} and {:?}", result.exit_code, short(&result.output)));
            break;
        }
    }
    Measurement::new("input, output, errors and exit code are passed on")
        .with("median_ms", median(took))
        .pass_if(wrong.is_none(), || {
            format!("a command returned a wrong result: {}", wrong.unwrap_or_default())
        })
}

/// Returns the first 200 characters of an output.
pub(super) fn short(output: &str) -> String {
    const MAX_CHARS: usize = 200;
    output.chars().take(MAX_CHARS).collect()
}
