//! Do shell commands run, and what does one cost?

use std::time::Instant;

use super::Stage;
use super::finding::{Found, Measured, median};
use crate::exec::bash;
use hotdesk_wire::exec::Bash;

/// How many commands; odd, for the median.
const ROUNDS: usize = 9;
/// Seconds that one may take.
const SECONDS: f64 = 3.0;

pub(super) async fn check(stage: &Stage) -> Found {
    let mut took = Vec::with_capacity(ROUNDS);
    let mut said = None;
    for _ in 0..ROUNDS {
        let command = "read -r line; echo \"$line $((6 * 7))\"; echo aside >&2; exit 7".to_owned();
        let stdin = Some("answer:\n".to_owned());
        let request = Bash { command, stdin, timeout: Some(SECONDS), ..Bash::default() };
        let began = Instant::now();
        let result = bash::run(&stage.agent.commands, request).await?;
        took.push(began.elapsed());
        let whole = (&*result.stdout, &*result.stderr, result.exit_code) == ("answer: 42\n", "aside\n", 7);
        if !whole {
            said = Some(format!("exit code {} and {:?}", result.exit_code, short(&result.output)));
            break;
        }
    }
    Measured::new("input, output, errors and exit code are passed on")
        .with("median_ms", median(took))
        .only_if(said.is_none(), || format!("a command answered wrongly: {}", said.unwrap_or_default()))
}

/// The first words of an output.
pub(super) fn short(output: &str) -> String {
    const MOST: usize = 200;
    output.chars().take(MOST).collect()
}
