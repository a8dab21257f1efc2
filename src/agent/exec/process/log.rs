//! Bounded output log of a background process.
//!
//! It stores the last bytes of each stream under their absolute offsets, and the order in which they were
//! written.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::exec::output::streams::StdStream;

/// Most bytes stored of one stream.
pub const MAX_STREAM_BYTES: usize = 1024 * 1024;
/// Bytes reserved for each stream; 16 MiB for all processes that may be remembered.
pub const RESERVED_BYTES: usize = 64 * 1024;
/// Bytes that all streams share beyond that: enough for sixteen processes that write as much as they can.
pub const SHARED_BYTES: usize = 32 * 1024 * 1024;
/// Most alternations between the streams that are remembered; of older bytes the order is lost.
pub const MAX_RUNS: usize = 16 * 1024;

/// Stream to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamSelection {
    /// Both streams in the order of their writes.
    Both,
    /// One stream.
    One(StdStream),
}

/// Byte budget that all logs share.
#[derive(Clone, Debug)]
pub struct SharedBudget(Arc<AtomicUsize>);

impl SharedBudget {
    /// A budget of this many bytes.
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
    /// Bytes that may be stored now.
    limit: usize,
    budget: SharedBudget,
}

impl Ring {
    fn new(budget: SharedBudget) -> Self {
        Self { bytes: VecDeque::new(), end: 0, limit: RESERVED_BYTES, budget }
    }

    /// Offset of the first stored byte.
    fn start(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    fn push(&mut self, bytes: &[u8]) {
        while self.bytes.len() + bytes.len() > self.limit
            && self.limit < MAX_STREAM_BYTES
            && self.budget.take(RESERVED_BYTES)
        {
            self.limit += RESERVED_BYTES;
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
        self.budget.give(self.limit - RESERVED_BYTES);
    }
}

/// Contiguous bytes of one stream.
#[derive(Clone, Copy, Debug)]
struct Run {
    stream: StdStream,
    /// Offset of its first byte in its stream.
    from: u64,
    length: u64,
}

/// The output of one process.
#[derive(Debug)]
pub struct Log {
    out: Ring,
    err: Ring,
    runs: VecDeque<Run>,
    /// Offset of the first run's first byte in the merged streams.
    runs_start: u64,
    /// No more output can come.
    pub over: bool,
}

impl Log {
    /// An empty log.
    pub fn new(budget: &SharedBudget) -> Self {
        Self {
            out: Ring::new(budget.clone()),
            err: Ring::new(budget.clone()),
            runs: VecDeque::new(),
            runs_start: 0,
            over: false,
        }
    }

    fn ring(&self, stream: StdStream) -> &Ring {
        match stream {
            StdStream::Out => &self.out,
            StdStream::Err => &self.err,
        }
    }

    /// Appends bytes that were read.
    pub fn push(&mut self, stream: StdStream, bytes: &[u8]) {
        let (ring, length) = match stream {
            StdStream::Out => (&mut self.out, bytes.len() as u64),
            StdStream::Err => (&mut self.err, bytes.len() as u64),
        };
        let from = ring.end;
        ring.push(bytes);
        match self.runs.back_mut() {
            Some(run) if run.stream == stream => run.length += length,
            Some(_) | None => self.runs.push_back(Run { stream, from, length }),
        }
        self.trim(stream);
    }

    /// Removes the runs of bytes that are no longer stored, and all runs before them, so that the merged
    /// streams have no gap.
    fn trim(&mut self, stream: StdStream) {
        let start = self.ring(stream).start();
        let gone = |runs: &VecDeque<Run>| {
            runs.iter().find(|run| run.stream == stream).is_some_and(|run| run.from < start)
        };
        while self.runs.len() > MAX_RUNS || gone(&self.runs) {
            let Some(first) = self.runs.front_mut() else { return };
            let lost = start.saturating_sub(first.from);
            if first.stream == stream && self.runs.len() <= MAX_RUNS && lost < self.runs[0].length {
                let first = &mut self.runs[0];
                (first.from, first.length) = (first.from + lost, first.length - lost);
                self.runs_start += lost;
            } else if let Some(run) = self.runs.pop_front() {
                self.runs_start += run.length;
            }
        }
    }

    /// Offsets of the first stored byte and after the last written byte.
    pub fn range(&self, selection: StreamSelection) -> (u64, u64) {
        match selection {
            StreamSelection::One(stream) => (self.ring(stream).start(), self.ring(stream).end),
            StreamSelection::Both => (self.runs_start, self.out.end + self.err.end),
        }
    }

    /// At most `most` bytes from an offset within [`Self::range`].
    pub fn read(&self, selection: StreamSelection, from: u64, most: usize) -> Vec<u8> {
        let (start, end) = self.range(selection);
        let from = from.clamp(start, end);
        let length = most.min(usize::try_from(end - from).unwrap_or(usize::MAX));
        let mut bytes = Vec::with_capacity(length);
        match selection {
            StreamSelection::One(stream) => self.ring(stream).copy(from, length, &mut bytes),
            StreamSelection::Both => {
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

    /// At most `most` bytes of one stream from an offset in the merged streams within [`Self::range`], and that stream.
    /// `None` at the end.
    pub fn read_one_stream(&self, from: u64, most: usize) -> Option<(StdStream, Vec<u8>)> {
        let mut at = self.runs_start;
        let run = self.runs.iter().find(|run| {
            at += run.length;
            at > from
        })?;
        let left = at - from.max(at - run.length);
        let length = most.min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut bytes = Vec::with_capacity(length);
        self.ring(run.stream).copy(run.from + run.length - left, length, &mut bytes);
        Some((run.stream, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(log: &Log, selection: StreamSelection) -> (u64, Vec<u8>) {
        let (start, end) = log.range(selection);
        let bytes = log.read(selection, start, usize::MAX);
        assert_eq!(bytes.len() as u64, end - start);
        (start, bytes)
    }

    #[test]
    fn offsets_stay_absolute_when_the_beginning_is_dropped() {
        let budget = SharedBudget::new(0);
        let mut log = Log::new(&budget);
        log.push(StdStream::Out, b"first");
        log.push(StdStream::Err, &vec![b'e'; RESERVED_BYTES + 10]);
        log.push(StdStream::Out, b"last");
        assert_eq!(all(&log, StreamSelection::One(StdStream::Out)), (0, b"firstlast".to_vec()));
        assert_eq!(all(&log, StreamSelection::One(StdStream::Err)).0, 10);
        let (start, both) = all(&log, StreamSelection::Both);
        assert_eq!((start, both.len()), (15, RESERVED_BYTES + 4));
        assert!(both.ends_with(b"eelast"));
        assert_eq!(log.read(StreamSelection::Both, start + RESERVED_BYTES as u64 + 1, 2), b"as");
        let piece = |from: u64| log.read_one_stream(from, 3);
        let border = start + RESERVED_BYTES as u64;
        assert_eq!(piece(start), Some((StdStream::Err, b"eee".to_vec())));
        assert_eq!(piece(border - 1), Some((StdStream::Err, b"e".to_vec())));
        assert_eq!(piece(border), Some((StdStream::Out, b"las".to_vec())));
        assert_eq!(piece(border + 3), Some((StdStream::Out, b"t".to_vec())));
        assert_eq!(piece(border + 4), None);
    }

    #[test]
    fn shared_bytes_are_taken_and_returned() {
        let budget = SharedBudget::new(RESERVED_BYTES);
        let mut greedy = Log::new(&budget);
        greedy.push(StdStream::Out, &vec![b'x'; 4 * RESERVED_BYTES]);
        assert_eq!(all(&greedy, StreamSelection::One(StdStream::Out)).1.len(), 2 * RESERVED_BYTES);
        let mut late = Log::new(&budget);
        late.push(StdStream::Out, &vec![b'x'; 4 * RESERVED_BYTES]);
        assert_eq!(all(&late, StreamSelection::One(StdStream::Out)).1.len(), RESERVED_BYTES);
        drop(greedy);
        late.push(StdStream::Err, &vec![b'x'; 4 * RESERVED_BYTES]);
        assert_eq!(all(&late, StreamSelection::One(StdStream::Err)).1.len(), 2 * RESERVED_BYTES);
    }

    proptest! {
        #[test]
        fn the_stored_bytes_are_the_end_of_the_output(
            writes in prop::collection::vec((any::<bool>(), 0_usize..40_000), 0..40)
        ) {
            let budget = SharedBudget::new(2 * RESERVED_BYTES);
            let mut log = Log::new(&budget);
            let (mut both, mut out, mut err) = (Vec::new(), Vec::new(), Vec::new());
            let mut next = 0_u8;
            for (to_out, length) in writes {
                let bytes: Vec<u8> = (0..length).map(|_| { next = next.wrapping_add(7); next }).collect();
                both.extend_from_slice(&bytes);
                if to_out { out.extend_from_slice(&bytes) } else { err.extend_from_slice(&bytes) }
                log.push(if to_out { StdStream::Out } else { StdStream::Err }, &bytes);
            }
            for (selection, whole) in
                [(StreamSelection::Both, both), (StreamSelection::One(StdStream::Out), out), (StreamSelection::One(StdStream::Err), err)]
            {
                let (start, kept) = all(&log, selection);
                prop_assert_eq!(start + kept.len() as u64, whole.len() as u64);
                prop_assert!(whole.ends_with(&kept));
                prop_assert!(kept.len() >= RESERVED_BYTES.min(whole.len()) || selection == StreamSelection::Both);
            }
        }
    }
}
