//! Attached processes: their output waits for its reader, and they are killed when nobody reads it.

use std::future::pending;
use std::time::Duration;

use super::BackgroundProcess;
use super::log::{MAX_RUNS, RESERVED_BYTES, StreamSelection};

/// Time that an attached process may be without a reader: enough for a client that reconnects.
const READER_TIMEOUT: Duration = Duration::from_secs(10);

/// Most bytes that wait for the reader of an attached process. The log never drops them: they fit in what is reserved for
/// a stream, and even single bytes of changing streams are fewer than the runs that the log remembers.
const MAX_UNREAD: usize = if MAX_RUNS < RESERVED_BYTES { MAX_RUNS } else { RESERVED_BYTES };
/// Fewest bytes to read at once: a shorter read would cut a packet of the pipe, which is one page (pipe(7)).
const LEAST_READ: usize = 4096;

impl BackgroundProcess {
    /// Notes that the output before an offset in both streams was read.
    pub fn mark_read(&self, offset: u64) {
        if let Some(read) = &self.attached {
            read.send_if_modified(|read| std::mem::replace(read, offset.max(*read)) < offset);
        }
    }

    /// Waits until the log takes more output; returns how many bytes, at least [`LEAST_READ`]. Returns at once unless the
    /// process is attached.
    pub async fn room(&self) -> usize {
        let Some(read) = &self.attached else { return usize::MAX };
        let end = self.log().range(StreamSelection::Both).1;
        let room = |read: u64| MAX_UNREAD.saturating_sub(usize::try_from(end - read).unwrap_or(usize::MAX));
        let mut receiver = read.subscribe();
        let read = receiver.wait_for(|read| room(*read) >= LEAST_READ).await;
        // It cannot fail: `self` holds the sender.
        read.map_or(LEAST_READ, |read| room(*read))
    }

    /// Waits until an attached process had no reader for [`READER_TIMEOUT`]; never returns for any other process.
    pub async fn reader_lost(&self) {
        if self.attached.is_none() {
            return pending().await;
        }
        loop {
            self.news.closed().await;
            tokio::time::sleep(READER_TIMEOUT).await;
            if self.news.is_closed() {
                return;
            }
        }
    }
}
