//! JSON messages of the audio channel (docs/channels.md).

use serde::{Deserialize, Serialize};

/// Message from a client.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum AudioClientMessage {
    /// Stop the audio.
    Stop,
    /// Request for a pong.
    Ping,
}

/// Message to a client, besides the binary frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum AudioServerMessage<'a> {
    /// The audio starts in this format: signed 16-bit samples, little-endian.
    Started {
        /// Sample rate in Hz.
        sample_rate: u32,
        /// Number of channels.
        channels: u8,
    },
    /// A failure, or an invalid message.
    Error {
        /// Reason, for people.
        message: &'a str,
    },
    /// Answer to a ping.
    Pong,
}
