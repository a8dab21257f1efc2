//! Output of the commands: raw bytes, lines, tables, and questions.

use std::io::{self, ErrorKind, Write};

use crate::failure::Outcome;

mod confirm;
mod table;

pub use confirm::Confirmation;
pub use table::{Column, ListView, fields, list, table};

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
