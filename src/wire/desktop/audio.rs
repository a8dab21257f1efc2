//! What is said on a sound socket, beside the sound? (wire.md 10.5)

use serde::{Deserialize, Serialize};

/// What a listener says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Said {
    /// No more sound is wanted.
    Stop,
    /// A sign of life is wanted.
    Ping,
}

/// What is told besides the binary frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Told<'a> {
    /// The sound begins, in this form: signed 16-bit samples, little-endian.
    Started {
        /// Samples a second.
        sample_rate: u32,
        /// Channels.
        channels: u8,
    },
    /// Something failed, or was not understood.
    Error {
        /// Why, for people.
        message: &'a str,
    },
    /// The sign of life.
    Pong,
}
