//! In which order did a command write to its two streams? Read so that the kernel itself tells.
//!
//! Two pipes have no common order, unless each holds a single write and the next waits until it is read. Then a look
//! at which became readable first (epoll lists descriptors in that order) is a look at which was written first. So
//! each pipe has one slot and is in packet mode (`O_DIRECT`), and one event is one read. Not covered: a program that opens
//! `/dev/stderr` anew writes outside packet mode, and its lines may move by up to 4 KiB; so may a line that is written
//! into a flood of whole pages, for which a pipe is widened.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use tokio::io::unix::AsyncFd;

/// Asked of the kernel, which rounds it up to one page: one slot.
const ONE_SLOT: i32 = 1;
/// The usual capacity of a pipe: what a flood, and a process left behind, may have.
const WIDE: i32 = 64 * 1024;
/// Reads of a wide pipe before the other stream has its turn: its whole capacity.
const READS: u32 = 16;
/// So many whole pages in a row, with nothing on the other stream, are a flood: a quarter of a megabyte.
const FLOOD_PAGES: u32 = 64;

/// One of a command's two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Stream {
    const BOTH: [Self; 2] = [Self::Out, Self::Err];

    fn other(self) -> Self {
        match self {
            Self::Out => Self::Err,
            Self::Err => Self::Out,
        }
    }
}

/// The ends that a command writes to.
#[derive(Debug)]
pub struct Writers {
    /// Standard output.
    pub out: OwnedFd,
    /// Standard error.
    pub err: OwnedFd,
}

/// The ends that are read.
#[derive(Debug)]
pub struct Streams {
    ready: AsyncFd<OwnedFd>,
    out: Option<OwnedFd>,
    err: Option<OwnedFd>,
    slot: i32,
    /// Whose turn it is, first to last: one, or two while a flood is read.
    turns: VecDeque<Turn>,
    /// The stream read last, and how many whole pages of it in a row.
    run: (Stream, u32),
}

/// Which stream is to be read, whether until nothing is left, and how often before the other has its turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    stream: Stream,
    hung_up: bool,
    reads: u32,
}

/// Makes both pipes. Needs a runtime.
///
/// # Errors
/// When the kernel refuses.
pub fn pair() -> io::Result<(Streams, Writers)> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let mut slot = 0;
    let mut make = |stream: Stream| -> io::Result<(OwnedFd, OwnedFd)> {
        let (reader, writer) = match nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_DIRECT) {
            // gVisor has no packet mode: both streams are whole, their order is right to within a slot.
            Err(Errno::EINVAL) => nix::unistd::pipe2(OFlag::O_CLOEXEC)?,
            made => made?,
        };
        rustix::io::ioctl_fionbio(&reader, true)?;
        slot = fcntl(&reader, FcntlArg::F_SETPIPE_SZ(ONE_SLOT))?;
        epoll::add(&epoll, &reader, EventData::new_u64(stream as u64), EventFlags::IN | EventFlags::ET)?;
        Ok((reader, writer))
    };
    let (out, to_out) = make(Stream::Out)?;
    let (err, to_err) = make(Stream::Err)?;
    // SAFETY: the descriptor is owned by what is registered, and nothing closes it before that is dropped.
    #[allow(unsafe_code)]
    let ready = unsafe { AsyncFd::register(epoll) }.map_err(io::Error::from)?;
    let streams = Streams {
        ready,
        out: Some(out),
        err: Some(err),
        slot,
        turns: VecDeque::new(),
        run: (Stream::Out, 0),
    };
    Ok((streams, Writers { out: to_out, err: to_err }))
}

impl Streams {
    /// Waits for what was written next and reads it; `None` when both streams have ended. Nothing is lost when the
    /// future is dropped.
    pub async fn next(&mut self, buffer: &mut [u8]) -> Option<(Stream, usize)> {
        // A flood is always ready; the agent's other work is not to starve beside it.
        tokio::task::coop::consume_budget().await;
        loop {
            if self.out.is_none() && self.err.is_none() {
                return None;
            }
            if let Some(piece) = self.take(buffer) {
                return Some(piece);
            }
            let Ok(mut guard) = self.ready.readable().await else { return None };
            match look(guard.get_inner()) {
                Some(turn) => self.turns.push_back(turn),
                None => guard.clear_ready(),
            }
        }
    }

    /// Reads what was written next, if anything is there.
    pub fn take(&mut self, buffer: &mut [u8]) -> Option<(Stream, usize)> {
        loop {
            let turn = match self.turns.pop_front() {
                Some(turn) => turn,
                None => look(self.ready.get_ref())?,
            };
            let Some(pipe) = self.end(turn.stream).as_ref() else { continue };
            match rustix::io::read(pipe, &mut *buffer) {
                Ok(0) => *self.end(turn.stream) = None,
                Ok(length) => {
                    // A pipe of several slots tells of the first write only.
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

    /// The pipes that somebody still holds, wide again.
    pub fn into_open(self) -> impl Iterator<Item = OwnedFd> {
        for stream in Stream::BOTH {
            self.resize(stream, WIDE);
        }
        [self.out, self.err].into_iter().flatten()
    }

    fn again(&mut self, turn: Turn) {
        if turn.reads > 1 {
            return self.turns.push_front(Turn { reads: turn.reads - 1, ..turn });
        }
        self.turns.extend(look(self.ready.get_ref()));
        self.turns.push_back(Turn { reads: READS, ..turn });
    }

    fn end(&mut self, stream: Stream) -> &mut Option<OwnedFd> {
        match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        }
    }

    fn pipe(&self, stream: Stream) -> Option<&OwnedFd> {
        match stream {
            Stream::Out => self.out.as_ref(),
            Stream::Err => self.err.as_ref(),
        }
    }

    fn capacity(&self, stream: Stream) -> i32 {
        let asked = self.pipe(stream).map(|pipe| fcntl(pipe, FcntlArg::F_GETPIPE_SZ));
        asked.and_then(Result::ok).unwrap_or(0)
    }

    /// Tells a flood by whole pages in a row, and its end by the other stream.
    fn count(&mut self, stream: Stream, length: usize) {
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

    /// Best effort: a pipe that holds more than the new size stays as it is, and a user's pages may be used up.
    fn resize(&self, stream: Stream, size: i32) {
        if let Some(pipe) = self.pipe(stream)
            && let Err(error) = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(size))
        {
            tracing::debug!(%error, ?stream, size, "a pipe keeps its size");
        }
    }
}

/// Which stream became readable first, without waiting.
fn look(epoll: impl AsFd) -> Option<Turn> {
    let mut events = Vec::with_capacity(1);
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // EINTR looks like nothing; the caller waits and looks again.
    let found = epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), Some(&at_once));
    let event = match found {
        Ok(_) => events.first()?,
        Err(_) => return None,
    };
    let (data, flags) = (event.data, event.flags);
    let stream = if data.u64() == Stream::Err as u64 { Stream::Err } else { Stream::Out };
    Some(Turn { stream, hung_up: flags.contains(EventFlags::HUP), reads: READS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[tokio::test]
    async fn writes_come_in_the_order_in_which_they_were_made() {
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
            assert_eq!(stream, if number % 3 == 0 { Stream::Err } else { Stream::Out });
            seen.push(number);
        }
        writing.await.unwrap();
        assert_eq!(seen, (0..20_000).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_flood_is_whole_and_what_comes_after_it_in_order() {
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
                Stream::Out => out.extend_from_slice(&buffer[..length]),
                Stream::Err => at_error = Some(out.len()),
            }
        }
        writing.await.unwrap();
        assert_eq!((out.len(), out.last()), (5_000_002, Some(&b'y')));
        assert!(at_error.is_some_and(|at| at >= 5_000_001 - 65_536), "{at_error:?}");
    }
}
