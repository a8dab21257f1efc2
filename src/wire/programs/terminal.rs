//! Messages of the terminal channel (docs/channels.md).

use serde::{Deserialize, Serialize};

/// Message from a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum TerminalClientMessage {
    /// Typed characters; `\r` is Enter.
    Input {
        /// The characters.
        data: String,
    },
    /// The size of the client's window changed.
    Resize {
        /// Columns.
        cols: i64,
        /// Rows.
        rows: i64,
    },
    /// Request for a pong.
    Ping,
}

/// Message from the terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum TerminalServerMessage<'a> {
    /// Output; invalid UTF-8 is replaced with U+FFFD.
    Output {
        /// The characters.
        data: &'a str,
    },
    /// A message of the client could not be handled.
    Error {
        /// Reason, for people.
        message: &'a str,
    },
    /// The shell ended.
    Exit {
        /// Exit code; 128 + signal when a signal ended it.
        code: i32,
    },
    /// Answer to a ping.
    Pong,
}
