//! Client of QEMU's monitor (QMP): lines of JSON on a unix socket, bounded in length and time.
//!
//! No crate for QMP fits: an operation sends a few commands on a connection that it opens and closes, blocks
//! meanwhile, and passes file descriptors.

use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, sendmsg, setsockopt,
    socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use serde_json::{Value, json};

use crate::{EngineError, EngineResult};

/// For a whole answer, including the events before it. QEMU answers in milliseconds, or in seconds while it
/// waits for a slow disk.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest line in bytes: the description of all devices is below 64 KiB.
const MAX_LINE: usize = 1 << 20;
/// Most events that are skipped while waiting for an answer; a guest can cause events.
const MAX_EVENTS: usize = 4096;

/// A connection to a QEMU's monitor. QEMU serves one at a time; others wait.
#[derive(Debug)]
pub(super) struct Monitor {
    stream: BufReader<UnixStream>,
    /// The number of commands sent: the id of the latest.
    sent: u64,
    /// The timeout of each answer.
    timeout: Duration,
}

impl Monitor {
    /// Connects and negotiates the protocol.
    pub(super) fn open(socket: &Path) -> EngineResult<Self> {
        Self::open_within(socket, TIMEOUT)
    }

    /// [`Self::open`] with another timeout, also for each answer afterwards.
    pub(super) fn open_within(path: &Path, timeout: Duration) -> EngineResult<Self> {
        const STEP: &str = "connect to the machine's monitor";
        let deadline = Instant::now() + timeout;
        let stream = connect_within(path, timeout)
            .map_err(|error| EngineError::failed(STEP, format!("{}: {error}", path.display())))?;
        let mut monitor = Self { stream: BufReader::new(stream), sent: 0, timeout };
        let greeting = monitor.line(STEP, deadline)?;
        if greeting.get("QMP").is_none() {
            return Err(EngineError::failed(STEP, "its greeting is not QMP"));
        }
        monitor.ask("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    /// Sends one command and returns its result.
    ///
    /// # Errors
    /// `Failed` with QEMU's description, or when no answer comes in time.
    pub(super) fn ask(&mut self, command: &'static str, arguments: Value) -> EngineResult<Value> {
        self.ask_with(command, arguments, None)
    }

    /// Passes a file descriptor to QEMU under a name.
    pub(super) fn pass_fd(&mut self, name: &str, fd: BorrowedFd<'_>) -> EngineResult<()> {
        self.ask_with("getfd", json!({ "fdname": name }), Some(fd)).map(drop)
    }

    /// Repeats a command until `done` finds its value in the result, for at most `timeout`.
    pub(super) fn until<T>(
        &mut self,
        command: &'static str,
        timeout: Duration,
        done: impl Fn(&Value) -> EngineResult<Option<T>>,
    ) -> EngineResult<T> {
        /// Between two queries, each of which takes QEMU less than a millisecond: no wake and no suspend is
        /// late by more.
        const PAUSE: Duration = Duration::from_millis(5);
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(found) = done(&self.ask(command, json!({}))?)? {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                return Err(EngineError::failed(
                    command,
                    format!("it took longer than {} s", timeout.as_secs()),
                ));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn ask_with(
        &mut self,
        command: &'static str,
        arguments: Value,
        passed: Option<BorrowedFd<'_>>,
    ) -> EngineResult<Value> {
        let failed = |error: io::Error| EngineError::failed(command, error);
        let deadline = Instant::now() + self.timeout;
        self.sent += 1;
        let text = json!({ "execute": command, "arguments": arguments, "id": self.sent }).to_string() + "\n";
        match passed {
            None => self.stream.get_mut().write_all(text.as_bytes()).map_err(failed)?,
            Some(fd) => {
                let (raw, descriptors) = (self.stream.get_ref().as_raw_fd(), [fd.as_raw_fd()]);
                let with = [ControlMessage::ScmRights(&descriptors)];
                let line = [IoSlice::new(text.as_bytes())];
                let sent = sendmsg::<()>(raw, &line, &with, MsgFlags::MSG_NOSIGNAL, None);
                if sent.map_err(|error| failed(error.into()))? != text.len() {
                    return Err(EngineError::failed(command, "only a part of the command was sent"));
                }
            }
        }
        for _ in 0..MAX_EVENTS {
            let mut answer = self.line(command, deadline)?;
            // A late answer to a command that timed out.
            if answer.get("id").is_some_and(|id| *id != self.sent) {
                continue;
            }
            if let Some(error) = answer.get("error") {
                let description = error.get("desc").and_then(Value::as_str).unwrap_or("no reason given");
                return Err(EngineError::failed(command, description));
            }
            if let Some(returned) = answer.get_mut("return") {
                return Ok(returned.take());
            }
        }
        Err(EngineError::failed(command, "QEMU sent only events and no answer"))
    }

    /// Reads the next line, before the deadline.
    fn line(&mut self, step: &'static str, deadline: Instant) -> EngineResult<Value> {
        let failed = |error: io::Error| EngineError::failed(step, error);
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(failed(io::ErrorKind::TimedOut.into()));
            }
            self.stream.get_ref().set_read_timeout(Some(left)).map_err(failed)?;
            let piece = match self.stream.fill_buf() {
                Ok([]) => return Err(EngineError::failed(step, "QEMU closed the connection")),
                Ok(piece) => piece,
                // Continues with the remaining time.
                Err(error)
                    if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind()) =>
                {
                    continue;
                }
                Err(error) => return Err(failed(error)),
            };
            let end = piece.iter().position(|byte| *byte == b'\n').map_or(piece.len(), |at| at + 1);
            line.extend(piece.iter().take(end));
            self.stream.consume(end);
            if line.len() > MAX_LINE {
                return Err(EngineError::failed(step, format!("more than {MAX_LINE} bytes in a line")));
            }
        }
        serde_json::from_slice(&line).map_err(|error| EngineError::failed(step, error))
    }
}

/// Connects. QEMU's backlog has one place beside the connection that it serves. The kernel blocks further
/// connects for as long as writes may take (unix(7), `SO_SNDTIMEO`).
fn connect_within(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let fd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let bound = i64::try_from(timeout.as_millis()).map_err(io::Error::other)?;
    setsockopt(&fd, sockopt::SendTimeout, &TimeVal::milliseconds(bound))?;
    connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(fd.into())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;

    /// A short timeout for answers that never come.
    const SHORT: Duration = Duration::from_millis(200);

    /// A server that sends a greeting, then one of these lines for every line read.
    pub fn fake_qemu(
        answers: &'static [&'static str],
    ) -> (tempfile::TempDir, std::thread::JoinHandle<String>) {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("qmp")).unwrap();
        let speaking = std::thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            stream.get_mut().write_all(b"{\"QMP\": {}}\n").unwrap();
            let mut heard = String::new();
            for answer in answers {
                stream.read_line(&mut heard).unwrap();
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
            }
            heard
        });
        (folder, speaking)
    }

    #[test]
    fn answers_are_distinguished_from_events_and_errors() {
        let (folder, speaking) = fake_qemu(&[
            "{\"return\": {}}\n",
            "{\"event\": \"STOP\"}\n{\"return\": {}, \"id\": 1}\n{\"return\": {\"status\": \"paused\"}, \"id\": 2}\n",
            "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no such thing\"}}\n",
            "{\"return\": {}}\n",
            "what?\n",
        ]);
        let mut monitor = Monitor::open(&folder.path().join("qmp")).unwrap();
        assert_eq!(monitor.ask("query-status", json!({})).unwrap(), json!({"status": "paused"}));
        let refused = format!("{:#}", monitor.ask("device_add", json!({"driver": "x"})).unwrap_err());
        assert!(refused.contains("no such thing"), "{refused}");
        monitor.pass_fd("memory", std::io::stdin().as_fd()).unwrap();
        monitor.ask("query-status", json!({})).unwrap_err();
        let heard = speaking.join().unwrap();
        assert!(heard.lines().nth(2).unwrap().contains("\"driver\":\"x\""), "{heard}");
        assert!(monitor.ask("quit", json!({})).is_err(), "the server has closed the connection");
    }

    #[test]
    fn a_repeated_command_has_a_deadline() {
        let (folder, speaking) = fake_qemu(&["{\"return\": {}}\n", "{\"return\": 1}\n", "{\"return\": 2}\n"]);
        let mut monitor = Monitor::open(&folder.path().join("qmp")).unwrap();
        let late = monitor.until("query-status", Duration::ZERO, |_| Ok(None::<()>)).unwrap_err();
        assert!(format!("{late:#}").contains("longer than"), "{late:#}");
        let two = |answer: &Value| Ok((answer == 2).then_some("two"));
        assert_eq!(monitor.until("query-status", TIMEOUT, two).unwrap(), "two");
        speaking.join().unwrap();
    }

    #[test]
    fn a_connect_to_a_busy_monitor_times_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("qmp");
        // The same backlog as QEMU's.
        let listening = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        nix::sys::socket::bind(listening.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        nix::sys::socket::listen(&listening, nix::sys::socket::Backlog::new(1).unwrap()).unwrap();
        let waiting = [0; 2].map(|_| UnixStream::connect(&path).unwrap());
        let begun = Instant::now();
        let late = format!("{:#}", Monitor::open_within(&path, SHORT).unwrap_err());
        assert!(late.contains("connect to the machine's monitor"), "{late}");
        assert!(begun.elapsed() < TIMEOUT, "{:?}", begun.elapsed());
        drop(waiting);
    }

    #[test]
    fn an_answer_in_single_bytes_has_one_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("qmp")).unwrap();
        let speaking = std::thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            stream.get_mut().write_all(b"{\"QMP\": {}}\n").unwrap();
            stream.read_line(&mut String::new()).unwrap();
            stream.get_mut().write_all(b"{\"return\": {}, \"id\": 1}\n").unwrap();
            while stream.get_mut().write_all(b" ").is_ok() {
                std::thread::sleep(SHORT / 10);
            }
        });
        let mut monitor = Monitor::open(&folder.path().join("qmp")).unwrap();
        monitor.timeout = SHORT;
        let late = format!("{:#}", monitor.ask("query-status", json!({})).unwrap_err());
        assert!(late.contains("timed out"), "{late}");
        drop(monitor);
        speaking.join().unwrap();
    }
}
