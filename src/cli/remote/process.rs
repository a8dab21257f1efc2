//! One attached process on a computer, connected to the standard streams of this program.
//!
//! ```text
//! POST processes {attached}        start
//! GET  output?framed&follow        its output, until it ends
//! POST stdin                       standard input, while it is read
//! GET  processes/ID, then DELETE   exit status, removal of the record
//! ```
//! When this program is killed, the server kills the process, because nobody reads its output.

use std::future::pending;
use std::io::ErrorKind;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use nix::sys::signal::Signal;
use reqwest::{Body, Method};

use super::frames::FrameDecoder;
use super::stdio::{self, OutputStream};
use crate::client::Session;
use crate::client::api::{Api, REQUEST_TIMEOUT};
use crate::client::interrupts::Interrupts;
use crate::client::retry::Interruption;
use crate::failure::{Failure, Outcome};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::programs::process::{LOST_HEADER, Process, StartProcess};

/// Exit code at the timeout, as of `timeout(1)`.
const TIMED_OUT: u8 = 124;
/// Exit code when the reader of standard output has gone: 128 + SIGPIPE, as of any program in a pipe.
const BROKEN_PIPE: u8 = 141;
/// Timeout of the end of the process when this program is interrupted: the server answers within 5 s.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before the output is requested again after a broken connection.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Attempts in a row without a byte: within the 10 s for which the server lets the process be without a reader.
const MAX_ATTEMPTS: u32 = 10;
/// Fewest bytes after which a request of input is sent, for a process that reads slowly: the capacity of its pipe.
const LEAST_INPUT: usize = 64 * 1024;
/// Most bytes of one request of input. The server waits 300 s, so the process must read 4 KB a second; and 100 requests
/// a second, the server's limit, are more than a network carries.
const MAX_INPUT: usize = 1024 * 1024;
/// Time of a request of input in which the process reads quickly.
const QUICK_INPUT: Duration = Duration::from_secs(1);
/// Timeout of a request of input: above the server's own 300 s.
const INPUT_TIMEOUT: Duration = Duration::from_secs(310);

/// How the connection to the process ended.
enum End {
    /// All its output was written.
    Output,
    /// The reader of standard output has gone.
    BrokenPipe,
    /// The timeout passed.
    TimedOut,
    /// A signal asked this program to end, with this exit code.
    Interrupted(u8),
}

struct AttachedProcess<'a> {
    api: &'a Api,
    computer: &'a str,
    id: String,
}

/// Runs a process on the computer with this id and returns its exit code, or 128 + the signal that killed it. Standard
/// input is passed on when `request.stdin` is `pipe`. The process is killed after `timeout`, and when a signal or a
/// failure ends this program.
///
/// # Errors
/// When the server refuses the request or is unreachable, and when a standard stream fails.
pub async fn run(
    session: &Session,
    computer: &str,
    request: StartProcess,
    timeout: Option<Duration>,
) -> Outcome {
    let mut interrupts = Interrupts::receive()?;
    let piped = request.stdin.is_some();
    let request = StartProcess { attached: Some(true), ..request };
    let started = async {
        let path = ["computers", computer, "processes"];
        session.api.call(Method::POST, &path, Some(&request), REQUEST_TIMEOUT).await?.decode::<Process>()
    };
    let id = tokio::select! {
        process = started => process?.id,
        // A process that starts all the same is killed by the server: it has no reader.
        code = interrupts.next() => return Ok(ExitCode::from(code)),
    };
    let process = AttachedProcess { api: &session.api, computer, id };
    let input = async {
        if piped {
            process.send_input().await?;
        }
        pending().await
    };
    let expired = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => pending().await,
        }
    };
    let ended = tokio::select! {
        ended = process.copy_output() => ended,
        failed = input => failed,
        () = expired => Ok(End::TimedOut),
        code = interrupts.next() => Ok(End::Interrupted(code)),
    };
    if matches!(ended, Ok(End::Output)) {
        return process.finish().await;
    }
    tokio::select! {
        removed = process.remove(KILL_TIMEOUT) => {
            if let Err(failure) = removed {
                failure.report();
            }
        }
        code = interrupts.next() => return Ok(ExitCode::from(code)),
    }
    match ended? {
        End::Output => process.finish().await,
        End::BrokenPipe => Ok(ExitCode::from(BROKEN_PIPE)),
        End::Interrupted(code) => Ok(ExitCode::from(code)),
        End::TimedOut => {
            eprintln!("hotdesk: the command was killed at its timeout");
            Ok(ExitCode::from(TIMED_OUT))
        }
    }
}

impl AttachedProcess<'_> {
    fn path<'a>(&'a self, rest: &'a [&'a str]) -> Vec<&'a str> {
        [&["computers", self.computer, "processes", &self.id], rest].concat()
    }

    /// Copies the output to the end. A broken connection is opened again.
    async fn copy_output(&self) -> Outcome<End> {
        let (mut offset, mut attempts) = (0, 0);
        loop {
            let before = offset;
            let failure = match self.follow(&mut offset).await {
                Ok(Some(end)) => return Ok(end),
                Ok(None) => Failure::from("the server ended the output early"),
                Err(Interruption::Final(failure)) => return Err(failure),
                Err(Interruption::Connection(failure)) => failure,
            };
            attempts = if offset > before { 0 } else { attempts + 1 };
            if attempts == MAX_ATTEMPTS {
                return Err(failure);
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Copies output from an offset while the connection lasts; `None` when it ended before the process.
    async fn follow(&self, offset: &mut u64) -> Result<Option<End>, Interruption> {
        let mut url = self.api.url(&self.path(&["output"]));
        url.set_query(Some(&format!("follow=true&framed=true&offset={offset}")));
        let response = self.api.stream(self.api.request(Method::GET, url)).await;
        let mut response = response.map_err(Interruption::Connection)?;
        if !response.status().is_success() {
            let passing = response.status().is_server_error();
            let failure = self.api.refusal(response).await;
            return Err(if passing {
                Interruption::Connection(failure)
            } else {
                Interruption::Final(failure)
            });
        }
        let lost = response.headers().get(LOST_HEADER).and_then(|lost| lost.to_str().ok());
        if lost != Some("0") {
            let lost = lost.unwrap_or("an unknown number of");
            let text = format!("the connection broke and {lost} bytes of the output are lost");
            return Err(Interruption::Final(text.into()));
        }
        let mut frames = FrameDecoder::default();
        loop {
            let chunk = response.chunk().await;
            let Some(chunk) =
                chunk.map_err(|error| Interruption::Connection(self.api.transport_failure(error)))?
            else {
                break;
            };
            frames.push(&chunk);
            while let Some((stream, bytes)) = frames.next()? {
                let length = bytes.len() as u64;
                match stdio::write(stream, bytes).await {
                    Ok(()) => *offset += length,
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Some(End::BrokenPipe)),
                    Err(error) => {
                        let name = if stream == OutputStream::Out { "output" } else { "error" };
                        let text = format!("cannot write to standard {name}: {error}");
                        return Err(Interruption::Final(text.into()));
                    }
                }
            }
        }
        let process = self.record().await.map_err(Interruption::Connection)?;
        Ok((!process.tree_running && process.output_bytes == *offset).then_some(End::Output))
    }

    /// Passes standard input on, to its end or until the process no longer reads.
    async fn send_input(&self) -> Outcome<()> {
        let mut input = stdio::input();
        let (mut eof, mut most) = (false, LEAST_INPUT);
        while !eof {
            let mut bytes = BytesMut::new();
            let mut next = input.recv().await;
            eof = next.is_none();
            while let Some(chunk) = next {
                bytes.extend_from_slice(
                    &chunk.map_err(|error| format!("cannot read standard input: {error}"))?,
                );
                next = if bytes.len() < most { input.try_recv().ok() } else { None };
            }
            let began = Instant::now();
            if !self.feed(bytes.freeze(), eof).await? {
                return Ok(());
            }
            most = if began.elapsed() < QUICK_INPUT { (most * 2).min(MAX_INPUT) } else { LEAST_INPUT };
        }
        Ok(())
    }

    /// Writes bytes to the standard input of the process; false when the process has closed it.
    async fn feed(&self, mut bytes: Bytes, eof: bool) -> Outcome<bool> {
        loop {
            let mut url = self.api.url(&self.path(&["stdin"]));
            url.set_query(eof.then_some("eof=true"));
            let request = self.api.request(Method::POST, url).body(Body::from(bytes.clone()));
            let exchange = self.api.exchange(request.timeout(INPUT_TIMEOUT)).await?;
            let refused = exchange.refused();
            let code = refused.as_ref().and_then(|refused| refused.code.as_deref());
            if code == Some(ErrorCode::StdinClosed.as_str()) {
                return Ok(false);
            }
            if code != Some(ErrorCode::StdinFull.as_str()) {
                let _written = exchange.success()?;
                return Ok(true);
            }
            // The process does not read now; it gets the rest when it does.
            let written = refused.and_then(|refused| refused.extra.get("written")?.as_u64());
            let written = usize::try_from(written.unwrap_or(0)).unwrap_or(usize::MAX);
            bytes = bytes.slice(written.min(bytes.len())..);
        }
    }

    async fn record(&self) -> Outcome<Process> {
        self.api.get(&self.path(&[]), &[], REQUEST_TIMEOUT).await?.decode()
    }

    async fn remove(&self, timeout: Duration) -> Outcome<()> {
        self.api.call(Method::DELETE, &self.path(&[]), None::<&()>, timeout).await.map(drop)
    }

    /// Returns the exit code of the ended process and removes its record.
    async fn finish(&self) -> Outcome {
        let process = self.record().await?;
        self.remove(REQUEST_TIMEOUT).await?;
        Ok(ExitCode::from(exit_code(process.exit_code, process.signal.as_deref())?))
    }
}

/// Exit code as in a shell: the status, or 128 plus the signal.
fn exit_code(status: Option<i32>, signal: Option<&str>) -> Outcome<u8> {
    let number = |name: &str| match Signal::from_str(&format!("SIG{name}")) {
        Ok(signal) => Some(signal as i32),
        // A signal without a name is written as its number.
        Err(_) => name.parse().ok(),
    };
    let code = status.or_else(|| Some(128 + number(signal?)?));
    let code = code.and_then(|code| u8::try_from(code).ok());
    code.ok_or_else(|| "the server did not report how the command ended".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        for (status, signal, expected) in [
            (Some(0), None, Some(0)),
            (Some(255), None, Some(255)),
            (None, Some("KILL"), Some(137)),
            (None, Some("TERM"), Some(143)),
            (None, Some("64"), Some(192)),
            (None, Some("NONSENSE"), None),
            (None, None, None),
            (Some(256), None, None),
        ] {
            assert_eq!(exit_code(status, signal).ok(), expected, "{status:?} {signal:?}");
        }
    }
}
