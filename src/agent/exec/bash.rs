//! What does `POST /bash` do? (wire.md 6; interface.md "Bash execution")

use super::command::End;
use super::output::Captured;
use super::surroundings::Surroundings;
use super::{Commands, Program, timeout};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::limits::MAX_COMMAND_SECONDS;
use hotdesk_wire::exec::{Bash, BashResult};

/// The shell.
pub(super) const SHELL: &str = "/bin/bash";
/// Seconds when the request names none.
const DEFAULT_SECONDS: f64 = 200.0;
/// Exit code at the time-out, as `timeout(1)` has it.
const TIMED_OUT: i32 = 124;
/// 128 and SIGKILL: what a shell says of a command that was killed.
const KILLED: i32 = 137;
/// Longest single argument that Linux passes to a program (`MAX_ARG_STRLEN` with its NUL); a longer script goes
/// through a descriptor.
const MAX_ARGUMENT: usize = 128 * 1024 - 1;

/// Runs a command with `bash -c`. The answer does not wait for background processes, which live on.
///
/// # Errors
/// `Invalid` for a time-out out of range or a command that holds NUL; else as [`Commands::run`].
pub async fn run(commands: &Commands, request: Bash) -> Result<BashResult> {
    let allowed = |seconds: f64| seconds > 0.0 && seconds <= MAX_COMMAND_SECONDS;
    let timeout = timeout(request.timeout, DEFAULT_SECONDS, allowed, "above 0 and at most 300 seconds")?;
    let surroundings = Surroundings { cwd: request.cwd, env: request.env, screen: request.screen };
    let finished = commands.run(program(&request.command)?, &surroundings, request.stdin, timeout).await?;
    let exit_code = match &finished.end {
        End::Itself(how) => how.exit_code(),
        End::TimedOut => TIMED_OUT,
        End::Lost | End::Abandoned => KILLED,
        End::NotStarted(why) => {
            return Err(Error::unavailable(format!("bash could not be started: {why}")));
        }
    };
    let timed_out = finished.end == End::TimedOut;
    let Captured { both, out, err } = finished.output;
    Ok(BashResult {
        success: !timed_out,
        action: "bash".to_owned(),
        command: request.command,
        output: both.text,
        stdout: out.text,
        stderr: err.text,
        exit_code,
        timeout: timed_out,
        omitted_bytes: both.omitted_bytes,
        stdout_omitted_bytes: out.omitted_bytes,
        stderr_omitted_bytes: err.omitted_bytes,
    })
}

/// Bash with a command, however long.
///
/// # Errors
/// `Invalid` for a command that holds NUL.
pub(super) fn program(command: &str) -> Result<Program> {
    if command.contains('\0') {
        return Err(Error::invalid("command holds a NUL character").code("INVALID_REQUEST"));
    }
    let (script, text) = if command.len() > MAX_ARGUMENT {
        (String::from(". /proc/self/fd/{text}"), Some(command.to_owned()))
    } else {
        (command.to_owned(), None)
    };
    Ok(Program { name: SHELL.to_owned(), args: vec![String::from("-c"), script], text })
}
