//! Requests of a machine's engine to process 1, as lines on a serial port that only the guest's root may
//! open.
//!
//! ```text
//! engine: <number> <request> [arguments]
//! guest:  <number> ok | <number> <error>
//! ```

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::identity::MachineIdentity;

/// Longest request line: a number and the identity request with a token of up to 1023 characters. Longer
/// lines are ignored.
const MAX_LINE: usize = 1280;
/// Bytes read at once: the size of the port's queue.
const PIECE: usize = 4096;

/// A request of the engine.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) enum EngineRequest {
    /// End the command.
    Stop,
    /// Write the disk back.
    Flush,
    /// Write the disk back and freeze it.
    Freeze,
    /// Thaw the disk; an error when it has thawed by itself.
    Thaw,
    /// Grow the file system to a disk that has grown.
    Grow,
    /// Bring all processors online; an error when there are fewer than this.
    Cpus(usize),
    /// Set the clock, which stood still, to this time since 1970-01-01 UTC.
    Clock(Duration),
    /// Take this identity: the memory may be another machine's.
    Identity(MachineIdentity),
}

/// The serial port.
#[derive(Debug)]
pub(super) struct EnginePort {
    port: File,
    /// Beginning of an incomplete line.
    begun: Vec<u8>,
}

impl EnginePort {
    pub(super) fn new(port: File) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&port, true)?;
        Ok(Self { port, begun: Vec::new() })
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }

    /// Requests that arrived since the last call, with their numbers. Does not block.
    pub(super) fn requests(&mut self) -> Vec<(u64, EngineRequest)> {
        let mut piece = [0; PIECE];
        let Ok(length) = self.port.read(&mut piece) else { return Vec::new() };
        take_lines(&mut self.begun, piece.get(..length).unwrap_or_default())
    }

    /// Answers a request. The answer is lost when the engine no longer reads.
    pub(super) fn answer(&mut self, number: u64, failure: Option<io::Error>) {
        let answer = failure.map_or_else(|| "ok".to_owned(), |error| error.to_string().replace('\n', " "));
        if let Err(error) = self.port.write_all(format!("{number} {answer}\n").as_bytes()) {
            eprintln!("port of the engine: {error}");
        }
    }
}

fn take_lines(begun: &mut Vec<u8>, read: &[u8]) -> Vec<(u64, EngineRequest)> {
    let mut found = Vec::new();
    for byte in read {
        match byte {
            b'\n' => found.extend(parse(&std::mem::take(begun))),
            _ if begun.len() <= MAX_LINE => begun.push(*byte),
            _ => {}
        }
    }
    found
}

fn parse(line: &[u8]) -> Option<(u64, EngineRequest)> {
    let (number, word) =
        std::str::from_utf8(line).ok().filter(|line| line.len() <= MAX_LINE)?.split_once(' ')?;
    let request = match word {
        "stop" => EngineRequest::Stop,
        "flush" => EngineRequest::Flush,
        "freeze" => EngineRequest::Freeze,
        "thaw" => EngineRequest::Thaw,
        "grow" => EngineRequest::Grow,
        _ => match word.split_once(' ')? {
            ("cpus", wanted) => EngineRequest::Cpus(wanted.parse().ok()?),
            ("clock", milliseconds) => {
                EngineRequest::Clock(Duration::from_millis(milliseconds.parse().ok()?))
            }
            ("identity", values) => EngineRequest::Identity(MachineIdentity::parse(values)?),
            _ => return None,
        },
    };
    Some((number.parse().ok()?, request))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_assembled_from_pieces_and_bad_lines_are_ignored() {
        let mut begun = Vec::new();
        assert_eq!(take_lines(&mut begun, b"0 flush\n1 sto"), [(0, EngineRequest::Flush)]);
        assert_eq!(
            take_lines(&mut begun, b"p\n2 freeze\n\n3 dance\nx thaw\n"),
            [(1, EngineRequest::Stop), (2, EngineRequest::Freeze)]
        );
        let flood = [b'a'; 2 * MAX_LINE];
        assert_eq!(take_lines(&mut begun, &flood), []);
        assert!(begun.len() <= MAX_LINE + 1);
        assert_eq!(
            take_lines(&mut begun, b"\n4 cpus 3\n5 grow\n6 thaw\n7 cpus x\n"),
            [(4, EngineRequest::Cpus(3)), (5, EngineRequest::Grow), (6, EngineRequest::Thaw)]
        );
        assert_eq!(
            take_lines(&mut begun, b"8 clock 1500\n9 clock soon\n10 be good\n"),
            [(8, EngineRequest::Clock(Duration::from_millis(1500)))]
        );
        let (id, token) = ("a".repeat(32), "t".repeat(1023));
        let longest = format!("{} identity 52:00:00:00:00:01 {id} {token}\n", u64::MAX);
        let told = take_lines(&mut begun, longest.as_bytes());
        assert!(matches!(told[..], [(u64::MAX, EngineRequest::Identity(_))]), "{told:?}");
    }
}
