//! Protocol between the agent and a shim: requests on one socket, reports on another.
//!
//! ```text
//! agent                                    shim and its processes
//!   | <- Started ------------------------------ | a command process waits for its request
//!   | -- byte + descriptors, CommandSpec -----> |
//!   | <- Running | Failed --------------------- |
//!   | <- Ended -------------------------------- |
//! ```
//! Each message is JSON behind a little-endian length of four bytes. After `Ended` comes the next `Started`,
//! or the shim exits.
//!
//! Neither the shim's arguments nor its environment contain anything of the command, and descriptors pass
//! over the socket. So nothing leaks into commands that start at the same moment.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longest message in bytes: a 2 MiB body whose every byte JSON escapes as six, and some overhead.
pub const MAX_FRAME: usize = 16 * 1024 * 1024;

/// Command to run. `{control}`, `{text}` and `{result}` in the arguments become the numbers of the
/// descriptors that came with it.
#[derive(Debug, Serialize, Deserialize)]
pub struct CommandSpec {
    /// Program, looked up in the `PATH` of `environment`.
    pub program: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Complete environment.
    pub environment: Vec<(String, String)>,
    /// Working folder.
    pub directory: String,
    /// Whether standard input is a terminal, which is then also the output and the controlling terminal.
    pub terminal: bool,
    /// Whether the shim stays until all processes that the program started have ended.
    pub stay: bool,
}

/// Message of the shim.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The process exists and waits for its request.
    Started {
        /// Id of the process, and of its session.
        command: i32,
        /// Id of its parent.
        waiter: i32,
    },
    /// The program runs.
    Running,
    /// The program could not be started, for this reason.
    Failed(String),
    /// The program ended.
    Ended {
        /// Exit status or signal.
        how: ProcessExit,
    },
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessExit {
    /// It exited with this status.
    Status(i32),
    /// This signal killed it.
    Signal(i32),
}

impl ProcessExit {
    /// Exit code as in a shell: the status, or 128 plus the signal.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Status(status) => status,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// Encodes a message with its length in front.
pub fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(message).map_err(io::Error::other)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    Ok([&length.to_le_bytes(), body.as_slice()].concat())
}

/// Decodes a message's length; an error above [`MAX_FRAME`].
pub fn length(header: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(header) as usize;
    if length > MAX_FRAME { Err(io::Error::other("frame is too long")) } else { Ok(length) }
}

/// Decodes a message's body.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    serde_json::from_slice(body).map_err(io::Error::other)
}

/// Reads one message; blocks.
pub fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<T> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let mut body = vec![0; length(header)?];
    stream.read_exact(&mut body)?;
    decode(&body)
}

/// Writes one message; blocks.
pub fn send<T: Serialize>(stream: &mut impl Write, message: &T) -> io::Result<()> {
    stream.write_all(&encode(message)?)
}
