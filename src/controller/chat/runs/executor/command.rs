//! Commands of a run: their time, and their output without secrets.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::{CallResult, Executor, MAX_TEXT};
use crate::chat::runs::tools::{DEFAULT_COMMAND_SECONDS, MAX_COMMAND_SECONDS};
use hotdesk_domain::error::Result;
use hotdesk_guest::{ActionReply, QUICK_TIMEOUT};
use hotdesk_wire::desktop::bash::Bash;
use hotdesk_wire::programs::exec::BashResult;

/// Longest output of a command in its result: the rest is for the lines about its end and about what was left
/// out.
const MAX_OUTPUT: usize = MAX_TEXT - 128;
/// Shortest value of a secret that is hidden in outputs, in bytes. A shorter one occurs in words and numbers:
/// hiding it would make outputs useless, and would itself tell the value.
const MIN_HIDDEN: usize = 4;
/// Text in place of a secret.
const REDACTED: &str = "[redacted]";

/// Arguments of the tool `bash`.
#[derive(Debug, Deserialize)]
struct BashCall {
    command: String,
    #[serde(default)]
    timeout: Option<f64>,
}

impl Executor {
    /// Runs a command and returns its output and its end.
    ///
    /// # Errors
    /// Those of [`Executor::execute`].
    pub(super) async fn run_command(&mut self, input: &Value) -> Result<CallResult> {
        let call: BashCall = match serde_json::from_value(input.clone()) {
            Ok(call) => call,
            Err(error) => return Ok(CallResult::failed(format!("The call is invalid: {error}"))),
        };
        let timeout = call.timeout.unwrap_or(DEFAULT_COMMAND_SECONDS).clamp(1.0, MAX_COMMAND_SECONDS);
        let body = Bash {
            command: call.command,
            timeout: Some(timeout),
            screen: self.screen.clone(),
            ..Bash::default()
        };
        let (computer, guest) = match self.reach().await {
            Ok(reached) => reached,
            Err(error) => return self.unsent(error),
        };
        // Before the command: without them, its output could not be shown.
        let stored = match self.services.secrets.values(&self.caller, &computer).await {
            Ok(stored) => stored,
            Err(error) => return self.unsent(error),
        };
        let allowed = QUICK_TIMEOUT + Duration::from_secs_f64(timeout);
        let sent = guest.act("/bash", (), &body, None, None, allowed);
        let ran: BashResult = match sent.await {
            Ok(ActionReply { answer, .. }) => answer,
            Err(error) => return self.unsent(error),
        };
        self.failures = 0;
        let mut hidden: Vec<&str> = stored.iter().map(|secret| secret.reveal().trim()).collect();
        hidden.extend([computer.vnc_password.reveal(), computer.agent_token.reveal()]);
        let output = redact(ran.output, hidden);
        let end = if ran.timeout {
            format!("[killed after {timeout} seconds]")
        } else {
            format!("[exit code {}]", ran.exit_code)
        };
        let text = format!("{}\n{end}", shorten(output, MAX_OUTPUT).trim_end());
        Ok(CallResult { text, is_error: ran.timeout, ..CallResult::default() })
    }
}

/// Replaces secrets in a text for the model, the longest first: one may be a part of another.
fn redact(text: String, mut secrets: Vec<&str>) -> String {
    secrets.retain(|secret| secret.len() >= MIN_HIDDEN);
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.iter().fold(
        text,
        |text, secret| {
            if text.contains(secret) { text.replace(secret, REDACTED) } else { text }
        },
    )
}

/// Removes the middle of a text that is longer than `most` bytes.
pub(super) fn shorten(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let head = text.floor_char_boundary(most / 2);
    let tail = text.ceil_char_boundary(text.len() - most / 2);
    format!("{}\n[... {} bytes left out ...]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let secrets = vec!["hunter2", "", "a", "hunter2 hunter2"];
        let shown = redact("a hunter2 b hunter2 hunter2".to_owned(), secrets);
        assert_eq!(shown, "a [redacted] b [redacted]");
    }
}
