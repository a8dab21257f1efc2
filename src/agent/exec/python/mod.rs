//! What does `POST /exec` do? (wire.md 6) Python code in a process of its own, or in a session that keeps its state.

use std::time::Duration;

use serde::Deserialize;

use super::command::End;
use super::output::Captured;
use super::session::{Call, Sessions};
use super::surroundings::Surroundings;
use super::talk::How;
use super::{Commands, Program, timeout};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::limits::MAX_COMMAND_SECONDS;
use hotdesk_wire::exec::{Exec, ExecResult};

/// Seconds when the request names none.
const DEFAULT_SECONDS: f64 = 10.0;
/// The fewest and the most seconds that a request may ask for.
const SECONDS: std::ops::RangeInclusive<f64> = 1.0..=MAX_COMMAND_SECONDS;
/// The script that runs the code and reports an uncaught exception.
const RUNNER: &str = include_str!("runner.py");

/// What the runner writes when the code failed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Failure {
    error: Option<String>,
    error_type: Option<String>,
}

/// Runs Python code as `__main__`. A failure of the code is an answer, not an error; the traceback is in the output.
///
/// # Errors
/// `Invalid` for a time-out out of range; else as [`Commands::run`] and [`Sessions::run`].
pub async fn run(commands: &Commands, sessions: &Sessions, request: Exec) -> Result<ExecResult> {
    let allowed = |seconds: f64| SECONDS.contains(&seconds);
    let timeout = timeout(request.timeout, DEFAULT_SECONDS, allowed, "1 to 300 seconds")?;
    let surroundings = Surroundings { cwd: request.cwd, env: request.env, screen: request.screen };
    if let Some(name) = request.session {
        let call = Call { code: request.code, stdin: request.stdin, timeout };
        let ran = sessions.run(&name, surroundings, call).await?;
        let ended = ran.end.is_some();
        // Told by the session itself, code that failed has not ended anything.
        let end = ran.end.unwrap_or(End::Itself(How::Status(0)));
        return Ok(ExecResult {
            session: Some(name),
            session_started: Some(ran.started),
            session_ended: Some(ended),
            ..answer(ran.output, &end, &ran.result, timeout, ended)?
        });
    }
    let args = ["-u", "-c", RUNNER, "{text}", "{result}"].map(str::to_owned).to_vec();
    let program = Program { name: String::from("python3"), args, text: Some(request.code) };
    let finished = commands.run(program, &surroundings, request.stdin, timeout).await?;
    answer(finished.output, &finished.end, &finished.result, timeout, false)
}

/// What came of the code. `over`: it was in a session that ended with it, which it does not do by running to its end.
fn answer(output: Captured, end: &End, result: &str, timeout: Duration, over: bool) -> Result<ExecResult> {
    let told = failure(result);
    let (error, kind) = match end {
        End::Itself(How::Status(0)) if told.error_type.is_none() && !over => (None, None),
        End::Itself(How::Status(_)) if told.error_type.is_some() => (told.error, told.error_type),
        End::Itself(How::Status(status)) => {
            (Some(format!("python3 ended with status {status}")), Some(String::from("SystemExit")))
        }
        End::Itself(How::Signal(signal)) => {
            (Some(format!("python3 was ended by signal {signal}")), Some(String::from("Killed")))
        }
        End::Lost | End::Abandoned => {
            (Some(String::from("the code killed its own supervisor")), Some(String::from("Killed")))
        }
        End::TimedOut => (
            Some(format!("the code was killed after {} seconds", timeout.as_secs_f64())),
            Some(String::from("TimeoutError")),
        ),
        End::NotStarted(why) => {
            return Err(Error::unavailable(format!("python3 could not be started: {why}")));
        }
    };
    let Captured { both, out, err } = output;
    Ok(ExecResult {
        success: error.is_none() && kind.is_none(),
        action: "exec".to_owned(),
        output: both.text,
        stdout: out.text,
        stderr: err.text,
        timeout: *end == End::TimedOut,
        error,
        error_type: kind,
        omitted_bytes: both.omitted_bytes,
        stdout_omitted_bytes: out.omitted_bytes,
        stderr_omitted_bytes: err.omitted_bytes,
        session: None,
        session_started: None,
        session_ended: None,
    })
}

/// Code that wrote to the runner's descriptor, or ended the process under it, leaves no readable result.
fn failure(result: &str) -> Failure {
    serde_json::from_str(result).unwrap_or_default()
}
