//! How is a QEMU process spoken to? By QMP: a line of JSON each way on its unix socket, bounded in length and in time.
//!
//! A client of our own, because a verb asks a handful of commands on a connection that it opens and closes, blocks while it
//! does, and hands over descriptors, which the crates for QMP do not.

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

/// How long all of an answer may take, whatever comes before it. QEMU answers in milliseconds; one that waits for a slow disk takes
/// seconds.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest line that is read: the description of all devices is below 64 KiB.
const LONGEST: usize = 1 << 20;
/// Most events that are passed over while waiting for an answer; a guest causes some of them.
const MOST_EVENTS: usize = 4096;

/// A connection to a QEMU's monitor. It serves one at a time: who else connects waits.
#[derive(Debug)]
pub(super) struct Monitor {
    stream: BufReader<UnixStream>,
    /// How many commands were asked: the label of each.
    asked: u64,
    /// How long each answer may take.
    patience: Duration,
}

impl Monitor {
    /// Connects and agrees on the protocol.
    pub(super) fn open(socket: &Path) -> EngineResult<Self> {
        Self::open_within(socket, TIMEOUT)
    }

    /// As [`Self::open`], with a bound on that, and on each answer afterwards.
    pub(super) fn open_within(path: &Path, patience: Duration) -> EngineResult<Self> {
        const STEP: &str = "reach the machine's monitor";
        let deadline = Instant::now() + patience;
        let stream = reach(path, patience)
            .map_err(|error| EngineError::failed(STEP, format!("{}: {error}", path.display())))?;
        let mut monitor = Self { stream: BufReader::new(stream), asked: 0, patience };
        let greeting = monitor.line(STEP, deadline)?;
        if greeting.get("QMP").is_none() {
            return Err(EngineError::failed(STEP, "it does not speak QMP"));
        }
        monitor.ask("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    /// Asks for one command; what it returned.
    pub(super) fn ask(&mut self, command: &'static str, arguments: Value) -> EngineResult<Value> {
        self.ask_with(command, arguments, None)
    }

    /// Gives QEMU a descriptor under a name.
    pub(super) fn hand_over(&mut self, name: &str, fd: BorrowedFd<'_>) -> EngineResult<()> {
        self.ask_with("getfd", json!({ "fdname": name }), Some(fd)).map(drop)
    }

    /// Asks until `done` finds its value in the answer, for at most `patience`.
    pub(super) fn until<T>(
        &mut self,
        command: &'static str,
        patience: Duration,
        done: impl Fn(&Value) -> EngineResult<Option<T>>,
    ) -> EngineResult<T> {
        /// Between two questions: what a person would not notice.
        const PAUSE: Duration = Duration::from_millis(20);
        let deadline = Instant::now() + patience;
        loop {
            if let Some(found) = done(&self.ask(command, json!({}))?)? {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                return Err(EngineError::failed(
                    command,
                    format!("it took longer than {} s", patience.as_secs()),
                ));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn ask_with(
        &mut self,
        command: &'static str,
        arguments: Value,
        handed: Option<BorrowedFd<'_>>,
    ) -> EngineResult<Value> {
        let failed = |error: io::Error| EngineError::failed(command, error);
        let deadline = Instant::now() + self.patience;
        self.asked += 1;
        let text = json!({ "execute": command, "arguments": arguments, "id": self.asked }).to_string() + "\n";
        match handed {
            None => self.stream.get_mut().write_all(text.as_bytes()).map_err(failed)?,
            Some(fd) => {
                let (raw, descriptors) = (self.stream.get_ref().as_raw_fd(), [fd.as_raw_fd()]);
                let with = [ControlMessage::ScmRights(&descriptors)];
                let line = [IoSlice::new(text.as_bytes())];
                let sent = sendmsg::<()>(raw, &line, &with, MsgFlags::MSG_NOSIGNAL, None);
                if sent.map_err(|error| failed(error.into()))? != text.len() {
                    return Err(EngineError::failed(command, "half of it was sent"));
                }
            }
        }
        for _ in 0..MOST_EVENTS {
            let mut answer = self.line(command, deadline)?;
            // The late answer to a command that was given up.
            if answer.get("id").is_some_and(|id| *id != self.asked) {
                continue;
            }
            if let Some(error) = answer.get("error") {
                let said = error.get("desc").and_then(Value::as_str).unwrap_or("no reason given");
                return Err(EngineError::failed(command, said));
            }
            if let Some(returned) = answer.get_mut("return") {
                return Ok(returned.take());
            }
        }
        Err(EngineError::failed(command, "events, but no answer"))
    }

    /// The next line, all of it by then.
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
                Ok([]) => return Err(EngineError::failed(step, "the machine's monitor has gone")),
                Ok(piece) => piece,
                // Asked again with what is left.
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
            if line.len() > LONGEST {
                return Err(EngineError::failed(step, format!("more than {LONGEST} bytes in a line")));
            }
        }
        serde_json::from_slice(&line).map_err(|error| EngineError::failed(step, error))
    }
}

/// Connects. QEMU lets one wait beside the one that it serves, and the kernel holds up everybody else: for as long as writes may
/// take (unix(7), `SO_SNDTIMEO`).
fn reach(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let fd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let bound = i64::try_from(patience.as_millis()).map_err(io::Error::other)?;
    setsockopt(&fd, sockopt::SendTimeout, &TimeVal::milliseconds(bound))?;
    connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(fd.into())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;

    /// Short, for what never comes.
    const SHORT: Duration = Duration::from_millis(200);

    /// Speaks as QEMU would: a greeting, then one of these lines for every line read.
    pub fn speaks(answers: &'static [&'static str]) -> (tempfile::TempDir, std::thread::JoinHandle<String>) {
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
    fn answers_are_told_from_events_and_errors() {
        let (folder, speaking) = speaks(&[
            "{\"return\": {}}\n",
            "{\"event\": \"STOP\"}\n{\"return\": {}, \"id\": 1}\n{\"return\": {\"status\": \"paused\"}, \"id\": 2}\n",
            "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no such thing\"}}\n",
            "{\"return\": {}}\n",
            "what?\n",
        ]);
        let mut monitor = Monitor::open(&folder.path().join("qmp")).unwrap();
        assert_eq!(monitor.ask("query-status", json!({})).unwrap(), json!({"status": "paused"}));
        let refused = monitor.ask("device_add", json!({"driver": "x"})).unwrap_err().to_string();
        assert!(refused.contains("no such thing"), "{refused}");
        monitor.hand_over("memory", std::io::stdin().as_fd()).unwrap();
        monitor.ask("query-status", json!({})).unwrap_err();
        let heard = speaking.join().unwrap();
        assert!(heard.lines().nth(2).unwrap().contains("\"driver\":\"x\""), "{heard}");
        assert!(monitor.ask("quit", json!({})).is_err(), "it has gone");
    }

    #[test]
    fn what_is_asked_for_again_and_again_has_an_end() {
        let (folder, speaking) = speaks(&["{\"return\": {}}\n", "{\"return\": 1}\n", "{\"return\": 2}\n"]);
        let mut monitor = Monitor::open(&folder.path().join("qmp")).unwrap();
        let late = monitor.until("query-status", Duration::ZERO, |_| Ok(None::<()>)).unwrap_err();
        assert!(late.to_string().contains("longer than"), "{late}");
        let two = |answer: &Value| Ok((answer == 2).then_some("two"));
        assert_eq!(monitor.until("query-status", TIMEOUT, two).unwrap(), "two");
        speaking.join().unwrap();
    }

    #[test]
    fn who_finds_no_place_at_a_monitor_waits_no_longer_than_for_an_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("qmp");
        // As QEMU listens: one may wait beside the one that it serves.
        let listening = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        nix::sys::socket::bind(listening.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        nix::sys::socket::listen(&listening, nix::sys::socket::Backlog::new(1).unwrap()).unwrap();
        let waiting = [0; 2].map(|_| UnixStream::connect(&path).unwrap());
        let begun = Instant::now();
        let late = Monitor::open_within(&path, SHORT).unwrap_err().to_string();
        assert!(late.contains("reach the machine's monitor"), "{late}");
        assert!(begun.elapsed() < TIMEOUT, "{:?}", begun.elapsed());
        drop(waiting);
    }

    #[test]
    fn an_answer_that_comes_byte_by_byte_has_one_deadline() {
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
        monitor.patience = SHORT;
        let late = monitor.ask("query-status", json!({})).unwrap_err().to_string();
        assert!(late.contains("timed out"), "{late}");
        drop(monitor);
        speaking.join().unwrap();
    }
}
