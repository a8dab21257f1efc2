//! How is a background process steered? By what it reads, and by signals.

use std::io;
use std::str::FromStr;
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt;
use nix::sys::signal::Signal;
use tokio::io::AsyncWriteExt;

use super::super::tree::{self, Target};
use super::{Process, Stdin, refused};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::process::{SendSignal, Signalled, Written};

/// Most bytes of one request.
pub const MAX_STDIN: usize = 16 * 1024 * 1024;
/// How long the process may leave what it was sent unread, and the client may pause, before the request is answered.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);

impl Process {
    /// Writes to its standard input as the bytes come, and ends it after them if `eof` says so.
    ///
    /// # Errors
    /// `Conflict` when there is no standard input, or no longer, or it is not read (`written` says how far it came);
    /// `Invalid` when the client breaks off.
    pub async fn feed(&self, mut body: Body, eof: bool) -> Result<Written> {
        let mut stdin = self.stdin.lock().await;
        let mut written = 0;
        loop {
            let frame = tokio::time::timeout(STALL_TIMEOUT, body.frame()).await;
            let frame = frame.map_err(|_| Error::invalid("the request body did not arrive in time"))?;
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| Error::invalid("the request body broke off").context(error))?;
            let Ok(bytes) = frame.into_data() else { continue };
            if written + bytes.len() as u64 > MAX_STDIN as u64 {
                let message = format!("more than {MAX_STDIN} bytes at once");
                return Err(told(Error::too_large(message), written));
            }
            self.write_stdin(&mut stdin, bytes, &mut written).await?;
        }
        open(&mut stdin)?;
        if eof {
            *stdin = Stdin::Closed;
            self.state().stdin = "closed";
        }
        Ok(Written { written, eof })
    }

    async fn write_stdin(&self, stdin: &mut Stdin, mut bytes: Bytes, written: &mut u64) -> Result<()> {
        while !bytes.is_empty() {
            let sender = open(stdin).map_err(|error| told(error, *written))?;
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
                    return Err(told(unread.code("stdin_full"), *written));
                }
            }
        }
        Ok(())
    }

    /// Sends a signal to the process, or to it and all that it started.
    ///
    /// # Errors
    /// `Invalid` for a signal that is none; `Conflict` when nothing that is meant runs.
    pub async fn signal(&self, request: &SendSignal) -> Result<Signalled> {
        let signal = parse(&request.signal)?;
        let (shim, nurse, command, ended) = {
            let state = self.state();
            (state.shim, state.told.nurse, state.told.command, state.told.ended.is_some())
        };
        let tree = request.tree.unwrap_or(true);
        if self.gone.is_cancelled() || (ended && !tree) {
            return Err(Error::conflict(format!("process {} has ended", self.id)));
        }
        let sent = tokio::task::spawn_blocking(move || {
            let mut meant = tree::alive(&Target::below(shim));
            // The nurse is ours: it must live to tell of the end.
            meant.retain(|pid| Some(*pid) != nurse && (tree || Some(*pid) == command));
            tree::signal_all(&meant, signal);
            meant.len()
        });
        let processes =
            sent.await.map_err(|error| Error::internal(format!("signalling broke down: {error}")))?;
        if processes == 0 {
            return Err(Error::conflict(format!("process {} has ended", self.id)));
        }
        Ok(Signalled { signal: name(signal as i32), processes: u32::try_from(processes).unwrap_or(u32::MAX) })
    }
}

fn open(stdin: &mut Stdin) -> Result<&mut tokio::net::unix::pipe::Sender> {
    match stdin {
        Stdin::Open(sender) => Ok(sender),
        Stdin::Closed => Err(Error::conflict("standard input is closed").code("stdin_closed")),
        Stdin::None => Err(Error::conflict(
            "the process was started without standard input (stdin: \"pipe\" at its start gives it one)",
        )
        .code("stdin_closed")),
    }
}

fn told(error: Error, written: u64) -> Error {
    error.number("written", i64::try_from(written).unwrap_or(i64::MAX))
}

/// Reads a signal's name, with or without `SIG`, in any case.
fn parse(text: &str) -> Result<Signal> {
    let upper = text.to_ascii_uppercase();
    let full = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    Signal::from_str(&full).map_err(|_| refused(&format!("{text:?} is no signal's name")))
}

/// A signal's name without `SIG`; the number where it has none.
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
