//! Followers of the logs of services: each reads the file at its own pace.
//!
//! ```text
//! file -- 32 KiB --> lines of one read --> client
//!   ^-- a second after a read that found nothing
//! ```
//! A slow client delays nothing but its own reads. What it has not read stays in the file, and is lost with the file when the log is
//! rotated twice meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec;

use futures_util::stream::{self, Stream as Flow};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::reader::LogReader;
use crate::files::blocking;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::programs::service::ServiceLogEntry;

/// Most followers of all services: each has a file open, and at most 1 MiB of lines.
const MAX_FOLLOWERS: usize = 16;
/// Pause after a read that found nothing, as in tail(1).
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Longest line in bytes; the rest is cut off: the agent and each client hold a line in memory.
const MAX_LINE: usize = 16 * 1024;
/// Time without a file after which the log counts as removed. A rotation makes the new file at once.
const GONE_AFTER: Duration = Duration::from_secs(5);

/// Permits of followers.
#[derive(Debug)]
pub(in crate::exec::services) struct LogFollowers(Arc<Semaphore>);

/// A reader of a log.
struct Follower {
    reader: LogReader,
    waiting: vec::IntoIter<String>,
    gone_since: Option<Instant>,
    _permit: OwnedSemaphorePermit,
}

impl Default for LogFollowers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_FOLLOWERS)))
    }
}

impl LogFollowers {
    /// Follows a file from the lines of its last `bytes`, until it is removed. A file that does not exist yet is waited for.
    ///
    /// # Errors
    /// `Unavailable` (`too_many_followers`) when too many follow already; `Internal` when the file cannot be read.
    pub(in crate::exec::services) async fn follow(
        &self,
        path: PathBuf,
        bytes: u64,
    ) -> Result<impl Flow<Item = Result<ServiceLogEntry>> + use<>> {
        let permit = Arc::clone(&self.0).try_acquire_owned().map_err(|_| {
            Error::unavailable("Too many clients follow the logs of this computer's services already")
                .code(ErrorCode::TooManyFollowers)
                .retry_after(1)
        })?;
        let reader = blocking(move || Ok(LogReader::before_end(path, bytes))).await?;
        let follower =
            Follower { reader, waiting: Vec::new().into_iter(), gone_since: None, _permit: permit };
        // Read now, so that a file that cannot be read is an error of the request.
        Ok(stream::try_unfold(follower.read().await?, Follower::next))
    }
}

impl Follower {
    /// Waits for the next line; returns `None` when the log is gone.
    async fn next(mut self) -> Result<Option<(ServiceLogEntry, Self)>> {
        loop {
            if let Some(line) = self.waiting.next() {
                return Ok(Some((ServiceLogEntry { line: shortened(line) }, self)));
            }
            self = self.read().await?;
            if !self.waiting.as_slice().is_empty() {
                continue;
            }
            if !self.reader.is_gone() {
                self.gone_since = None;
            } else if self.gone_since.get_or_insert_with(Instant::now).elapsed() >= GONE_AFTER {
                return Ok(None);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn read(mut self) -> Result<Self> {
        blocking(move || {
            let lines = self.reader.lines().map_err(|error| unreadable(self.reader.path(), &error))?;
            self.waiting = lines.into_iter();
            Ok(self)
        })
        .await
    }
}

/// The error of a log that cannot be read.
pub(in crate::exec::services) fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::failed(format!("{} cannot be read: {error}", path.display()))
}

fn shortened(mut line: String) -> String {
    if line.len() > MAX_LINE {
        line.truncate(line.floor_char_boundary(MAX_LINE));
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures_util::StreamExt;

    use super::*;

    #[tokio::test]
    async fn a_log_is_followed_across_its_rotation_until_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("current");
        fs::write(&path, "old\nlast\n").unwrap();
        let followers = LogFollowers::default();
        let mut lines = Box::pin(followers.follow(path.clone(), 5).await.unwrap());
        let mut next = async || lines.next().await.map(|entry| entry.unwrap().line);
        assert_eq!(next().await.as_deref(), Some("last"));
        fs::rename(&path, path.with_file_name("older")).unwrap();
        fs::write(&path, format!("{}\nnew\n", "é".repeat(MAX_LINE))).unwrap();
        let long = next().await.unwrap();
        assert_eq!(long.len(), MAX_LINE + '…'.len_utf8());
        assert_eq!(next().await.as_deref(), Some("new"));
        fs::remove_file(&path).unwrap();
        assert_eq!(next().await, None);
    }

    #[tokio::test]
    async fn so_many_follow_and_a_log_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("current");
        let followers = LogFollowers::default();
        let mut open = Vec::new();
        for _ in 0..MAX_FOLLOWERS {
            open.push(followers.follow(path.clone(), 0).await.unwrap());
        }
        let refused = followers.follow(path.clone(), 0).await.err().unwrap();
        assert_eq!(refused.code, Some(ErrorCode::TooManyFollowers));
        open.pop();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        let refused = followers.follow(path.clone(), 0).await.err().unwrap();
        assert!(refused.message.contains("/current cannot be read: "), "{}", refused.message);
        fs::remove_file(&path).unwrap();
        assert!(followers.follow(path, 0).await.is_ok());
    }
}
