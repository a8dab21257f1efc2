//! Output of the commands: raw bytes, lines, tables, and questions.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Write};

use crate::failure::Outcome;

mod confirm;
mod table;

pub use confirm::Confirmation;
pub use table::{Column, ListView, fields, list, table};

thread_local! {
    /// What a [`Collection`] has collected, while there is one. A client command runs on one thread.
    static COLLECTED: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Collection of what this thread writes to standard output by this module, instead of the writing, until
/// this is dropped. At most one lives at a time.
pub struct Collection(());

impl Collection {
    /// Begins to collect.
    pub fn begin() -> Self {
        COLLECTED.set(Some(Vec::new()));
        Self(())
    }

    /// Ends, and returns what was collected.
    pub fn end(self) -> Vec<u8> {
        COLLECTED.take().unwrap_or_default()
    }
}

impl Drop for Collection {
    fn drop(&mut self) {
        COLLECTED.set(None);
    }
}

/// Adds to the collection, and returns whether there is one.
fn collect(content: &[u8]) -> bool {
    COLLECTED.with_borrow_mut(|collected| match collected {
        Some(collected) => {
            collected.extend_from_slice(content);
            true
        }
        None => false,
    })
}

/// Writes to standard output. A closed pipe (`hotdesk ... | head`) is no error.
///
/// # Errors
/// When the write fails for another reason, for example a full disk.
pub fn bytes(content: &[u8]) -> Outcome<()> {
    stream(content).map(drop)
}

/// Writes a part of endless output; returns false when the reader has closed the pipe, so that the output can end.
///
/// # Errors
/// Those of [`bytes`].
pub fn stream(content: &[u8]) -> Outcome<bool> {
    if collect(content) {
        return Ok(true);
    }
    let mut out = io::stdout().lock();
    match out.write_all(content).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write to standard output: {error}").into()),
    }
}

/// Writes a line to standard output.
///
/// # Errors
/// Those of [`bytes`].
pub fn line(text: &str) -> Outcome<()> {
    bytes(format!("{text}\n").as_bytes())
}
