//! `POST /exec`: Python code in its own process or in a session (docs/api/actions.md).

use std::time::Duration;

use super::command::CommandEnd;
use super::session::{Call, Sessions};
use super::{Commands, Program, timeout};
use crate::exec::exec_context::ExecContext;
use crate::exec::output::CapturedOutput;
use crate::exec::shim::shim_protocol::ProcessExit;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::limits::MAX_COMMAND_SECONDS;
use hotdesk_wire::programs::exec::{Exec, ExecResult};

/// Default timeout in seconds.
const DEFAULT_SECONDS: f64 = 10.0;
/// Allowed timeouts in seconds.
const SECONDS: std::ops::RangeInclusive<f64> = 1.0..=MAX_COMMAND_SECONDS;
/// Script that runs the code and reports an uncaught exception.
const RUNNER: &str = include_str!("runner.py");

/// Report of the script when the code failed.
#[derive(Debug, Default, PartialEq, Eq)]
struct PythonFailure {
    error: Option<String>,
    error_type: Option<String>,
}

/// Runs Python code as `__main__`. An exception of the code is a result, not an error; the traceback is in
/// the output.
///
/// # Errors
/// `Invalid` for a timeout out of range; those of [`Commands::run`] and [`Sessions::run`].
pub async fn run(commands: &Commands, sessions: &Sessions, request: Exec) -> Result<ExecResult> {
    let allowed = |seconds: f64| SECONDS.contains(&seconds);
    let timeout = timeout(request.timeout, DEFAULT_SECONDS, allowed, "1 to 300 seconds")?;
    let context = ExecContext { cwd: request.cwd, env: request.env, screen: request.screen };
    if let Some(name) = request.session {
        let call = Call { code: request.code, stdin: request.stdin, timeout };
        let ran = sessions.run(&name, context, call).await?;
        let ended = ran.end.is_some();
        // A failure that the session reports has not ended the session.
        let end = ran.end.unwrap_or(CommandEnd::Exited(ProcessExit::Status(0)));
        return Ok(ExecResult {
            session: Some(name),
            session_started: Some(ran.started),
            session_ended: Some(ended),
            ..answer(ran.output, &end, &ran.result, timeout, ended)?
        });
    }
    let args = ["-u", "-c", RUNNER, "{text}", "{result}"].map(str::to_owned).to_vec();
    let program = Program { name: String::from("python3"), args, text: Some(request.code) };
    let finished = commands.run(program, &context, request.stdin, timeout).await?;
    answer(finished.output, &finished.end, &finished.result, timeout, false)
}

/// Builds the result. `over`: the code ran in a session that ended with it; a session does not end when code
/// runs to its end.
fn answer(
    output: CapturedOutput,
    end: &CommandEnd,
    result: &str,
    timeout: Duration,
    over: bool,
) -> Result<ExecResult> {
    let report = failure(result);
    let (error, kind) = match end {
        CommandEnd::Exited(ProcessExit::Status(0)) if report.error_type.is_none() && !over => (None, None),
        CommandEnd::Exited(ProcessExit::Status(_)) if report.error_type.is_some() => {
            (report.error, report.error_type)
        }
        CommandEnd::Exited(ProcessExit::Status(status)) => {
            (Some(format!("python3 ended with status {status}")), Some(String::from("SystemExit")))
        }
        CommandEnd::Exited(ProcessExit::Signal(signal)) => {
            (Some(format!("python3 was ended by signal {signal}")), Some(String::from("Killed")))
        }
        CommandEnd::Lost | CommandEnd::Abandoned => {
            (Some(String::from("the code killed its own supervisor")), Some(String::from("Killed")))
        }
        CommandEnd::TimedOut => (
            Some(format!("the code was killed after {} seconds", timeout.as_secs_f64())),
            Some(String::from("TimeoutError")),
        ),
        CommandEnd::NotStarted(why) => {
            return Err(Error::unavailable(format!("python3 could not be started: {why}")));
        }
    };
    let CapturedOutput { both, out, err } = output;
    Ok(ExecResult {
        success: error.is_none() && kind.is_none(),
        action: "exec".to_owned(),
        output: both.text,
        stdout: out.text,
        stderr: err.text,
        timeout: *end == CommandEnd::TimedOut,
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

/// The report is unreadable when the code wrote to the script's descriptor or killed the process.
fn failure(result: &str) -> PythonFailure {
    match result.split_once('\0') {
        Some((kind, error)) => {
            PythonFailure { error: Some(error.to_owned()), error_type: Some(kind.to_owned()) }
        }
        None => PythonFailure::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_a_type_and_a_message() {
        let read = |text| {
            let PythonFailure { error, error_type } = failure(text);
            (error_type, error)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read("ValueError\0bad"), (some("ValueError"), some("bad")));
        assert_eq!(read("E\0a\0b"), (some("E"), some("a\0b")));
        for nothing in ["", "written by the code"] {
            assert_eq!(failure(nothing), PythonFailure::default());
        }
    }
}
