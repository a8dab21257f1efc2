//! What is said on a terminal's socket? (wire.md 10.4)

use serde::{Deserialize, Serialize};

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Said {
    /// Something was typed; `\r` is Enter.
    Input {
        /// The characters.
        data: String,
    },
    /// The client's window has another size.
    Resize {
        /// Characters in a row.
        cols: i64,
        /// Rows.
        rows: i64,
    },
    /// A sign of life is wanted.
    Ping,
}

/// What the terminal says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Told<'a> {
    /// Something was written; what is not UTF-8 is U+FFFD.
    Output {
        /// The characters.
        data: &'a str,
    },
    /// Something that was said could not be done.
    Error {
        /// Why, for people.
        message: &'a str,
    },
    /// The shell ended.
    Exit {
        /// Its exit code; 128 + signal when a signal ended it.
        code: i32,
    },
    /// The sign of life.
    Pong,
}
