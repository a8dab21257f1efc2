//! Parser of the client side of RFB (RFC 6143).

mod client_input;
mod input_filter;
mod pointer_tracker;
mod view_only;

pub use client_input::{ClientInput, InputReader};
pub use input_filter::{InputFilter, UnreadableInput};
pub use pointer_tracker::PointerTracker;
pub use view_only::ViewOnly;

/// Protocol versions (RFC 6143 section 7.1.1), and whether the client chooses a security type in each.
const VERSIONS: [(&[u8; 12], bool); 3] =
    [(b"RFB 003.003\n", false), (b"RFB 003.007\n", true), (b"RFB 003.008\n", true)];
/// The security type "None", the only one offered: the socket is authenticated already.
const NO_SECURITY: u8 = 1;
/// Largest number of encodings in a message; about 140 are registered.
const MAX_ENCODINGS: usize = 1024;
/// Longest payload of a fence, in bytes (protocol description).
const MAX_FENCE: usize = 64;
/// Pseudo-encoding of extended mouse buttons. With it, the length of a PointerEvent depends on what the
/// server has agreed to, which this parser does not see.
const EXTENDED_BUTTONS: i32 = -316;

/// Bytes of the flags of the extended clipboard (protocol description).
const CLIPBOARD_FLAGS: i32 = 4;

/// A protocol violation that ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RfbViolation {
    /// The connection did not begin with an RFB version.
    NotRfb,
    /// The client chose a security type that was not offered.
    Security(u8),
    /// The message type is unknown.
    Unknown(u8),
    /// A message of a known type is too large.
    TooLarge(u8),
}

/// Phase of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Version,
    Security,
    Init,
    Messages,
}

/// Result of parsing the buffered bytes of a message.
enum Step {
    /// This number of bytes is needed to continue.
    Need(usize),
    /// The message is complete and only requests output.
    Pass,
    /// The message is input; this number of further bytes belongs to it.
    Leave(usize),
}

/// A complete message.
enum ClientMessage {
    /// A part of the handshake.
    Handshake(Vec<u8>),
    /// A message that requests output.
    OutputRequest(Vec<u8>),
    /// An input message. It has all bytes, except the text of a clipboard message, whose flags it has.
    Input(Vec<u8>),
}

/// Parses messages from a byte stream. It buffers at most one message, about 4 KiB.
#[derive(Debug)]
struct Reader {
    phase: Phase,
    buffer: Vec<u8>,
    skip: usize,
}

impl Default for Reader {
    fn default() -> Self {
        Self { phase: Phase::Version, buffer: Vec::new(), skip: 0 }
    }
}

impl Reader {
    /// Returns the next complete message and removes its bytes from `bytes`; `None` when more bytes are
    /// needed.
    ///
    /// # Errors
    /// [`RfbViolation`]; the rest of the stream cannot be parsed.
    fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<ClientMessage>, RfbViolation> {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            *bytes = &bytes[skipped..];
            match self.step()? {
                Step::Need(_) if bytes.is_empty() => return Ok(None),
                Step::Need(length) => {
                    let taken = (length - self.buffer.len()).min(bytes.len());
                    self.buffer.extend_from_slice(&bytes[..taken]);
                    *bytes = &bytes[taken..];
                }
                Step::Pass => {
                    let message = std::mem::take(&mut self.buffer);
                    if self.phase == Phase::Messages {
                        return Ok(Some(ClientMessage::OutputRequest(message)));
                    }
                    self.phase = self.phase.next(&message);
                    return Ok(Some(ClientMessage::Handshake(message)));
                }
                Step::Leave(more) => {
                    self.skip = more;
                    return Ok(Some(ClientMessage::Input(std::mem::take(&mut self.buffer))));
                }
            }
        }
    }

    fn step(&self) -> Result<Step, RfbViolation> {
        let buffer = self.buffer.as_slice();
        let whole = |length: usize| if buffer.len() < length { Step::Need(length) } else { Step::Pass };
        match self.phase {
            Phase::Version => match buffer.len() {
                12 if version(buffer).is_none() => Err(RfbViolation::NotRfb),
                _ => Ok(whole(12)),
            },
            Phase::Security => match buffer.first() {
                Some(&other) if other != NO_SECURITY => Err(RfbViolation::Security(other)),
                _ => Ok(whole(1)),
            },
            Phase::Init => Ok(whole(1)),
            Phase::Messages => message(buffer),
        }
    }
}

impl Phase {
    /// Returns the phase after a message of the handshake.
    fn next(self, message: &[u8]) -> Self {
        match self {
            Self::Version if version(message) == Some(true) => Self::Security,
            Self::Version | Self::Security => Self::Init,
            Self::Init | Self::Messages => Self::Messages,
        }
    }
}

fn version(bytes: &[u8]) -> Option<bool> {
    VERSIONS.iter().find(|(text, _)| text.as_slice() == bytes).map(|(_, chooses)| *chooses)
}

/// Classifies a message by its first bytes (RFC 6143 section 7.5 and the registered extensions).
fn message(buffer: &[u8]) -> Result<Step, RfbViolation> {
    let Some(&kind) = buffer.first() else { return Ok(Step::Need(1)) };
    let whole = |length: usize| if buffer.len() < length { Step::Need(length) } else { Step::Pass };
    let left = |length: usize| if buffer.len() < length { Step::Need(length) } else { Step::Leave(0) };
    Ok(match (kind, buffer) {
        // SetPixelFormat, FramebufferUpdateRequest, EnableContinuousUpdates.
        (0, _) => whole(20),
        (3 | 150, _) => whole(10),
        // SetEncodings: their number, then 4 bytes each.
        (2, [_, _, high, low, ..]) => {
            let count = usize::from(u16::from_be_bytes([*high, *low]));
            if count > MAX_ENCODINGS {
                return Err(RfbViolation::TooLarge(kind));
            }
            whole(4 + 4 * count)
        }
        (2, _) => Step::Need(4),
        // ClientFence: its payload's length, then the payload.
        (248, [_, _, _, _, _, _, _, _, length, ..]) => {
            let length = usize::from(*length);
            if length > MAX_FENCE {
                return Err(RfbViolation::TooLarge(kind));
            }
            whole(9 + length)
        }
        (248, _) => Step::Need(9),
        // KeyEvent, PointerEvent, xvp.
        (4, _) => left(8),
        (5, _) => left(6),
        (250, _) => left(4),
        // ClientCutText; a negative length means the extended clipboard, whose flags are read. The text is
        // skipped.
        (6, [_, _, _, _, a, b, c, d, ..]) => {
            let length = i32::from_be_bytes([*a, *b, *c, *d]);
            let flags = if length <= -CLIPBOARD_FLAGS { CLIPBOARD_FLAGS.unsigned_abs() } else { 0 };
            let size = |length: u32| usize::try_from(length).map_err(|_| RfbViolation::TooLarge(kind));
            let (start, text) = (8 + size(flags)?, size(length.unsigned_abs() - flags)?);
            if buffer.len() < start { Step::Need(start) } else { Step::Leave(text) }
        }
        (6, _) => Step::Need(8),
        // SetDesktopSize: 16 bytes for each screen.
        (251, [_, _, _, _, _, _, screens, ..]) => left(8 + 16 * usize::from(*screens)),
        (251, _) => Step::Need(7),
        // QEMU's messages: the extended key event is the one that viewers send.
        (255, [_, 0, ..]) => left(12),
        (255, [_]) => Step::Need(2),
        _ => return Err(RfbViolation::Unknown(kind)),
    })
}

/// Removes encodings from a complete message, if it is SetEncodings.
fn remove_encodings(message: &mut Vec<u8>, removed: &[i32]) {
    if message.first() != Some(&2) {
        return;
    }
    let encodings = message[4..]
        .chunks_exact(4)
        .filter(|encoding| !removed.iter().any(|way| way.to_be_bytes() == **encoding));
    let remaining: Vec<u8> = encodings.flatten().copied().collect();
    // At most `MAX_ENCODINGS`, and not more than before.
    let count = u16::try_from(remaining.len() / 4).unwrap_or(u16::MAX);
    message[2..4].copy_from_slice(&count.to_be_bytes());
    message.truncate(4);
    message.extend(remaining);
}
