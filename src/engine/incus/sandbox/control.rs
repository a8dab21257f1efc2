//! Requests to the launcher of an instance: `ready`, `suspend` and `checkpoint`, each with the generation, and answers in JSON.
//!
//! ```text
//!   ready, suspend:  request ------------------------------------------------> answer
//!   checkpoint:      request -- answer: the guest stands still -- `hold` every some seconds
//!                                                              -- `continue` -- answer: it goes on
//! ```
//! The guest of a checkpoint goes on also when the client ends or is silent.

use std::fs::File;
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
/// Saves the memory of the guest, which then stands still until the client says otherwise.
pub(super) const CHECKPOINT: &str = "checkpoint";
/// Line of a client that still needs a guest that stands still.
pub(super) const HOLD: &str = "hold";
/// Line of a client that does not need it any more.
pub(super) const CONTINUE: &str = "continue";

const STEP: &str = "ask the launcher";
/// Largest request, and largest answer, in bytes.
const MAX_TEXT: u64 = 16 * 1024;
/// Timeout of the boot, after which nobody waits for it any more.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(300);
const CONNECT_PAUSE: Duration = Duration::from_millis(20);
/// Longest silence of the client of a checkpoint. It sends a line every few seconds, also on a busy host. While its network is
/// cut, nothing else tells that it has gone.
const HOLD_TIMEOUT: Duration = Duration::from_secs(60);
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

/// Sends a request to the launcher, with the lines of standard input after it, and prints the answers. Gives up when standard
/// input ends: then nobody waits for them.
pub(super) fn request(verb: &str, generation: u64) -> EngineResult<()> {
    let ask = || -> io::Result<()> {
        let mut stream = connect()?;
        writeln!(stream, "{verb} {generation}")?;
        carry(&stream)
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

/// Carries standard input to the launcher, and its answers to standard output, until it has sent the last one.
fn carry(stream: &UnixStream) -> io::Result<()> {
    // Not the buffered standard input, whose buffer poll(2) does not see.
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (mut lines, mut launcher, mut output) = (&input, stream, io::stdout());
    let mut buffer = [0; 4096];
    loop {
        let mut ready =
            [PollFd::new(stream.as_fd(), PollFlags::POLLIN), PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        let [has_answer, has_line] = ready.map(|source| source.any().unwrap_or_default());
        if has_answer {
            let length = launcher.read(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            output.write_all(&buffer[..length])?;
            output.flush()?;
        } else if has_line {
            let length = lines.read(&mut buffer)?;
            if length == 0 {
                return Err(io::Error::other("nobody waits for the answer any more"));
            }
            launcher.write_all(&buffer[..length])?;
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
    if !is_connected(stream) {
        return Ok(AfterRequest::Continue);
    }
    let mut saved = machine.save(|| is_connected(stream));
    if verb == SUSPEND && saved.is_ok() {
        // The memory is whole, whoever receives the answer.
        if answer(stream, None).is_ok() {
            let mut client = stream;
            let _ended = client.read(&mut [0; 1]);
        }
        return Ok(AfterRequest::End);
    }
    if saved.is_ok() {
        saved = hold(stream).map_err(|error| EngineError::failed("hold the guest", error));
    }
    let undone = machine.undo_save();
    let after = if undone.is_ok() { AfterRequest::Continue } else { AfterRequest::End };
    let ends = |paused: EngineError| format!("the guest ends, because it could not continue: {paused:#}");
    let why = match (saved, undone) {
        (Ok(()), Ok(())) => None,
        (Ok(()), Err(paused)) => Some(ends(paused)),
        (Err(error), Ok(())) => Some(format!("{error:#}")),
        (Err(error), Err(paused)) => Some(format!("{error:#}; {}", ends(paused))),
    };
    // The client may have gone.
    let _answered = answer(stream, why);
    Ok(after)
}

/// Answers that the guest stands still with its memory saved, and waits until the client needs that no more.
///
/// # Errors
/// The client has gone, or was silent: what it does with the memory meanwhile is not of one moment.
fn hold(stream: &UnixStream) -> io::Result<()> {
    let mut text = answer_text(None)?;
    text.push(b'\n');
    let mut client = stream;
    client.write_all(&text)?;
    stream.set_read_timeout(Some(HOLD_TIMEOUT))?;
    for line in BufReader::new(stream.take(MAX_TEXT)).lines() {
        match line?.as_str() {
            HOLD => {}
            CONTINUE => return Ok(()),
            other => return Err(io::Error::other(format!("an unknown line: {other:?}"))),
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// The known verb of a request, for the boot of this generation.
fn verb_of(line: &str, generation: u64) -> Option<&'static str> {
    let (verb, wanted) = line.trim().split_once(' ')?;
    if wanted != generation.to_string() {
        return None;
    }
    [READY, SUSPEND, CHECKPOINT].into_iter().find(|known| *known == verb)
}

/// Sends the last answer.
fn answer(mut stream: &UnixStream, failure: Option<String>) -> io::Result<()> {
    stream.write_all(&answer_text(failure)?)?;
    stream.shutdown(std::net::Shutdown::Write)
}

fn answer_text(failure: Option<String>) -> io::Result<Vec<u8>> {
    Ok(serde_json::to_vec(&Answer { failure })?)
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
        assert_eq!(verb_of("checkpoint 7\n", 7), Some(CHECKPOINT));
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

    #[test]
    fn a_guest_stands_still_until_its_client_says_so_or_has_gone() {
        for (lines, is_released) in
            [("hold\nhold\ncontinue\n", true), ("hold\n", false), ("kill\n", false), ("", false)]
        {
            let (near, mut far) = UnixStream::pair().unwrap();
            far.write_all(lines.as_bytes()).unwrap();
            far.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(hold(&near).is_ok(), is_released, "{lines:?}");
            drop(near);
            let mut answers = String::new();
            far.read_to_string(&mut answers).unwrap();
            assert_eq!(answers, "{\"failure\":null}\n");
        }
    }
}
