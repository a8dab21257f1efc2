//! How does a machine's engine ask its process 1 for something? By lines on a port that only the guest's root opens: a number and a
//! word, answered by the number and `ok`, or the number and what went wrong.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::identity::Identity;

/// Longest line that is read: a number and the longest request, with a token of up to 1023 characters, and room to spare. What is
/// longer is not the engine's.
const LONGEST: usize = 1280;
/// Most that is read at once: what the port's queue holds.
const PIECE: usize = 4096;

/// What is asked for.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) enum Request {
    /// End the command.
    Stop,
    /// Write the disk back.
    Flush,
    /// Write the disk back and let it hold still.
    Freeze,
    /// Let the disk go on; an error when it did so already.
    Thaw,
    /// Use all of a disk that has grown.
    Grow,
    /// Use every processor; an error when there are not so many yet.
    Cpus(usize),
    /// Set the clock, which stood still, to this time since 1970.
    Clock(Duration),
    /// Be this machine from now on: the memory may be another's.
    Identity(Identity),
}

/// The line.
#[derive(Debug)]
pub(super) struct Line {
    port: File,
    /// The begin of a line.
    begun: Vec<u8>,
}

impl Line {
    pub(super) fn over(port: File) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&port, true)?;
        Ok(Self { port, begun: Vec::new() })
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }

    /// What has been asked for since, with the numbers that the answers bear.
    pub(super) fn requests(&mut self) -> Vec<(u64, Request)> {
        let mut piece = [0; PIECE];
        let Ok(length) = self.port.read(&mut piece) else { return Vec::new() };
        take_lines(&mut self.begun, piece.get(..length).unwrap_or_default())
    }

    /// Answers a request. Nobody may listen any more; then the answer is lost.
    pub(super) fn answer(&mut self, number: u64, failure: Option<io::Error>) {
        let said = failure.map_or_else(|| "ok".to_owned(), |error| error.to_string().replace('\n', " "));
        if let Err(error) = self.port.write_all(format!("{number} {said}\n").as_bytes()) {
            eprintln!("the engine's line: {error}");
        }
    }
}

fn take_lines(begun: &mut Vec<u8>, read: &[u8]) -> Vec<(u64, Request)> {
    let mut found = Vec::new();
    for byte in read {
        match byte {
            b'\n' => found.extend(parse(&std::mem::take(begun))),
            _ if begun.len() <= LONGEST => begun.push(*byte),
            _ => {}
        }
    }
    found
}

fn parse(line: &[u8]) -> Option<(u64, Request)> {
    let (number, word) =
        std::str::from_utf8(line).ok().filter(|line| line.len() <= LONGEST)?.split_once(' ')?;
    let request = match word {
        "stop" => Request::Stop,
        "flush" => Request::Flush,
        "freeze" => Request::Freeze,
        "thaw" => Request::Thaw,
        "grow" => Request::Grow,
        _ => match word.split_once(' ')? {
            ("cpus", wanted) => Request::Cpus(wanted.parse().ok()?),
            ("clock", milliseconds) => Request::Clock(Duration::from_millis(milliseconds.parse().ok()?)),
            ("identity", told) => Request::Identity(Identity::parse(told)?),
            _ => return None,
        },
    };
    Some((number.parse().ok()?, request))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_and_what_is_none_is_passed_over() {
        let mut begun = Vec::new();
        assert_eq!(take_lines(&mut begun, b"0 flush\n1 sto"), [(0, Request::Flush)]);
        assert_eq!(
            take_lines(&mut begun, b"p\n2 freeze\n\n3 dance\nx thaw\n"),
            [(1, Request::Stop), (2, Request::Freeze)]
        );
        let flood = [b'a'; 2 * LONGEST];
        assert_eq!(take_lines(&mut begun, &flood), []);
        assert!(begun.len() <= LONGEST + 1);
        assert_eq!(
            take_lines(&mut begun, b"\n4 cpus 3\n5 grow\n6 thaw\n7 cpus x\n"),
            [(4, Request::Cpus(3)), (5, Request::Grow), (6, Request::Thaw)]
        );
        assert_eq!(
            take_lines(&mut begun, b"8 clock 1500\n9 clock soon\n10 be good\n"),
            [(8, Request::Clock(Duration::from_millis(1500)))]
        );
        let (id, token) = ("a".repeat(32), "t".repeat(1023));
        let longest = format!("{} identity 52:00:00:00:00:01 {id} {token}\n", u64::MAX);
        let told = take_lines(&mut begun, longest.as_bytes());
        assert!(matches!(told[..], [(u64::MAX, Request::Identity(_))]), "{told:?}");
    }
}
