//! `hotdesk bash`: shell commands on a computer, like `ssh COMPUTER COMMAND`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::Method;

use super::process;
use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::failure::{Failure, Outcome};
use crate::{output, read_text};
use hotdesk_domain::limits::{MAX_COMMAND_SECONDS, bounded_seconds};
use hotdesk_wire::desktop::bash::Bash;
use hotdesk_wire::programs::exec::BashResult;
use hotdesk_wire::programs::process::StartProcess;

/// `hotdesk bash`.
#[derive(Debug, Args)]
pub struct Options {
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// Seconds until the command is killed, with exit code 124. Without it the command may take any time; with --json
    /// 200 seconds, and at most 300.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// Do not read standard input.
    #[arg(short = 'n', long)]
    no_stdin: bool,
    /// Command; its arguments are joined by spaces, like with ssh. `-` reads it from standard input.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Runs the command with the standard streams of this program and returns its exit code. With `--json` it waits for the
/// end and prints the response of `POST bash`.
///
/// # Errors
/// When a standard stream fails, the server refuses the request or is unreachable.
pub async fn run(options: Options, session: &Session) -> Outcome {
    let no_stdin = options.no_stdin || options.command == ["-"];
    let command = read_text(options.command.join(" "))?;
    let id = resolve::computer(&session.api, &options.computer).await?;
    if session.json {
        return run_to_end(session, &id, command, options.timeout).await;
    }
    let timeout = options.timeout.map(|seconds| match Duration::try_from_secs_f64(seconds) {
        Ok(timeout) if !timeout.is_zero() => Ok(timeout),
        Ok(_) | Err(_) => {
            Err(Failure::Usage(format!("--timeout {seconds} is not a time: use seconds above 0")))
        }
    });
    let stdin = (!no_stdin).then(|| "pipe".to_owned());
    let request = StartProcess { command: Some(command), stdin, ..StartProcess::default() };
    process::run(session, &id, request, timeout.transpose()?).await
}

async fn run_to_end(session: &Session, id: &str, command: String, timeout: Option<f64>) -> Outcome {
    // The server refuses a timeout out of range.
    let wait = bounded_seconds(timeout.unwrap_or(MAX_COMMAND_SECONDS), MAX_COMMAND_SECONDS);
    let body = Bash { command, timeout, ..Bash::default() };
    let path = ["computers", id, "bash"];
    let response = session.api.call(Method::POST, &path, Some(&body), REQUEST_TIMEOUT + wait).await?;
    let result: BashResult = response.decode()?;
    session.show(&response, || output::bytes(result.output.as_bytes()))?;
    // A code outside of 0..=255 still is a failure.
    Ok(u8::try_from(result.exit_code).map_or(ExitCode::FAILURE, ExitCode::from))
}
