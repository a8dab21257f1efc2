//! Attached processes: their output waits for its reader, and they are killed when nobody reads it.

use std::future::pending;
use std::time::Duration;

use super::BackgroundProcess;
use super::log::StreamSelection;

/// Time that an attached process may be without a reader: enough for a client that reconnects.
const READER_TIMEOUT: Duration = Duration::from_secs(10);

impl BackgroundProcess {
    /// Notes that the output before an offset in both streams was read.
    pub fn mark_read(&self, offset: u64) {
        if let Some(read) = &self.attached {
            read.send_if_modified(|read| std::mem::replace(read, offset.max(*read)) < offset);
        }
    }

    /// Waits until all output was read. Returns at once unless the process is attached.
    pub async fn all_read(&self) {
        let Some(read) = &self.attached else { return };
        let end = self.log().range(StreamSelection::Both).1;
        let mut receiver = read.subscribe();
        // It cannot fail: `self` holds the sender.
        drop(receiver.wait_for(|read| *read >= end).await);
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
