//! Control of a background process: its standard input and signals.

use std::io;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use nix::sys::signal::Signal;
use tokio::io::AsyncWriteExt;

use super::super::tree::{self, Target};
use super::{BackgroundProcess, Stdin, refused};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_http::extract::{Body, check_declared};
use hotdesk_wire::programs::process::{SendSignal, SignalResult, StdinWritten};

/// Most bytes of one request body.
pub const MAX_STDIN: usize = 16 * 1024 * 1024;
/// How long the process may leave its input unread, and the client may pause, before the request fails.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);

impl BackgroundProcess {
    /// Writes the body to the standard input as it arrives; closes it afterwards when `eof` is set.
    ///
    /// # Errors
    /// `Conflict` when there is no standard input, when it is closed (`stdin_closed`) or not read
    /// (`stdin_full`); the field `written` counts the bytes that were written. `TooLarge`, at once for a
    /// declared length; `SlowRequest` when the client pauses for too long; `Invalid` when it disconnects.
    pub async fn feed(&self, mut body: Body, eof: bool) -> Result<StdinWritten> {
        check_declared(&body, MAX_STDIN)?;
        let mut stdin = self.stdin.lock().await;
        let mut written = 0;
        loop {
            let frame = tokio::time::timeout(STALL_TIMEOUT, body.frame()).await;
            let frame = frame.map_err(|_| Error::slow_request("the request body did not arrive in time"))?;
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| Error::invalid("the request body broke off").context(error))?;
            let Ok(bytes) = frame.into_data() else { continue };
            if written + bytes.len() as u64 > MAX_STDIN as u64 {
                let message = format!("more than {MAX_STDIN} bytes at once");
                return Err(with_written(Error::too_large(message), written));
            }
            self.write_stdin(&mut stdin, bytes, &mut written).await?;
        }
        open(&mut stdin)?;
        if eof {
            *stdin = Stdin::Closed;
            self.state().stdin = "closed";
        }
        Ok(StdinWritten { written, eof })
    }

    async fn write_stdin(&self, stdin: &mut Stdin, mut bytes: Bytes, written: &mut u64) -> Result<()> {
        while !bytes.is_empty() {
            let sender = open(stdin).map_err(|error| with_written(error, *written))?;
            match tokio::time::timeout(STALL_TIMEOUT, sender.write(&bytes)).await {
                Ok(Ok(length)) => {
                    *written += length as u64;
                    let _sent = bytes.split_to(length);
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    *stdin = Stdin::Closed;
                    self.state().stdin = "closed";
                }
                Ok(Err(error)) => return Err(Error::internal(format!("standard input: {error}"))),
                Err(_) => {
                    let unread = Error::conflict("the process does not read its standard input");
                    return Err(with_written(unread.code(ErrorCode::StdinFull), *written));
                }
            }
        }
        Ok(())
    }

    /// Sends a signal to the process, or to the process and all processes that it started.
    ///
    /// # Errors
    /// `Invalid` for an unknown signal; `Conflict` when none of these processes runs.
    pub async fn signal(&self, request: &SendSignal) -> Result<SignalResult> {
        let signal = parse(&request.signal)?;
        let (shim, waiter, command, ended) = {
            let state = self.state();
            (state.shim_pid, state.shim.waiter, state.shim.command, state.shim.ended.is_some())
        };
        let tree = request.tree.unwrap_or(true);
        if self.gone.is_cancelled() || (ended && !tree) {
            return Err(Error::conflict(format!("process {} has ended", self.id)));
        }
        let sent = hotdesk_base::tasks::spawn_blocking(move || {
            let mut targets = tree::alive(&Target::below(shim));
            // The waiter is not a part of the command: it must live to report the exit.
            targets.retain(|pid| Some(*pid) != waiter && (tree || Some(*pid) == command));
            tree::signal_all(&targets, signal);
            targets.len()
        });
        let processes =
            sent.await.map_err(|error| Error::internal(format!("the signalling task failed: {error}")))?;
        if processes == 0 {
            return Err(Error::conflict(format!("process {} has ended", self.id)));
        }
        Ok(SignalResult {
            signal: name(signal as i32),
            processes: u32::try_from(processes).unwrap_or(u32::MAX),
        })
    }
}

fn open(stdin: &mut Stdin) -> Result<&mut tokio::net::unix::pipe::Sender> {
    match stdin {
        Stdin::Open(sender) => Ok(sender),
        Stdin::Closed => Err(Error::conflict("standard input is closed").code(ErrorCode::StdinClosed)),
        Stdin::None => Err(Error::conflict(
            "the process was started without standard input (start it with stdin: \"pipe\")",
        )
        .code(ErrorCode::StdinClosed)),
    }
}

fn with_written(error: Error, written: u64) -> Error {
    error.number("written", i64::try_from(written).unwrap_or(i64::MAX))
}

/// Parses a signal's name, with or without `SIG`, in any case.
fn parse(text: &str) -> Result<Signal> {
    let upper = text.to_ascii_uppercase();
    let full = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    Signal::from_str(&full).map_err(|_| refused(&format!("{text:?} is not the name of a signal")))
}

/// A signal's name without `SIG`; its number when it has no name.
pub fn name(number: i32) -> String {
    match Signal::try_from(number) {
        Ok(signal) => signal.as_str().trim_start_matches("SIG").to_owned(),
        Err(_) => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names() {
        for (text, signal) in
            [("TERM", Signal::SIGTERM), ("sigint", Signal::SIGINT), ("SIGUSR1", Signal::SIGUSR1)]
        {
            assert_eq!(parse(text).unwrap(), signal);
        }
        for bad in ["", "SIG", "9", "TERM ", "RTMIN", "KILLL"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!((name(15), name(64)), ("TERM".to_owned(), "64".to_owned()));
    }
}
