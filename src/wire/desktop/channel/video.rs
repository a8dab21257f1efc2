//! JSON messages of the video channel (docs/channels.md).

use serde::{Deserialize, Serialize};

/// Message to a client, besides the binary frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum VideoServerMessage {
    /// The frames that follow have this format; the first of them is a key frame. It is sent again when the
    /// size of the screen changes.
    Started {
        /// Width of the screen in pixels. The frames of a screen of odd width have one more column.
        width: u16,
        /// Height of the screen in pixels; of an odd one as for the width.
        height: u16,
        /// The codec as browsers name it (RFC 6381), such as `avc1.42C01F`.
        codec: String,
    },
}

/// Message of a client. Whatever else it sends has no meaning.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum VideoClientMessage {
    /// The client has received what it was sent up to a frame.
    Received {
        /// Time of the frame in microseconds, as in its header.
        micros: u64,
    },
}
