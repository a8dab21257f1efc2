//! How is a QEMU process spoken to? By QMP: a line of JSON each way on its unix socket, bounded in length and in time.
//!
//! A client of our own, because a verb asks a handful of commands on a connection that it opens and closes, blocks while it
//! does, and hands over descriptors, which the crates for QMP do not.

use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde_json::{Value, json};

use crate::engine::{EngineError, EngineResult};

/// How long an answer may take. QEMU answers in milliseconds; one that waits for a slow disk takes seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest line that is read: the description of all devices is below 64 KiB.
const LONGEST: u64 = 1 << 20;
/// Most events that are passed over while waiting for an answer; a guest causes some of them.
const MOST_EVENTS: usize = 4096;

/// A connection to a QEMU's monitor. It serves one at a time: who else connects waits.
#[derive(Debug)]
pub(super) struct Monitor {
    stream: BufReader<UnixStream>,
    /// How many commands were asked: the label of each.
    asked: u64,
}

impl Monitor {
    /// Connects and agrees on the protocol.
    pub(super) fn open(socket: &Path) -> EngineResult<Self> {
        const STEP: &str = "reach the machine's monitor";
        let failed =
            |error: std::io::Error| EngineError::failed(STEP, format!("{}: {error}", socket.display()));
        let stream = UnixStream::connect(socket).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        let mut monitor = Self { stream: BufReader::new(stream), asked: 0 };
        let greeting = monitor.line(STEP)?;
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
        let failed = |error: std::io::Error| EngineError::failed(command, error);
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
            let mut answer = self.line(command)?;
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

    fn line(&mut self, step: &'static str) -> EngineResult<Value> {
        let mut line = Vec::new();
        let failed = |error: std::io::Error| EngineError::failed(step, error);
        (&mut self.stream).take(LONGEST).read_until(b'\n', &mut line).map_err(failed)?;
        if line.is_empty() {
            return Err(EngineError::failed(step, "the machine's monitor has gone"));
        }
        serde_json::from_slice(&line).map_err(|error| EngineError::failed(step, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;

    /// Speaks as QEMU would: a greeting, then one of these lines for every line read.
    fn speaks(answers: &'static [&'static str]) -> (tempfile::TempDir, std::thread::JoinHandle<String>) {
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
        assert_eq!(monitor.until("query-status", PATIENCE, two).unwrap(), "two");
        speaking.join().unwrap();
    }
}
