//! Requests to the launcher of an instance: `ready` and `suspend`, each with the generation, and an answer in JSON.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use super::CONTROL_SOCKET;
use super::machine::Machine;
use crate::{EngineError, EngineResult};

/// Waits until the guest runs.
pub(super) const READY: &str = "ready";
/// Saves the memory of the guest; after the answer the instance ends.
pub(super) const SUSPEND: &str = "suspend";

const STEP: &str = "ask the launcher";
/// Largest request, and largest answer, in bytes.
const MAX_TEXT: u64 = 16 * 1024;
/// Timeout of the boot, after which nobody waits for it any more.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(300);
const CONNECT_PAUSE: Duration = Duration::from_millis(20);
/// Timeout of a request's line, and of the client's end after the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept: the process has too many open files then.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Why it failed; `None` when it is done.
    pub(super) failure: Option<String>,
}

/// Sends a request to the launcher and prints the answer. Gives up when standard input ends: then nobody waits for it.
pub(super) fn request(verb: &str, generation: u64) -> EngineResult<()> {
    let ask = || -> io::Result<()> {
        let mut stream = connect()?;
        writeln!(stream, "{verb} {generation}")?;
        await_answer(&stream)?;
        let mut answer = Vec::new();
        stream.take(MAX_TEXT).read_to_end(&mut answer)?;
        io::stdout().write_all(&answer)?;
        io::stdout().flush()
    };
    ask().map_err(|error| EngineError::failed(STEP, error))
}

/// Connects to the launcher, which listens once the guest runs.
fn connect() -> io::Result<UnixStream> {
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    loop {
        match UnixStream::connect(CONTROL_SOCKET) {
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => thread::sleep(CONNECT_PAUSE),
            Ok(stream) => return Ok(stream),
        }
    }
}

/// Waits until there is something to read.
fn await_answer(stream: &UnixStream) -> io::Result<()> {
    let input = io::stdin();
    loop {
        let mut ready =
            [PollFd::new(stream.as_fd(), PollFlags::POLLIN), PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        if ready[0].any().unwrap_or_default() {
            return Ok(());
        }
        if ready[1].any().unwrap_or_default() && input.lock().read(&mut [0; 64])? == 0 {
            return Err(io::Error::other("nobody waits for the answer any more"));
        }
    }
}

/// Answers requests, one after another, until the guest must end.
pub(super) fn serve(listener: &UnixListener, machine: &Machine) {
    loop {
        let handled = listener.accept().and_then(|(stream, _)| handle(&stream, machine));
        match handled {
            Ok(AfterRequest::Continue) => {}
            Ok(AfterRequest::End) => return,
            Err(error) => {
                eprintln!("a request to the launcher failed: {error}");
                thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

/// What the launcher does after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterRequest {
    Continue,
    /// The guest is suspended, or cannot continue.
    End,
}

fn handle(stream: &UnixStream, machine: &Machine) -> io::Result<AfterRequest> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_TEXT)).read_line(&mut line)?;
    let Some(verb) = verb_of(&line, machine.generation()) else {
        let runs = machine.generation();
        let why = format!("generation {runs} runs here, and the request is {:?}", line.trim());
        return answer(stream, Some(why)).map(|()| AfterRequest::Continue);
    };
    if verb == READY {
        return answer(stream, None).map(|()| AfterRequest::Continue);
    }
    let Err(error) = machine.save(|| is_connected(stream)) else {
        // The memory is whole, whoever receives the answer.
        if answer(stream, None).is_ok() {
            let mut client = stream;
            let _ended = client.read(&mut [0; 1]);
        }
        return Ok(AfterRequest::End);
    };
    let undone = machine.undo_save();
    let after = if undone.is_ok() { AfterRequest::Continue } else { AfterRequest::End };
    let why = match undone {
        Ok(()) => format!("{error:#}"),
        Err(paused) => format!("{error:#}; the guest ends, because it could not continue: {paused:#}"),
    };
    // The client may have gone.
    let _answered = answer(stream, Some(why));
    Ok(after)
}

/// The known verb of a request, for the boot of this generation.
fn verb_of(line: &str, generation: u64) -> Option<&'static str> {
    let (verb, wanted) = line.trim().split_once(' ')?;
    if wanted != generation.to_string() {
        return None;
    }
    [READY, SUSPEND].into_iter().find(|known| *known == verb)
}

fn answer(mut stream: &UnixStream, failure: Option<String>) -> io::Result<()> {
    let text = serde_json::to_vec(&Answer { failure })?;
    stream.write_all(&text)?;
    stream.shutdown(std::net::Shutdown::Write)
}

/// Whether the client still waits: it sends nothing after its request.
fn is_connected(stream: &UnixStream) -> bool {
    let look = || -> io::Result<usize> {
        stream.set_nonblocking(true)?;
        let mut client = stream;
        let received = client.read(&mut [0; 1]);
        stream.set_nonblocking(false)?;
        received
    };
    match look() {
        Ok(received) => received > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_for_one_generation() {
        assert_eq!(verb_of("suspend 7\n", 7), Some(SUSPEND));
        assert_eq!(verb_of("ready 7\n", 7), Some(READY));
        for refused in ["suspend 6\n", "suspend\n", "suspend 7 8\n", "kill 7\n", ""] {
            assert_eq!(verb_of(refused, 7), None, "{refused:?}");
        }
    }

    #[test]
    fn a_client_that_has_gone_is_noticed() {
        let (near, far) = UnixStream::pair().unwrap();
        assert!(is_connected(&near));
        answer(&far, None).unwrap();
        let mut text = String::new();
        let mut client = &near;
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, r#"{"failure":null}"#);
        drop(far);
        assert!(!is_connected(&near));
    }
}
