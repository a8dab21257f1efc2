//! Was this action done already? One small file per key, written before anything is done (threats.md, consequence 6).
//!
//! ```text
//! (no file) -> begun -> answered
//! ```
//! Files outlive the agent: what was begun by an agent that died has an unknown outcome, and is told so.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use hotdesk_domain::error::{Error, Result};
use hotdesk_http::idempotency::{digest, reused};

/// Keys remembered; a client that acts ten times a second finds its last minutes, which is when retries come.
const MOST_KEYS: usize = 4096;
/// Requests with keys that are carried out at once: what the agent's other limits let through is far below.
const MOST_RUNNING: usize = 256;
/// Old keys are looked for whenever so many new ones have come: a look takes milliseconds.
const SWEEP_EVERY: usize = 64;
/// How long a key is remembered; retries come within minutes.
const LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest answer that is kept in bytes; screenshots are not worth their memory (the folder is one).
pub const MAX_ANSWER: usize = 64 * 1024;
/// What the name of a file being written ends with.
const UNFINISHED: &str = ".new";

/// An answer as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// JSON text; absent when it was longer than [`MAX_ANSWER`].
    pub body: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// Hash of the request that used the key.
    request: String,
    answer: Option<Answer>,
}

/// The journal. Clones are the same.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// What is being carried out.
    running: HashSet<String>,
    /// How many have begun since old ones were removed.
    begun: usize,
}

/// What a key stands for.
#[derive(Debug)]
pub enum Begun {
    /// Nothing yet: do it, and say so to the entry.
    New(Entry),
    /// It was done before.
    Done(Answer),
}

/// A request that is being carried out. Dropped without an answer, its outcome is unknown.
#[derive(Debug)]
pub struct Entry {
    journal: Journal,
    name: String,
    request: String,
}

impl Journal {
    /// Opens the journal of a folder, which is made when it is missing.
    ///
    /// # Errors
    /// When the folder cannot be made or read.
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.extension().is_some() {
                // Its writer is dead.
                fs::remove_file(path)?;
            }
        }
        let journal = Self(Arc::new(Shared { folder, open: Mutex::default() }));
        journal.forget_old(SystemTime::now())?;
        Ok(journal)
    }

    /// Begins a request under a key, or tells what became of it before. It blocks for a file's writing.
    ///
    /// # Errors
    /// `Conflict` with code `idempotency_in_progress` or `outcome_unknown`; [`reused`]; `Unavailable` when the journal cannot
    /// be written.
    pub fn begin(&self, key: &[u8], request: &[&[u8]]) -> Result<Begun> {
        let name = digest(&[key]);
        let request = digest(request);
        let mut open = self.lock();
        let known = read(&self.path(&name)).map_err(unwritable)?;
        if let Some(record) = known {
            if record.request != request {
                return Err(reused());
            }
            if let Some(answer) = record.answer {
                return Ok(Begun::Done(answer));
            }
            if open.running.contains(&name) {
                return Err(Error::conflict(
                    "The first request with this Idempotency-Key is still being carried out",
                )
                .code("idempotency_in_progress")
                .retry_after(1));
            }
            return Err(Error::conflict(
                "The agent ended while it carried this request out: look before you repeat it",
            )
            .code("outcome_unknown"));
        }
        if open.running.len() >= MOST_RUNNING {
            return Err(Error::unavailable("too many requests are being carried out").retry_after(1));
        }
        open.begun += 1;
        if open.begun >= SWEEP_EVERY {
            self.forget_old(SystemTime::now()).map_err(unwritable)?;
            open.begun = 0;
        }
        let entry = Entry { journal: self.clone(), name, request };
        entry.write(None).map_err(unwritable)?;
        open.running.insert(entry.name.clone());
        Ok(Begun::New(entry))
    }

    /// Removes what is too old or too much; what is being carried out is the newest.
    fn forget_old(&self, now: SystemTime) -> io::Result<()> {
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
            if at >= MOST_KEYS || now.duration_since(*modified).is_ok_and(|age| age > LIFE) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.folder.join(name)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Keeps the answer. It blocks for a file's writing.
    ///
    /// # Errors
    /// When it cannot be written; the outcome is then told as unknown.
    pub fn answered(self, answer: Answer) -> io::Result<()> {
        let answer = match answer.body {
            Some(body) if body.len() > MAX_ANSWER => Answer { body: None, ..answer },
            _ => answer,
        };
        self.write(Some(answer))
    }

    /// Nothing was done: the key may be used again.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn undone(self) -> io::Result<()> {
        fs::remove_file(self.journal.path(&self.name))
    }

    fn write(&self, answer: Option<Answer>) -> io::Result<()> {
        let record = Record { request: self.request.clone(), answer };
        let path = self.journal.path(&self.name);
        let unfinished = path.with_extension(UNFINISHED.trim_start_matches('.'));
        fs::write(&unfinished, serde_json::to_vec(&record)?)?;
        fs::rename(&unfinished, &path)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.journal.lock().running.remove(&self.name);
    }
}

fn read(path: &Path) -> io::Result<Option<Record>> {
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

    fn code(begun: Result<Begun>) -> &'static str {
        begun.unwrap_err().code.unwrap()
    }

    #[test]
    fn a_key_has_one_outcome_or_none_that_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path().join("journal")).unwrap();
        let Begun::New(entry) = journal.begin(b"first", &[b"click"]).unwrap() else { panic!("it is new") };
        assert_eq!(code(journal.begin(b"first", &[b"click"])), "idempotency_in_progress");
        assert_eq!(code(journal.begin(b"first", &[b"type"])), "idempotency_key_reused");
        entry.answered(Answer { status: 200, body: Some("{}".to_owned()) }).unwrap();
        let again = Journal::open(folder.path().join("journal")).unwrap();
        for journal in [&journal, &again] {
            let Begun::Done(answer) = journal.begin(b"first", &[b"click"]).unwrap() else {
                panic!("it is done")
            };
            assert_eq!((answer.status, answer.body.as_deref()), (200, Some("{}")));
        }
        // An agent that died: its journal's memory is gone, the file is not.
        let Begun::New(entry) = journal.begin(b"second", &[b"click"]).unwrap() else { panic!("it is new") };
        assert_eq!(code(again.begin(b"second", &[b"click"])), "outcome_unknown");
        drop(entry);
        assert_eq!(code(journal.begin(b"second", &[b"click"])), "outcome_unknown");
        let Begun::New(entry) = journal.begin(b"third", &[b"click"]).unwrap() else { panic!("it is new") };
        entry.undone().unwrap();
        assert!(matches!(journal.begin(b"third", &[b"type"]).unwrap(), Begun::New(_)));
    }

    #[test]
    fn old_and_long_things_are_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path().to_owned()).unwrap();
        let Begun::New(entry) = journal.begin(b"long", &[]).unwrap() else { panic!("it is new") };
        entry.answered(Answer { status: 200, body: Some("x".repeat(MAX_ANSWER + 1)) }).unwrap();
        let Begun::Done(answer) = journal.begin(b"long", &[]).unwrap() else { panic!("it is done") };
        assert!(answer.body.is_none());
        journal.forget_old(SystemTime::now() + LIFE + Duration::from_secs(60)).unwrap();
        assert!(matches!(journal.begin(b"long", &[]).unwrap(), Begun::New(_)));
    }
}
