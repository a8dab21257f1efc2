//! What does a VNC client say? The client's half of RFB (RFC 6143), message by message.

mod pressed;
mod view_only;

pub use pressed::Pressed;
pub use view_only::ViewOnly;

/// The versions that the protocol has (RFC 6143 section 7.1.1): whether the client chooses a security type in it.
const VERSIONS: [(&[u8; 12], bool); 3] =
    [(b"RFB 003.003\n", false), (b"RFB 003.007\n", true), (b"RFB 003.008\n", true)];
/// The security type "None", the only one that is offered: the socket itself was opened with a credential.
const NO_SECURITY: u8 = 1;
/// Encodings that a client may name at once; about 140 are registered.
const MAX_ENCODINGS: usize = 1024;
/// Longest payload of a fence, by its description.
const MAX_FENCE: usize = 64;
/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It did not begin with a version of RFB.
    NotRfb,
    /// It chose a security type that was not offered.
    Security(u8),
    /// A message type that viewers do not have.
    Unknown(u8),
    /// A known message that is larger than any real one.
    TooLarge(u8),
}

/// Where a client is in its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Version,
    Security,
    Init,
    Messages,
}

/// What is known of a message from its first bytes.
enum Step {
    /// So many bytes of it are needed to say more.
    Need(usize),
    /// It is whole and asks to be shown something.
    Pass,
    /// It acts, and so many bytes that follow are a part of it.
    Leave(usize),
}

/// What a client said, read from start to end.
enum Said {
    /// A part of the handshake.
    Hello(Vec<u8>),
    /// A message that asks to be shown something.
    Asks(Vec<u8>),
    /// A message that acts; its first bytes, which are all of it but of a clipboard's text.
    Acts(Vec<u8>),
}

/// Reads a client's messages, however their bytes were cut. It keeps at most one, about 4 KiB.
#[derive(Debug)]
struct Reader {
    phase: Phase,
    held: Vec<u8>,
    skip: usize,
}

impl Default for Reader {
    fn default() -> Self {
        Self { phase: Phase::Version, held: Vec::new(), skip: 0 }
    }
}

impl Reader {
    /// The next that is whole, and the bytes behind it; `None` when all are read.
    ///
    /// # Errors
    /// [`Refused`]; what follows cannot be read.
    fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Said>, Refused> {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            *bytes = &bytes[skipped..];
            match self.step()? {
                Step::Need(_) if bytes.is_empty() => return Ok(None),
                Step::Need(length) => {
                    let taken = (length - self.held.len()).min(bytes.len());
                    self.held.extend_from_slice(&bytes[..taken]);
                    *bytes = &bytes[taken..];
                }
                Step::Pass => {
                    let said = std::mem::take(&mut self.held);
                    if self.phase == Phase::Messages {
                        return Ok(Some(Said::Asks(said)));
                    }
                    self.phase = self.phase.next(&said);
                    return Ok(Some(Said::Hello(said)));
                }
                Step::Leave(more) => {
                    self.skip = more;
                    return Ok(Some(Said::Acts(std::mem::take(&mut self.held))));
                }
            }
        }
    }

    fn step(&self) -> Result<Step, Refused> {
        let held = self.held.as_slice();
        let whole = |length: usize| if held.len() < length { Step::Need(length) } else { Step::Pass };
        match self.phase {
            Phase::Version => match held.len() {
                12 if version(held).is_none() => Err(Refused::NotRfb),
                _ => Ok(whole(12)),
            },
            Phase::Security => match held.first() {
                Some(&other) if other != NO_SECURITY => Err(Refused::Security(other)),
                _ => Ok(whole(1)),
            },
            Phase::Init => Ok(whole(1)),
            Phase::Messages => message(held),
        }
    }
}

impl Phase {
    /// What follows what was said in this phase.
    fn next(self, said: &[u8]) -> Self {
        match self {
            Self::Version if version(said) == Some(true) => Self::Security,
            Self::Version | Self::Security => Self::Init,
            Self::Init | Self::Messages => Self::Messages,
        }
    }
}

fn version(said: &[u8]) -> Option<bool> {
    VERSIONS.iter().find(|(text, _)| text.as_slice() == said).map(|(_, chooses)| *chooses)
}

/// What a message is, as far as its bytes tell (RFC 6143 section 7.5, and the registered extensions).
fn message(held: &[u8]) -> Result<Step, Refused> {
    let Some(&kind) = held.first() else { return Ok(Step::Need(1)) };
    let whole = |length: usize| if held.len() < length { Step::Need(length) } else { Step::Pass };
    let left = |length: usize| if held.len() < length { Step::Need(length) } else { Step::Leave(0) };
    Ok(match (kind, held) {
        // SetPixelFormat, FramebufferUpdateRequest, EnableContinuousUpdates.
        (0, _) => whole(20),
        (3 | 150, _) => whole(10),
        // SetEncodings: their number, then 4 bytes each.
        (2, [_, _, high, low, ..]) => {
            let count = usize::from(u16::from_be_bytes([*high, *low]));
            if count > MAX_ENCODINGS {
                return Err(Refused::TooLarge(kind));
            }
            whole(4 + 4 * count)
        }
        (2, _) => Step::Need(4),
        // ClientFence: its payload's length, then the payload.
        (248, [_, _, _, _, _, _, _, _, length, ..]) => {
            let length = usize::from(*length);
            if length > MAX_FENCE {
                return Err(Refused::TooLarge(kind));
            }
            whole(9 + length)
        }
        (248, _) => Step::Need(9),
        // KeyEvent, PointerEvent, xvp.
        (4, _) => left(8),
        (5, _) => left(6),
        (250, _) => left(4),
        // ClientCutText; a negative length is how the extended clipboard is told (its bytes are not kept).
        (6, [_, _, _, _, a, b, c, d, ..]) => {
            let length = i32::from_be_bytes([*a, *b, *c, *d]).unsigned_abs();
            Step::Leave(usize::try_from(length).map_err(|_| Refused::TooLarge(kind))?)
        }
        (6, _) => Step::Need(8),
        // SetDesktopSize: 16 bytes for each screen.
        (251, [_, _, _, _, _, _, screens, ..]) => left(8 + 16 * usize::from(*screens)),
        (251, _) => Step::Need(7),
        // QEMU's messages: the extended key event is the one that viewers send.
        (255, [_, 0, ..]) => left(12),
        (255, [_]) => Step::Need(2),
        _ => return Err(Refused::Unknown(kind)),
    })
}
