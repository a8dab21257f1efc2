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
    let mut out = io::stdout().lock();
    match out.write_all(content).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}").into())
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard output.
///
/// # Errors
/// Those of [`bytes`].
pub fn line(text: &str) -> Outcome<()> {
    bytes(format!("{text}\n").as_bytes())
}
