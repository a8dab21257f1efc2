//! Control port of a virtual machine's process 1 (`hotdesk vm-init`): lines on a virtio-serial port.
//!
//! ```text
//!   host:  <number> <request>\n     for example  7 stop
//!   guest: <number> ok\n            or  <number> <reason>\n
//! ```
//! A guest that does not answer, or whose root answers in its place, costs no more than the timeout. QEMU
//! holds both ends of both pipes open, so a reader or writer that closes its end loses nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::host::command::host_error;
use crate::host::files::remove_if_there;
use crate::state::layout::Folder;
use crate::{EngineError, EngineResult};

const STEP: &str = "send a request to the guest's first process";
/// Most bytes that are read while waiting for an answer; a guest that sends more is misbehaving.
const MAX_BYTES: usize = 64 * 1024;

/// Makes the two pipes for QEMU.
pub(super) fn make(folder: &Folder) -> EngineResult<()> {
    for path in [folder.line_in(), folder.line_out()] {
        let made = remove_if_there(&path)
            .and_then(|()| mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).map_err(io::Error::from));
        made.map_err(host_error("make the guest's control port", &path))?;
    }
    Ok(())
}

/// Sends a request (see `packaging/vm/init` and `hotdesk vm-init`) and waits for its completion.
///
/// # Errors
/// `Failed` with the guest's reason, or when no answer comes within `timeout`.
pub(super) fn ask(folder: &Folder, request: &str, timeout: Duration) -> EngineResult<()> {
    // The arguments may be secret; errors have only the name.
    let name = request.split(' ').next().unwrap_or_default();
    let failed = |error: io::Error| EngineError::failed(STEP, format!("{name}: {error}"));
    let deadline = Instant::now() + timeout;
    let open = |path: &std::path::Path| {
        // Opened for reading and writing: then the open does not block without another end (fifo(7)).
        OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_NONBLOCK).open(path)
    };
    let mut answers = open(&folder.line_out()).map_err(failed)?;
    drop(read_available(&mut answers));
    let number = uuid::Uuid::new_v4().as_u64_pair().0;
    open(&folder.line_in())
        .and_then(|mut line| line.write_all(format!("{number} {request}\n").as_bytes()))
        .map_err(failed)?;
    let mut received = Vec::new();
    while Instant::now() < deadline && received.len() < MAX_BYTES {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|error| failed(io::Error::other(error)))?;
        let mut watched = [PollFd::new(&answers, PollFlags::IN)];
        match poll(&mut watched, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(error.into())),
        }
        received.extend(read_available(&mut answers));
        match answer_to(number, &received) {
            Some("ok") => return Ok(()),
            Some(refusal) => return Err(EngineError::failed(STEP, format!("{name}: {refusal}"))),
            None => {}
        }
    }
    Err(EngineError::failed(STEP, format!("{name}: no answer within {} s", timeout.as_secs())))
}

/// Reads up to [`MAX_BYTES`] that are available.
fn read_available(from: &mut File) -> Vec<u8> {
    let mut piece = vec![0; MAX_BYTES];
    let length = from.read(&mut piece).unwrap_or(0);
    piece.truncate(length);
    piece
}

/// The text of the complete line with that number.
fn answer_to(number: u64, received: &[u8]) -> Option<&str> {
    let whole = received.iter().rposition(|byte| *byte == b'\n').and_then(|end| received.get(..end))?;
    let number = format!("{number} ");
    whole
        .split(|byte| *byte == b'\n')
        .filter_map(|line| std::str::from_utf8(line).ok())
        .find_map(|line| line.strip_prefix(number.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::ComputerId;

    #[test]
    fn the_answer_with_the_number_counts_once_it_is_complete() {
        assert_eq!(answer_to(7, b""), None);
        assert_eq!(answer_to(7, b"6 ok\n7 o"), None);
        assert_eq!(answer_to(7, b"\xff\n77 no\n7 ok\n8 "), Some("ok"));
        assert_eq!(answer_to(7, b"7 it is full\n"), Some("it is full"));
    }

    #[test]
    fn a_guest_answers_or_the_request_times_out() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder { id: ComputerId::random(), path: temp.path().to_owned() };
        make(&folder).unwrap();
        let late = format!("{:#}", ask(&folder, "stop", Duration::from_millis(20)).unwrap_err());
        assert!(late.contains("no answer"), "{late}");
        let open = |path| OpenOptions::new().read(true).write(true).open(path).unwrap();
        let (mut asked, mut answers) = (open(folder.line_in()), open(folder.line_out()));
        let guest = std::thread::spawn(move || {
            let mut heard = String::new();
            while !heard.contains("grow\n") {
                let mut piece = [0; 512];
                let length = asked.read(&mut piece).unwrap();
                heard += std::str::from_utf8(&piece[..length]).unwrap();
            }
            let number = heard.lines().last().unwrap().split(' ').next().unwrap().to_owned();
            answers.write_all(format!("something\n{number} ok\n").as_bytes()).unwrap();
            answers
        });
        ask(&folder, "grow", Duration::from_secs(30)).unwrap();
        guest.join().unwrap();
    }
}
