//! How much of a background process's output is kept? The last bytes of each stream, under their absolute offsets, and
//! the order in which they were written.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::streams::Stream;

/// Most bytes kept of one stream.
pub const MOST: usize = 1024 * 1024;
/// Bytes that each stream may keep in any case; all that may be remembered come to 16 MiB.
pub const OWN: usize = 64 * 1024;
/// Bytes that all streams together may keep beyond that: sixteen processes that write all they can.
pub const COMMON: usize = 32 * 1024 * 1024;
/// Most changes between the streams that are remembered; older bytes are then known apart only.
const MOST_RUNS: usize = 16 * 1024;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Both streams in the order in which they were written.
    Both,
    /// One of them.
    One(Stream),
}

/// The room that all logs have in common.
#[derive(Clone, Debug)]
pub struct Room(Arc<AtomicUsize>);

impl Room {
    /// Room for so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The last bytes of one stream.
#[derive(Debug)]
struct Ring {
    bytes: VecDeque<u8>,
    /// The offset after the last byte.
    end: u64,
    /// Bytes that may be kept now.
    limit: usize,
    room: Room,
}

impl Ring {
    fn new(room: Room) -> Self {
        Self { bytes: VecDeque::new(), end: 0, limit: OWN, room }
    }

    /// The offset of the first byte kept.
    fn start(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    fn push(&mut self, bytes: &[u8]) {
        while self.bytes.len() + bytes.len() > self.limit && self.limit < MOST && self.room.take(OWN) {
            self.limit += OWN;
        }
        self.end += bytes.len() as u64;
        let bytes = &bytes[bytes.len().saturating_sub(self.limit)..];
        let excess = (self.bytes.len() + bytes.len()).saturating_sub(self.limit);
        self.bytes.drain(..excess);
        self.bytes.extend(bytes);
    }

    fn copy(&self, from: u64, length: usize, into: &mut Vec<u8>) {
        let skip = usize::try_from(from - self.start()).unwrap_or(usize::MAX);
        into.extend(self.bytes.iter().skip(skip).take(length));
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.room.give(self.limit - OWN);
    }
}

/// So many bytes of one stream in a row.
#[derive(Clone, Copy, Debug)]
struct Run {
    stream: Stream,
    /// The offset of the first in its stream.
    from: u64,
    length: u64,
}

/// The output of one process.
#[derive(Debug)]
pub struct Log {
    out: Ring,
    err: Ring,
    runs: VecDeque<Run>,
    /// The offset of the first run's first byte among the bytes of both.
    runs_start: u64,
    /// Nothing more can come.
    pub over: bool,
}

impl Log {
    /// An empty one.
    pub fn new(room: &Room) -> Self {
        Self {
            out: Ring::new(room.clone()),
            err: Ring::new(room.clone()),
            runs: VecDeque::new(),
            runs_start: 0,
            over: false,
        }
    }

    fn ring(&self, stream: Stream) -> &Ring {
        match stream {
            Stream::Out => &self.out,
            Stream::Err => &self.err,
        }
    }

    /// Takes what was read.
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let (ring, length) = match stream {
            Stream::Out => (&mut self.out, bytes.len() as u64),
            Stream::Err => (&mut self.err, bytes.len() as u64),
        };
        let from = ring.end;
        ring.push(bytes);
        match self.runs.back_mut() {
            Some(run) if run.stream == stream => run.length += length,
            Some(_) | None => self.runs.push_back(Run { stream, from, length }),
        }
        self.trim(stream);
    }

    /// Forgets the order of what is no longer kept, and of all that was written before it: what is left has no gap.
    fn trim(&mut self, stream: Stream) {
        let start = self.ring(stream).start();
        let gone = |runs: &VecDeque<Run>| {
            runs.iter().find(|run| run.stream == stream).is_some_and(|run| run.from < start)
        };
        while self.runs.len() > MOST_RUNS || gone(&self.runs) {
            let Some(first) = self.runs.front_mut() else { return };
            let lost = start.saturating_sub(first.from);
            if first.stream == stream && self.runs.len() <= MOST_RUNS && lost < self.runs[0].length {
                let first = &mut self.runs[0];
                (first.from, first.length) = (first.from + lost, first.length - lost);
                self.runs_start += lost;
            } else if let Some(run) = self.runs.pop_front() {
                self.runs_start += run.length;
            }
        }
    }

    /// The offsets of the first byte kept and after the last one written.
    pub fn range(&self, which: Which) -> (u64, u64) {
        match which {
            Which::One(stream) => (self.ring(stream).start(), self.ring(stream).end),
            Which::Both => (self.runs_start, self.out.end + self.err.end),
        }
    }

    /// At most `most` bytes from an offset within [`Self::range`].
    pub fn read(&self, which: Which, from: u64, most: usize) -> Vec<u8> {
        let (start, end) = self.range(which);
        let from = from.clamp(start, end);
        let length = most.min(usize::try_from(end - from).unwrap_or(usize::MAX));
        let mut bytes = Vec::with_capacity(length);
        match which {
            Which::One(stream) => self.ring(stream).copy(from, length, &mut bytes),
            Which::Both => {
                let mut at = start;
                for run in &self.runs {
                    let after = at + run.length;
                    if after > from && bytes.len() < length {
                        let skip = from.saturating_sub(at);
                        let wanted = (length - bytes.len()) as u64;
                        let part = usize::try_from(wanted.min(run.length - skip)).unwrap_or(0);
                        self.ring(run.stream).copy(run.from + skip, part, &mut bytes);
                    }
                    at = after;
                }
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(log: &Log, which: Which) -> (u64, Vec<u8>) {
        let (start, end) = log.range(which);
        let bytes = log.read(which, start, usize::MAX);
        assert_eq!(bytes.len() as u64, end - start);
        (start, bytes)
    }

    #[test]
    fn offsets_stay_true_when_the_beginning_is_gone() {
        let room = Room::new(0);
        let mut log = Log::new(&room);
        log.push(Stream::Out, b"first");
        log.push(Stream::Err, &vec![b'e'; OWN + 10]);
        log.push(Stream::Out, b"last");
        assert_eq!(all(&log, Which::One(Stream::Out)), (0, b"firstlast".to_vec()));
        assert_eq!(all(&log, Which::One(Stream::Err)).0, 10);
        let (start, both) = all(&log, Which::Both);
        assert_eq!((start, both.len()), (15, OWN + 4));
        assert!(both.ends_with(b"eelast"));
        assert_eq!(log.read(Which::Both, start + OWN as u64 + 1, 2), b"as");
    }

    #[test]
    fn common_room_is_taken_and_given_back() {
        let room = Room::new(OWN);
        let mut greedy = Log::new(&room);
        greedy.push(Stream::Out, &vec![b'x'; 4 * OWN]);
        assert_eq!(all(&greedy, Which::One(Stream::Out)).1.len(), 2 * OWN);
        let mut late = Log::new(&room);
        late.push(Stream::Out, &vec![b'x'; 4 * OWN]);
        assert_eq!(all(&late, Which::One(Stream::Out)).1.len(), OWN);
        drop(greedy);
        late.push(Stream::Err, &vec![b'x'; 4 * OWN]);
        assert_eq!(all(&late, Which::One(Stream::Err)).1.len(), 2 * OWN);
    }

    proptest! {
        #[test]
        fn what_is_kept_is_the_end_of_what_was_written(
            writes in prop::collection::vec((any::<bool>(), 0_usize..40_000), 0..40)
        ) {
            let room = Room::new(2 * OWN);
            let mut log = Log::new(&room);
            let (mut both, mut out, mut err) = (Vec::new(), Vec::new(), Vec::new());
            let mut next = 0_u8;
            for (to_out, length) in writes {
                let bytes: Vec<u8> = (0..length).map(|_| { next = next.wrapping_add(7); next }).collect();
                both.extend_from_slice(&bytes);
                if to_out { out.extend_from_slice(&bytes) } else { err.extend_from_slice(&bytes) }
                log.push(if to_out { Stream::Out } else { Stream::Err }, &bytes);
            }
            for (which, whole) in
                [(Which::Both, both), (Which::One(Stream::Out), out), (Which::One(Stream::Err), err)]
            {
                let (start, kept) = all(&log, which);
                prop_assert_eq!(start + kept.len() as u64, whole.len() as u64);
                prop_assert!(whole.ends_with(&kept));
                prop_assert!(kept.len() >= OWN.min(whole.len()) || which == Which::Both);
            }
        }
    }
}
