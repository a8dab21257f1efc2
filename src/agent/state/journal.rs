//! Write-ahead record of requests with an `Idempotency-Key`: one small file per key.
//!
//! ```text
//! (no file) -- begin --> pending -- record --> answered
//!     ^                     |
//!     +------ cancel -------+
//! ```
//! The file is written before the request executes. Files outlive the agent: a request that was pending when
//! an agent died has an unknown outcome, and a retry gets `outcome_unknown`.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_http::idempotency::{digest, reused};

/// Most keys on disk. A client with ten requests per second finds its last minutes, which covers usual
/// retries.
const MAX_KEYS: usize = 4096;
/// Most keyed requests at once; the agent's other limits stay far below.
const MAX_RUNNING: usize = 256;
/// Number of new keys between two removals of old ones. A removal takes milliseconds.
const SWEEP_EVERY: usize = 64;
/// Age at which a key is removed; retries come within minutes.
const KEY_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest body that is recorded, in bytes. The folder is a file system in memory, so screenshots are not
/// recorded.
pub const MAX_ANSWER: usize = 64 * 1024;
/// Suffix of a file that is being written.
const UNFINISHED: &str = ".new";

/// Recorded answer of a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordedAnswer {
    /// HTTP status.
    pub status: u16,
    /// JSON text; absent when it was longer than [`MAX_ANSWER`].
    pub body: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct JournalRecord {
    /// Hash of the request that used the key.
    request: String,
    answer: Option<RecordedAnswer>,
}

/// The journal. Clones share one state.
#[derive(Clone, Debug)]
pub struct Journal(Arc<JournalState>);

#[derive(Debug)]
struct JournalState {
    folder: PathBuf,
    open: Mutex<OpenEntries>,
}

#[derive(Debug, Default)]
struct OpenEntries {
    /// File names of the requests that execute now.
    running: HashSet<String>,
    /// Requests that began since the last removal of old keys.
    begun: usize,
}

/// Outcome of [`Journal::begin`].
#[derive(Debug)]
pub enum BeginOutcome {
    /// The key is new: execute the request, then call [`PendingEntry::record`] or [`PendingEntry::cancel`].
    New(PendingEntry),
    /// The request was executed before, with this answer.
    Done(RecordedAnswer),
}

/// A request that executes now. Its outcome is unknown when this is dropped without an answer.
#[derive(Debug)]
pub struct PendingEntry {
    journal: Journal,
    name: String,
    request: String,
}

impl Journal {
    /// Opens the journal in a folder, which is created when missing. Removes unfinished files and old keys.
    ///
    /// # Errors
    /// When the folder cannot be created or read, or a file in it cannot be removed.
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.extension().is_some() {
                // An unfinished file of an agent that has ended.
                fs::remove_file(path)?;
            }
        }
        let journal = Self(Arc::new(JournalState { folder, open: Mutex::default() }));
        journal.remove_old(SystemTime::now())?;
        Ok(journal)
    }

    /// Begins a request under a key, or returns its recorded answer. Blocks while it writes a file.
    ///
    /// # Errors
    /// `Conflict` with `idempotency_in_progress` while the first request executes, or `outcome_unknown` when
    /// its agent ended before it answered; [`reused`] when the key came with another request; `Unavailable`
    /// when too many requests execute or the journal cannot be written. The request must not execute then.
    pub fn begin(&self, key: &[u8], request: &[&[u8]]) -> Result<BeginOutcome> {
        let name = digest(&[key]);
        let request = digest(request);
        let mut open = self.lock();
        let record = read(&self.path(&name)).map_err(unwritable)?;
        if let Some(record) = record {
            if record.request != request {
                return Err(reused());
            }
            if let Some(answer) = record.answer {
                return Ok(BeginOutcome::Done(answer));
            }
            if open.running.contains(&name) {
                return Err(Error::conflict(
                    "The first request with this Idempotency-Key is still being carried out",
                )
                .code(ErrorCode::IdempotencyInProgress)
                .retry_after(1));
            }
            return Err(Error::conflict(
                "The agent ended while it carried this request out: look before you repeat it",
            )
            .code(ErrorCode::OutcomeUnknown));
        }
        if open.running.len() >= MAX_RUNNING {
            return Err(Error::unavailable("too many requests are being carried out").retry_after(1));
        }
        open.begun += 1;
        if open.begun >= SWEEP_EVERY {
            self.remove_old(SystemTime::now()).map_err(unwritable)?;
            open.begun = 0;
        }
        let entry = PendingEntry { journal: self.clone(), name, request };
        entry.write(None).map_err(unwritable)?;
        open.running.insert(entry.name.clone());
        Ok(BeginOutcome::New(entry))
    }

    /// Removes what is too old or too much; what is being carried out is the newest.
    fn remove_old(&self, now: SystemTime) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.0.folder)? {
            let path = entry?.path();
            if path.extension().is_some() {
                continue;
            }
            match fs::metadata(&path) {
                Ok(facts) => files.push((facts.modified()?, path)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        // Newest first.
        files.sort_by_key(|(modified, _)| std::cmp::Reverse(*modified));
        for (at, (modified, path)) in files.iter().enumerate() {
            if at >= MAX_KEYS || now.duration_since(*modified).is_ok_and(|age| age > KEY_LIFETIME) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.folder.join(name)
    }

    fn lock(&self) -> MutexGuard<'_, OpenEntries> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingEntry {
    /// Records the answer. Blocks while it writes a file.
    ///
    /// # Errors
    /// When the file cannot be written; a retry then gets `outcome_unknown`.
    pub fn record(self, answer: RecordedAnswer) -> io::Result<()> {
        let answer = match answer.body {
            Some(body) if body.len() > MAX_ANSWER => RecordedAnswer { body: None, ..answer },
            _ => answer,
        };
        self.write(Some(answer))
    }

    /// Removes the key, because the request had no effect; a retry executes again.
    ///
    /// # Errors
    /// When the file cannot be removed; a retry then gets `outcome_unknown`.
    pub fn cancel(self) -> io::Result<()> {
        fs::remove_file(self.journal.path(&self.name))
    }

    fn write(&self, answer: Option<RecordedAnswer>) -> io::Result<()> {
        let record = JournalRecord { request: self.request.clone(), answer };
        let path = self.journal.path(&self.name);
        let unfinished = path.with_extension(UNFINISHED.trim_start_matches('.'));
        fs::write(&unfinished, serde_json::to_vec(&record)?)?;
        fs::rename(&unfinished, &path)
    }
}

impl Drop for PendingEntry {
    fn drop(&mut self) {
        self.journal.lock().running.remove(&self.name);
    }
}

fn read(path: &Path) -> io::Result<Option<JournalRecord>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn unwritable(error: io::Error) -> Error {
    Error::unavailable("The agent cannot keep its journal; nothing was done").context(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(begun: Result<BeginOutcome>) -> ErrorCode {
        begun.unwrap_err().code.unwrap()
    }

    #[test]
    fn a_key_has_one_outcome_or_none_that_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path().join("journal")).unwrap();
        let BeginOutcome::New(entry) = journal.begin(b"first", &[b"click"]).unwrap() else {
            panic!("it is new")
        };
        assert_eq!(code(journal.begin(b"first", &[b"click"])), ErrorCode::IdempotencyInProgress);
        assert_eq!(code(journal.begin(b"first", &[b"type"])), ErrorCode::IdempotencyKeyReused);
        entry.record(RecordedAnswer { status: 200, body: Some("{}".to_owned()) }).unwrap();
        let again = Journal::open(folder.path().join("journal")).unwrap();
        for journal in [&journal, &again] {
            let BeginOutcome::Done(answer) = journal.begin(b"first", &[b"click"]).unwrap() else {
                panic!("it is done")
            };
            assert_eq!((answer.status, answer.body.as_deref()), (200, Some("{}")));
        }
        // An agent that died: its journal's memory is gone, the file is not.
        let BeginOutcome::New(entry) = journal.begin(b"second", &[b"click"]).unwrap() else {
            panic!("it is new")
        };
        assert_eq!(code(again.begin(b"second", &[b"click"])), ErrorCode::OutcomeUnknown);
        drop(entry);
        assert_eq!(code(journal.begin(b"second", &[b"click"])), ErrorCode::OutcomeUnknown);
        let BeginOutcome::New(entry) = journal.begin(b"third", &[b"click"]).unwrap() else {
            panic!("it is new")
        };
        entry.cancel().unwrap();
        assert!(matches!(journal.begin(b"third", &[b"type"]).unwrap(), BeginOutcome::New(_)));
    }

    #[test]
    fn old_and_long_things_are_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path().to_owned()).unwrap();
        let BeginOutcome::New(entry) = journal.begin(b"long", &[]).unwrap() else { panic!("it is new") };
        entry.record(RecordedAnswer { status: 200, body: Some("x".repeat(MAX_ANSWER + 1)) }).unwrap();
        let BeginOutcome::Done(answer) = journal.begin(b"long", &[]).unwrap() else { panic!("it is done") };
        assert!(answer.body.is_none());
        journal.remove_old(SystemTime::now() + KEY_LIFETIME + Duration::from_secs(60)).unwrap();
        assert!(matches!(journal.begin(b"long", &[]).unwrap(), BeginOutcome::New(_)));
    }
}
