//! Run of one step in the computer of a build, with its output in the build's log.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;

use super::super::build_log::{BuildLog, Level, Phase};
use hotdesk_domain::computer::template::build::BuildStep;
use hotdesk_domain::error::{Error, Result};
use hotdesk_guest::Guest;
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::programs::process::{OutputQuery, Process, StartProcess, StdinQuery, StdinWritten};

/// Saves the script that comes on standard input, and runs it with an empty standard input.
const COMMAND: &str =
    "umask 077 && cat >/tmp/.hotdesk-step && umask 022 && exec bash -e /tmp/.hotdesk-step </dev/null";
/// For one request that the agent answers at once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Seconds of one request for output, which is repeated until the step ends.
const FOLLOW_SECONDS: f64 = 300.0;
/// Longest line of output that waits for its end, in bytes; a longer one is split.
const MAX_LINE: usize = 64 * 1024;

/// Runs a step to its end. Returns its exit code, or 128 and the number of the signal that ended it.
///
/// # Errors
/// Those of [`Guest::call`], for example when the computer stops.
pub async fn run(
    guest: &Guest,
    step: &BuildStep,
    env: &BTreeMap<String, String>,
    log: &BuildLog,
) -> Result<i32> {
    let start = StartProcess {
        command: Some(COMMAND.to_owned()),
        env: Some(env.clone()),
        stdin: Some("pipe".to_owned()),
        attached: Some(true),
        name: Some(step.field.clone()),
        ..StartProcess::default()
    };
    let process: Process = guest.call(Method::POST, "/processes", (), Some(&start), REQUEST_TIMEOUT).await?;
    let path = format!("/processes/{}", process.id);
    let input = Body::from(step.script.clone());
    let _: StdinWritten = guest
        .send_bytes(&format!("{path}/stdin"), StdinQuery { eof: Some(true) }, input, REQUEST_TIMEOUT)
        .await?;
    let mut offset = 0;
    let mut line = BytesMut::new();
    loop {
        let query = OutputQuery {
            offset: Some(offset),
            follow: Some(true),
            wait_seconds: Some(FOLLOW_SECONDS),
            ..OutputQuery::default()
        };
        let mut output = guest.open(&format!("{path}/output"), query, REQUEST_TIMEOUT).await?.into_body();
        while let Some(frame) = output.frame().await {
            let frame =
                frame.map_err(|error| Error::unavailable("the output of a step broke off").context(error))?;
            let Ok(data) = frame.into_data() else { continue };
            offset += i64::try_from(data.len()).map_err(Error::internal)?;
            line.extend_from_slice(&data);
            log_lines(&mut line, &step.field, log);
        }
        let now: Process = guest.call(Method::GET, &path, (), None::<&()>, REQUEST_TIMEOUT).await?;
        if now.status != "running" {
            log_line(&line, &step.field, log);
            let _: Acknowledgement =
                guest.call(Method::DELETE, &path, (), None::<&()>, REQUEST_TIMEOUT).await?;
            // The agent names the signal; a shell would add its number to 128, and 128 alone is no signal's.
            return Ok(now.exit_code.unwrap_or(128));
        }
    }
}

/// Moves the complete lines of a buffer to the log.
fn log_lines(buffer: &mut BytesMut, source: &str, log: &BuildLog) {
    while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
        log_line(&buffer.split_to(end), source, log);
        buffer.advance(1);
    }
    if buffer.len() > MAX_LINE {
        log_line(&buffer.split(), source, log);
    }
}

/// Adds a line to the log. Of a line with carriage returns, such as a progress bar, the last text counts.
fn log_line(line: &[u8], source: &str, log: &BuildLog) {
    let text = String::from_utf8_lossy(line);
    let shown = text.trim_end().rsplit('\r').next().unwrap_or_default();
    if !shown.trim().is_empty() {
        log.add(Level::Info, Phase::Install, Some(source), shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_becomes_lines() {
        let log = BuildLog::default();
        let mut buffer = BytesMut::new();
        for piece in ["a", "b\n\n10 %\r20 %\rdone\r\n", "rest"] {
            buffer.extend_from_slice(piece.as_bytes());
            log_lines(&mut buffer, "build.run[0]", &log);
        }
        assert_eq!(log.last_output(9), ["ab", "done"]);
        assert_eq!(&buffer[..], b"rest");
        buffer.extend_from_slice(&vec![b'x'; MAX_LINE]);
        log_lines(&mut buffer, "build.run[0]", &log);
        assert_eq!((log.last_output(9).len(), buffer.len()), (3, 0));
    }
}
