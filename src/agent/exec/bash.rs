//! `POST /bash`: one shell command (docs/api/actions.md).

use super::command::CommandEnd;
use super::{Commands, Program, timeout};
use crate::exec::exec_context::ExecContext;
use crate::exec::output::CapturedOutput;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::limits::MAX_COMMAND_SECONDS;
use hotdesk_wire::desktop::bash::Bash;
use hotdesk_wire::programs::exec::BashResult;

/// Path of the shell.
pub(super) const SHELL: &str = "/bin/bash";
/// Default timeout in seconds.
const DEFAULT_SECONDS: f64 = 200.0;
/// Exit code after a timeout, as of `timeout(1)`.
const TIMED_OUT: i32 = 124;
/// 128 plus SIGKILL: a shell's exit code for a killed command.
const KILLED: i32 = 137;
/// Longest single argument that Linux passes to a program (`MAX_ARG_STRLEN` without its NUL), in bytes. A
/// longer script passes through a descriptor.
const MAX_ARGUMENT: usize = 128 * 1024 - 1;

/// Runs a command with `bash -c`. Does not wait for background processes, which continue to run.
///
/// # Errors
/// `Invalid` for a timeout out of range or a NUL character in the command; those of [`Commands::run`].
pub async fn run(commands: &Commands, request: Bash) -> Result<BashResult> {
    let allowed = |seconds: f64| seconds > 0.0 && seconds <= MAX_COMMAND_SECONDS;
    let timeout = timeout(request.timeout, DEFAULT_SECONDS, allowed, "above 0 and at most 300 seconds")?;
    let context = ExecContext { cwd: request.cwd, env: request.env, screen: request.screen };
    let finished = commands.run(program(&request.command)?, &context, request.stdin, timeout).await?;
    let exit_code = match &finished.end {
        CommandEnd::Exited(how) => how.exit_code(),
        CommandEnd::TimedOut => TIMED_OUT,
        CommandEnd::Lost | CommandEnd::Abandoned => KILLED,
        CommandEnd::NotStarted(why) => {
            return Err(Error::unavailable(format!("bash could not be started: {why}")));
        }
    };
    let timed_out = finished.end == CommandEnd::TimedOut;
    let CapturedOutput { both, out, err } = finished.output;
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

/// Returns the program that runs `command`, of any length, in bash.
///
/// # Errors
/// `Invalid` for a NUL character in the command.
pub(super) fn program(command: &str) -> Result<Program> {
    if command.contains('\0') {
        return Err(Error::invalid("command contains a NUL character").code(ErrorCode::InvalidRequest));
    }
    let (script, text) = if command.len() > MAX_ARGUMENT {
        (String::from(". /proc/self/fd/{text}"), Some(command.to_owned()))
    } else {
        (command.to_owned(), None)
    };
    Ok(Program { name: SHELL.to_owned(), args: vec![String::from("-c"), script], text })
}
