//! How is a virtual machine's process 1 (`hotdesk vm-init`) asked for something? By lines on a port of its own; a guest that does not
//! answer, or whose root answers in its place, costs no more than the wait.
//!
//! QEMU holds both ends of both ways open, so that the port never counts as closed and nobody is lost who comes and goes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::command::host_error;
use crate::layout::{Folder, remove_if_there};
use crate::{EngineError, EngineResult};

const STEP: &str = "ask the guest's first process";
/// Most that is read while waiting for an answer: a guest that says more says something else.
const MOST: usize = 64 * 1024;

/// Makes the two ways, for QEMU to open.
pub(super) fn make(folder: &Folder) -> EngineResult<()> {
    for path in [folder.line_in(), folder.line_out()] {
        let made = remove_if_there(&path)
            .and_then(|()| mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).map_err(io::Error::from));
        made.map_err(host_error("make the line to the guest", &path))?;
    }
    Ok(())
}

/// Asks for `word` (see `packaging/vm/init` and `hotdesk vm-init`) and waits for its end, for at most `patience`.
pub(super) fn ask(folder: &Folder, word: &str, patience: Duration) -> EngineResult<()> {
    // What comes behind its name may be a secret.
    let name = word.split(' ').next().unwrap_or_default();
    let failed = |error: io::Error| EngineError::failed(STEP, format!("{name}: {error}"));
    let deadline = Instant::now() + patience;
    let open = |path: &std::path::Path| {
        // Both ways: a pipe whose other end has gone then blocks nobody.
        OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_NONBLOCK).open(path)
    };
    let mut answers = open(&folder.line_out()).map_err(failed)?;
    drop(read_all(&mut answers));
    let number = uuid::Uuid::new_v4().as_u64_pair().0;
    open(&folder.line_in())
        .and_then(|mut line| line.write_all(format!("{number} {word}\n").as_bytes()))
        .map_err(failed)?;
    let mut heard = Vec::new();
    while Instant::now() < deadline && heard.len() < MOST {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|error| failed(io::Error::other(error)))?;
        let mut watched = [PollFd::new(&answers, PollFlags::IN)];
        match poll(&mut watched, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(error.into())),
        }
        heard.extend(read_all(&mut answers));
        match answer_to(number, &heard) {
            Some("ok") => return Ok(()),
            Some(refusal) => return Err(EngineError::failed(STEP, format!("{name}: {refusal}"))),
            None => {}
        }
    }
    Err(EngineError::failed(STEP, format!("{name}: no answer within {} s", patience.as_secs())))
}

/// What waits to be read, a piece of it.
fn read_all(from: &mut File) -> Vec<u8> {
    let mut piece = vec![0; MOST];
    let length = from.read(&mut piece).unwrap_or(0);
    piece.truncate(length);
    piece
}

/// What the whole line with that number says.
fn answer_to(number: u64, heard: &[u8]) -> Option<&str> {
    let whole = heard.iter().rposition(|byte| *byte == b'\n').and_then(|end| heard.get(..end))?;
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
    fn the_answer_with_the_number_counts_once_it_is_whole() {
        assert_eq!(answer_to(7, b""), None);
        assert_eq!(answer_to(7, b"6 ok\n7 o"), None);
        assert_eq!(answer_to(7, b"\xff\n77 no\n7 ok\n8 "), Some("ok"));
        assert_eq!(answer_to(7, b"7 it is full\n"), Some("it is full"));
    }

    #[test]
    fn a_guest_answers_or_the_wait_ends() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder { id: ComputerId::random(), path: temp.path().to_owned() };
        make(&folder).unwrap();
        let late = ask(&folder, "stop", Duration::from_millis(20)).unwrap_err().to_string();
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
