//! The client's side: which server and key, how requests go, how names become ids.

pub mod api;
pub mod connection;
pub mod credentials;
pub mod resolve;
pub mod settle;

use super::failure::Outcome;
use super::output;
use api::{Answer, Api};

/// What every command of the client has: the API and how to print its answers.
pub struct Session {
    /// The API.
    pub api: Api,
    /// Print the API's own answers.
    pub json: bool,
}

impl Session {
    /// Prints an answer as it came with `--json`, else what `people` read.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn show(&self, answer: &Answer, people: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
        if !self.json {
            return people();
        }
        output::bytes(answer.body())?;
        output::line("")
    }
}
