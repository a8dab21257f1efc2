//! API client of the command line: connection, credentials, requests, name resolution and completion.

pub mod api;
pub mod completion;
pub mod connection;
pub mod credentials;
pub mod download;
pub mod event_stream;
pub mod interrupts;
pub mod resolve;
pub mod retry;
pub mod socket;
pub mod wait;
pub mod watch;

use crate::failure::Outcome;
use crate::output;
use api::{Api, ApiResponse};

/// Connection of a client command, and its output mode.
pub struct Session {
    /// API client.
    pub api: Api,
    /// Whether to print the JSON responses of the server unchanged.
    pub json: bool,
    /// Options with which another call of this program has the same connection.
    pub flags: Vec<String>,
}

impl Session {
    /// Prints the raw response with `--json`; otherwise calls `text`, which prints the output for people.
    ///
    /// # Errors
    /// Those of [`output::bytes`] and of `text`.
    pub fn show(&self, response: &ApiResponse, text: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
        if !self.json {
            return text();
        }
        output::bytes(response.body())?;
        output::line("")
    }
}
