//! Run of one step in the computer of a build, with its output in the build's log.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::super::build_log::{BuildLog, Level, Phase};
use hotdesk_domain::computer::template::build::BuildStep;
use hotdesk_domain::error::{Error, Result};
use hotdesk_guest::Guest;
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::programs::process::{OutputQuery, Process, StartProcess, StdinQuery, StdinWritten};

/// Saves the script that comes on standard input, and runs it with an empty standard input.
const COMMAND: &str =
    "umask 077 && cat >/tmp/.hotdesk-step && umask 022 && exec bash -e /tmp/.hotdesk-step </dev/null";
/// Put before the first line of a script: at the end of one that fails, its output has the last command of the shell. A script
/// that sets a trap of its own has its own report.
const REPORT: &str = "trap '{ hotdesk_code=$?; set +x; } 2>/dev/null; [ \"$hotdesk_code\" = 0 ] || \
    printf \"last command: %.200s\\n\" \"${BASH_COMMAND//[[:cntrl:]]/ }\" >&2' EXIT; ";
/// For one request that the agent answers at once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Seconds of one request for output, which is repeated until the step ends.
const FOLLOW_SECONDS: f64 = 300.0;
/// Shortest time between two requests for output: an agent that ends each at once must not keep the service busy.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// Most bytes of output of one step (256 MiB), far above those of a compiler that reports everything.
const MAX_OUTPUT: i64 = 256 << 20;
/// Longest line of output that waits for its end, in bytes; a longer one is split.
const MAX_LINE: usize = 64 * 1024;

/// Runs a step to its end. Returns its exit code, or 128 and the number of the signal that ended it.
///
/// # Errors
/// Those of [`Guest::call`], for example when the computer stops; `Conflict` beyond [`MAX_OUTPUT`].
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
    let input = Body::from(format!("{REPORT}{}", step.script));
    let _: StdinWritten = guest
        .send_bytes(&format!("{path}/stdin"), StdinQuery { eof: Some(true) }, input, REQUEST_TIMEOUT)
        .await?;
    let mut offset = 0;
    let mut line = BytesMut::new();
    let mut next = Instant::now();
    loop {
        tokio::time::sleep_until(next).await;
        next = Instant::now() + MIN_INTERVAL;
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
            if offset > MAX_OUTPUT {
                return Err(Error::conflict(format!(
                    "{} printed more than {MAX_OUTPUT} bytes: redirect its output to a file",
                    step.field
                )));
            }
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use hotdesk_base::secret::Secret;
    use hotdesk_base::tasks::Tasks;
    use hotdesk_domain::computer::endpoint::Endpoint;
    use hotdesk_domain::computer::template::build::StepKind;
    use hotdesk_domain::error::Kind;

    /// A client of an agent that says that its only process runs, and answers each request for output with `output`. The
    /// counter is of these requests.
    fn replaced_agent(folder: &std::path::Path, output: &'static [u8]) -> (Guest, Arc<AtomicU64>) {
        let (path, asked) = (folder.join("agent"), Arc::new(AtomicU64::new(0)));
        let (listener, count) = (tokio::net::UnixListener::bind(&path).unwrap(), Arc::clone(&asked));
        let process = Process {
            id: "1".to_owned(),
            pid: 2,
            name: None,
            command: String::new(),
            status: "running".to_owned(),
            exit_code: None,
            signal: None,
            tree_running: true,
            stdin: "closed".to_owned(),
            started_at: String::new(),
            ended_at: None,
            output_bytes: 0,
            stdout_bytes: 0,
            stderr_bytes: 0,
            followers: 0,
        };
        let written = serde_json::to_string(&StdinWritten { written: 4, eof: true }).unwrap();
        let process = serde_json::to_string(&process).unwrap();
        let _task = Tasks::new().spawn("replaced agent", async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 64 * 1024];
                let length = stream.read(&mut request).await.unwrap();
                let line = String::from_utf8_lossy(&request[..length]).lines().next().unwrap_or_default().to_owned();
                let body = if line.contains("/output") {
                    count.fetch_add(1, Ordering::Relaxed);
                    output
                } else if line.contains("/stdin") {
                    written.as_bytes()
                } else {
                    process.as_bytes()
                };
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                // The client leaves when it has had enough.
                let _cut_short = stream.write_all(head.as_bytes()).await;
                let _cut_short = stream.write_all(body).await;
            }
        });
        (Guest::new(Endpoint::Unix(path), &Secret::random(43)).unwrap(), asked)
    }

    fn endless_step() -> BuildStep {
        BuildStep { kind: StepKind::Run, field: "build.run[0]".to_owned(), script: "true".to_owned() }
    }

    #[tokio::test]
    async fn t4_an_agent_whose_output_always_ends_at_once_is_asked_twice_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let (guest, asked) = replaced_agent(folder.path(), b"");
        let (step, log, environment) = (endless_step(), BuildLog::default(), BTreeMap::new());
        let running = run(&guest, &step, &environment, &log);
        tokio::time::timeout(Duration::from_millis(1800), running).await.expect_err("it runs for ever");
        let asked = asked.load(Ordering::Relaxed);
        assert!((1..=4).contains(&asked), "{asked} requests");
    }

    #[tokio::test]
    async fn t4_a_step_without_an_end_of_output_is_ended() {
        const PIECE: usize = 64 << 20;
        let folder = tempfile::tempdir().unwrap();
        let output: &'static [u8] =
            Box::leak([&[b'x'; 4095][..], b"\n"].concat().repeat(PIECE / 4096).into_boxed_slice());
        let (guest, asked) = replaced_agent(folder.path(), output);
        let ended = run(&guest, &endless_step(), &BTreeMap::new(), &BuildLog::default()).await.unwrap_err();
        assert_eq!(ended.kind, Kind::Conflict, "{ended:?}");
        assert_eq!(asked.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn a_script_that_fails_names_its_last_command() {
        for (script, code, printed) in [
            ("echo some output; exit 7", 7, "last command: exit 7\n"),
            ("# A comment.\nset -x\ntest a = b\necho never", 1, "+ test a = b\nlast command: test a = b\n"),
            ("set -x\ntrue", 0, "+ true\n"),
            ("test \"a\nb\" = c", 1, "last command: test \"a b\" = c\n"),
        ] {
            let text = format!("{REPORT}{script}");
            let output = std::process::Command::new("bash").args(["-e", "-c", &text]).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{script}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), printed, "{script}");
        }
    }

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
