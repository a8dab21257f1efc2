//! What do the agent and a command's shim say to each other? Frames on the socket that is the shim's standard input.
//!
//! Nothing of a command stands in the shim's own arguments or environment, and further descriptors cross on the socket
//! (`handover`), so nothing can leak into commands that start at the same moment.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longest frame: a 2 MiB body whose every byte JSON escapes as six, and the rest.
pub const MAX_FRAME: usize = 16 * 1024 * 1024;

/// What is to be run. Where [`Order::text`] is given, `{text}` and `{result}` in the arguments become descriptor
/// numbers.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The program, looked up in the environment's `PATH`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
    /// Its working directory.
    pub directory: String,
    /// A text that the program may read from a descriptor, however long.
    pub text: Option<String>,
    /// Whether its standard input is a terminal, which is then also its output and what controls its session.
    pub terminal: bool,
    /// Whether the shim stays after the program's end for as long as anything that it started runs.
    pub stay: bool,
}

/// What the shim tells.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// Its process is there and about to become the program.
    Started {
        /// Its id, which is also its session's.
        command: i32,
        /// The id of its parent.
        nurse: i32,
    },
    /// The program runs.
    Running,
    /// It could not be started.
    Failed(String),
    /// It ended.
    Ended {
        /// Its exit status, or the signal that ended it.
        how: How,
        /// What it wrote to `{result}`, at most a pipe's 64 KiB.
        result: String,
    },
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// By itself, with this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

impl How {
    /// The end as a shell tells it: the status, or 128 and the signal.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Status(status) => status,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// A message with its length in front.
pub fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(message).map_err(io::Error::other)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    Ok([&length.to_le_bytes(), body.as_slice()].concat())
}

/// The length that stands in front.
pub fn length(header: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(header) as usize;
    if length > MAX_FRAME { Err(io::Error::other("frame is too long")) } else { Ok(length) }
}

/// Reads a message's body.
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
