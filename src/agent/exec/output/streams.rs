//! Output pipes of a command, read in the order in which the command writes to them.
//!
//! Two pipes have no common order, unless each holds a single write and the next write blocks until it is
//! read. Then the pipe that became readable first (epoll lists descriptors in that order) was written first.
//! So each pipe has one slot and is in packet mode (`O_DIRECT`), and one event is one read. Exceptions: a
//! program that reopens `/dev/stderr` writes outside packet mode, and its lines may move by up to 4 KiB; the
//! same holds for a line written into a flood of whole pages, for which a pipe is widened.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use tokio::io::unix::AsyncFd;

/// Requested pipe size in bytes, which the kernel rounds up to one page: one slot.
const ONE_SLOT: i32 = 1;
/// Default capacity of a pipe in bytes, for a flood and for a process left behind.
const WIDE: i32 = 64 * 1024;
/// Reads of a wide pipe before the other stream's turn: its whole capacity.
const READS: u32 = 16;
/// Number of whole pages in a row, without output on the other stream, that count as a flood: a quarter of a
/// megabyte.
const FLOOD_PAGES: u32 = 64;

/// Output stream of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdStream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl StdStream {
    const BOTH: [Self; 2] = [Self::Out, Self::Err];

    fn other(self) -> Self {
        match self {
            Self::Out => Self::Err,
            Self::Err => Self::Out,
        }
    }
}

/// Write ends of the pipes.
#[derive(Debug)]
pub struct PipeWriters {
    /// Standard output.
    pub out: OwnedFd,
    /// Standard error.
    pub err: OwnedFd,
}

/// Read ends of the pipes.
#[derive(Debug)]
pub struct OutputPipes {
    ready: AsyncFd<OwnedFd>,
    out: Option<OwnedFd>,
    err: Option<OwnedFd>,
    slot: i32,
    /// Streams to read next: one, or two during a flood.
    turns: VecDeque<Turn>,
    /// The last read stream, and the number of whole pages in a row that it had.
    run: (StdStream, u32),
}

/// Stream to read, whether to read it to its end, and the number of reads before the other stream's turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    stream: StdStream,
    hung_up: bool,
    reads: u32,
}

/// Creates both pipes. Needs a tokio runtime.
///
/// # Errors
/// When the kernel cannot create the pipes or the epoll set.
pub fn pair() -> io::Result<(OutputPipes, PipeWriters)> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let mut slot = 0;
    let mut make = |stream: StdStream| -> io::Result<(OwnedFd, OwnedFd)> {
        let (reader, writer) = match nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_DIRECT) {
            // gVisor has no packet mode: both streams are complete, their order is exact to within one slot.
            Err(Errno::EINVAL) => nix::unistd::pipe2(OFlag::O_CLOEXEC)?,
            made => made?,
        };
        rustix::io::ioctl_fionbio(&reader, true)?;
        slot = fcntl(&reader, FcntlArg::F_SETPIPE_SZ(ONE_SLOT))?;
        epoll::add(&epoll, &reader, EventData::new_u64(stream as u64), EventFlags::IN | EventFlags::ET)?;
        Ok((reader, writer))
    };
    let (out, to_out) = make(StdStream::Out)?;
    let (err, to_err) = make(StdStream::Err)?;
    // SAFETY: the descriptor is owned by what is registered, and nothing closes it before that is dropped.
    #[allow(unsafe_code)]
    let ready = unsafe { AsyncFd::register(epoll) }.map_err(io::Error::from)?;
    let streams = OutputPipes {
        ready,
        out: Some(out),
        err: Some(err),
        slot,
        turns: VecDeque::new(),
        run: (StdStream::Out, 0),
    };
    Ok((streams, PipeWriters { out: to_out, err: to_err }))
}

impl OutputPipes {
    /// Waits for the next output and reads it; `None` when both streams have ended. Cancel-safe.
    pub async fn next(&mut self, buffer: &mut [u8]) -> Option<(StdStream, usize)> {
        // A flood is always ready and must not starve the agent's other tasks.
        tokio::task::coop::consume_budget().await;
        loop {
            if self.out.is_none() && self.err.is_none() {
                return None;
            }
            if let Some(piece) = self.take(buffer) {
                return Some(piece);
            }
            let Ok(mut guard) = self.ready.readable().await else { return None };
            match poll_ready(guard.get_inner()) {
                Some(turn) => self.turns.push_back(turn),
                None => guard.clear_ready(),
            }
        }
    }

    /// Reads the next output if there is some.
    pub fn take(&mut self, buffer: &mut [u8]) -> Option<(StdStream, usize)> {
        loop {
            let turn = match self.turns.pop_front() {
                Some(turn) => turn,
                None => poll_ready(self.ready.get_ref())?,
            };
            let Some(pipe) = self.end(turn.stream).as_ref() else { continue };
            match rustix::io::read(pipe, &mut *buffer) {
                Ok(0) => *self.end(turn.stream) = None,
                Ok(length) => {
                    // A pipe with several slots reports only the first write.
                    if turn.hung_up || self.capacity(turn.stream) != self.slot {
                        self.again(turn);
                    }
                    self.count(turn.stream, length);
                    return Some((turn.stream, length));
                }
                Err(rustix::io::Errno::INTR) => self.turns.push_front(turn),
                Err(rustix::io::Errno::AGAIN) => {}
                Err(error) => {
                    tracing::warn!(%error, "reading a command's output failed");
                    *self.end(turn.stream) = None;
                }
            }
        }
    }

    /// Returns the pipes that some process still has open, widened.
    pub fn into_open(self) -> impl Iterator<Item = OwnedFd> {
        for stream in StdStream::BOTH {
            self.resize(stream, WIDE);
        }
        [self.out, self.err].into_iter().flatten()
    }

    fn again(&mut self, turn: Turn) {
        if turn.reads > 1 {
            return self.turns.push_front(Turn { reads: turn.reads - 1, ..turn });
        }
        self.turns.extend(poll_ready(self.ready.get_ref()));
        self.turns.push_back(Turn { reads: READS, ..turn });
    }

    fn end(&mut self, stream: StdStream) -> &mut Option<OwnedFd> {
        match stream {
            StdStream::Out => &mut self.out,
            StdStream::Err => &mut self.err,
        }
    }

    fn pipe(&self, stream: StdStream) -> Option<&OwnedFd> {
        match stream {
            StdStream::Out => self.out.as_ref(),
            StdStream::Err => self.err.as_ref(),
        }
    }

    fn capacity(&self, stream: StdStream) -> i32 {
        let asked = self.pipe(stream).map(|pipe| fcntl(pipe, FcntlArg::F_GETPIPE_SZ));
        asked.and_then(Result::ok).unwrap_or(0)
    }

    /// Detects a flood by whole pages in a row, and its end by output on the other stream.
    fn count(&mut self, stream: StdStream, length: usize) {
        let whole = i32::try_from(length).is_ok_and(|length| length == self.slot);
        let before = if self.run.0 == stream { self.run.1 } else { 0 };
        let run = if whole { before.saturating_add(1) } else { 0 };
        if self.run.0 != stream && self.capacity(stream.other()) > self.slot {
            self.resize(stream.other(), ONE_SLOT);
        }
        if run == FLOOD_PAGES {
            self.resize(stream, WIDE);
        }
        self.run = (stream, run);
    }

    /// Best effort: a pipe that holds more than the new size is unchanged, and the user's limit of pipe pages
    /// may be reached.
    fn resize(&self, stream: StdStream, size: i32) {
        if let Some(pipe) = self.pipe(stream)
            && let Err(error) = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(size))
        {
            tracing::debug!(%error, ?stream, size, "cannot resize a pipe");
        }
    }
}

/// Returns the stream that became readable first, without waiting.
fn poll_ready(epoll: impl AsFd) -> Option<Turn> {
    let mut events = Vec::with_capacity(1);
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // On EINTR the caller waits and polls again.
    let found = epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), Some(&at_once));
    let event = match found {
        Ok(_) => events.first()?,
        Err(_) => return None,
    };
    let (data, flags) = (event.data, event.flags);
    let stream = if data.u64() == StdStream::Err as u64 { StdStream::Err } else { StdStream::Out };
    Some(Turn { stream, hung_up: flags.contains(EventFlags::HUP), reads: READS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[tokio::test]
    async fn writes_are_read_in_their_order() {
        let (mut streams, writers) = pair().unwrap();
        let writing = tokio::task::spawn_blocking(move || {
            let mut to = [std::fs::File::from(writers.out), std::fs::File::from(writers.err)];
            for number in 0_u32..20_000 {
                to[usize::from(number % 3 == 0)].write_all(&number.to_le_bytes()).unwrap();
            }
        });
        let (mut buffer, mut seen) = ([0; 65_536], Vec::new());
        while let Some((stream, length)) = streams.next(&mut buffer).await {
            assert_eq!(length, 4);
            let number = u32::from_le_bytes(buffer[..4].try_into().unwrap());
            assert_eq!(stream, if number % 3 == 0 { StdStream::Err } else { StdStream::Out });
            seen.push(number);
        }
        writing.await.unwrap();
        assert_eq!(seen, (0..20_000).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_flood_is_complete_and_later_writes_are_in_order() {
        let (mut streams, writers) = pair().unwrap();
        let writing = tokio::task::spawn_blocking(move || {
            let mut out = std::fs::File::from(writers.out);
            let mut err = std::fs::File::from(writers.err);
            out.write_all(&vec![b'x'; 5_000_001]).unwrap();
            err.write_all(b"e").unwrap();
            out.write_all(b"y").unwrap();
        });
        let mut buffer = [0; 65_536];
        let (mut out, mut at_error) = (Vec::new(), None);
        while let Some((stream, length)) = streams.next(&mut buffer).await {
            match stream {
                StdStream::Out => out.extend_from_slice(&buffer[..length]),
                StdStream::Err => at_error = Some(out.len()),
            }
        }
        writing.await.unwrap();
        assert_eq!((out.len(), out.last()), (5_000_002, Some(&b'y')));
        assert!(at_error.is_some_and(|at| at >= 5_000_001 - 65_536), "{at_error:?}");
    }
}
