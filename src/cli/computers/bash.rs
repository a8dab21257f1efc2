//! `hotdesk bash`: shell commands on a computer.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::Method;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::failure::Outcome;
use crate::{output, read_text};
use hotdesk_wire::programs::exec::{Bash, BashResult};

/// Longest command timeout of the service, in seconds (docs/api/limits.md). The client waits this long when no timeout
/// is given.
const MAX_SECONDS: f64 = hotdesk_domain::limits::MAX_COMMAND_SECONDS;

/// `hotdesk bash`.
#[derive(Debug, Args)]
pub struct Options {
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// Seconds until the command is killed: at most 300 (server default: 200).
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// Command; its arguments are joined by spaces, like with ssh. `-` reads it from standard input.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Runs the command and returns its exit code.
///
/// # Errors
/// When standard input cannot be read, the server refuses the request or is unreachable.
pub async fn run(options: Options, session: &Session) -> Outcome {
    let command = read_text(options.command.join(" "))?;
    let id = resolve::computer(&session.api, &options.computer).await?;
    // The server refuses a timeout out of range.
    let seconds =
        options.timeout.filter(|seconds| (0.0..=MAX_SECONDS).contains(seconds)).unwrap_or(MAX_SECONDS);
    let timeout = REQUEST_TIMEOUT + Duration::from_secs_f64(seconds);
    let body = Bash { command, timeout: options.timeout, ..Bash::default() };
    let response = session.api.call(Method::POST, &["computers", &id, "bash"], Some(&body), timeout).await?;
    let result: BashResult = response.decode()?;
    session.show(&response, || output::bytes(result.output.as_bytes()))?;
    if result.omitted_bytes > 0 {
        eprintln!(
            "hotdesk: the output is truncated: {} bytes are omitted in the middle",
            result.omitted_bytes
        );
    }
    if result.timeout {
        eprintln!("hotdesk: the command was killed at its timeout");
    }
    // A code outside of 0..=255 still is a failure.
    Ok(u8::try_from(result.exit_code).map_or(ExitCode::FAILURE, ExitCode::from))
}
