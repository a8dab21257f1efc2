//! Clipboard contents and their X representations (ICCCM targets).

use std::sync::Arc;

use x11rb::protocol::xproto::AtomEnum;

use super::atoms::ClipboardAtoms;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::desktop::clipboard::{MAX_IMAGE_BYTES, MAX_TEXT_BYTES};

/// Signature of a PNG file.
const PNG_SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];

/// One of the two clipboards of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// `CLIPBOARD`: what programs copy and paste.
    Clipboard,
    /// `PRIMARY`: the last text selected with the pointer; the middle button pastes it.
    Primary,
}

impl Selection {
    /// Parses the wire name; `None` means [`Selection::Clipboard`].
    ///
    /// # Errors
    /// `Invalid` for any other name.
    pub fn parse(name: Option<&str>) -> Result<Self> {
        match name {
            None | Some("clipboard") => Ok(Self::Clipboard),
            Some("primary") => Ok(Self::Primary),
            Some(_) => Err(Error::invalid("selection must be clipboard or primary")),
        }
    }

    pub(super) fn atom(self, atoms: &ClipboardAtoms) -> u32 {
        match self {
            Self::Clipboard => atoms.CLIPBOARD,
            Self::Primary => AtomEnum::PRIMARY.into(),
        }
    }
}

/// Content that can be put on a clipboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClipboardItem {
    /// Text of at most [`MAX_TEXT_BYTES`] bytes.
    Text(String),
    /// A PNG file of at most [`MAX_IMAGE_BYTES`] bytes.
    Png(Vec<u8>),
}

impl ClipboardItem {
    /// Checks that the content can be put on a clipboard.
    ///
    /// # Errors
    /// `TooLarge` past the limit of its kind; `Invalid` for text with a NUL character (programs that paste it
    /// would cut it there) and for an image that is not a PNG file.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Text(text) if text.len() > MAX_TEXT_BYTES => {
                Err(Error::too_large(format!("text is longer than {MAX_TEXT_BYTES} bytes")))
            }
            Self::Text(text) if text.contains('\0') => Err(Error::invalid("text contains a NUL character")),
            Self::Png(bytes) if bytes.len() > MAX_IMAGE_BYTES => {
                Err(Error::too_large(format!("image is larger than {MAX_IMAGE_BYTES} bytes")))
            }
            Self::Png(bytes) if !bytes.starts_with(&PNG_SIGNATURE) => {
                Err(Error::invalid("image is not a PNG file"))
            }
            Self::Text(_) | Self::Png(_) => Ok(()),
        }
    }

    /// The representations in which the content is offered, the preferred one first.
    pub(super) fn target_data(self, atoms: &ClipboardAtoms) -> Vec<TargetData> {
        let data = |target: u32, kind: u32, bytes: &Arc<[u8]>| TargetData {
            target,
            kind,
            format: 8,
            bytes: Arc::clone(bytes),
        };
        match self {
            Self::Text(text) => {
                let latin: Arc<[u8]> = text.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect();
                let utf8: Arc<[u8]> = text.into_bytes().into();
                let string = u32::from(AtomEnum::STRING);
                vec![
                    data(atoms.TEXT_UTF8, atoms.TEXT_UTF8, &utf8),
                    data(atoms.UTF8_STRING, atoms.UTF8_STRING, &utf8),
                    data(atoms.TEXT, atoms.UTF8_STRING, &utf8),
                    data(atoms.TEXT_PLAIN, atoms.TEXT_PLAIN, &utf8),
                    data(string, string, &latin),
                ]
            }
            Self::Png(bytes) => vec![data(atoms.IMAGE_PNG, atoms.IMAGE_PNG, &bytes.into())],
        }
    }
}

/// Result of reading a clipboard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClipboardContents {
    /// The content; `None` when the clipboard is empty or holds neither text nor a PNG image.
    pub content: Option<ClipboardItem>,
    /// Names of the targets that the owner offers, in its order.
    pub targets: Vec<String>,
}

/// Result of reading what a program copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopiedContent {
    /// Text. A text that is longer than an event may carry is cut, but is still longer than that limit.
    Text(String),
    /// Content without text, or an empty clipboard.
    Other,
    /// Content that this agent put there temporarily, or restored afterwards.
    Temporary,
}

/// All representations of a clipboard's content at one time.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(super) target_data: Vec<TargetData>,
    /// Whether a representation is missing because it was too large or its owner did not deliver it.
    pub partial: bool,
}

impl Snapshot {
    /// Whether the clipboard was empty.
    pub fn is_empty(&self) -> bool {
        self.target_data.is_empty()
    }
}

/// One representation of a content.
#[derive(Clone, Debug)]
pub(super) struct TargetData {
    /// Atom of the target that requests it.
    pub(super) target: u32,
    /// Atom of the property type.
    pub(super) kind: u32,
    /// Bits per item: 8, 16 or 32.
    pub(super) format: u8,
    /// The items, in the byte order of the machine.
    pub(super) bytes: Arc<[u8]>,
}

/// The targets to request, best first. `None` in `offered` means that the owner does not list its targets.
pub(super) fn candidates(offered: Option<&[u32]>, atoms: &ClipboardAtoms) -> Vec<u32> {
    let string = AtomEnum::STRING.into();
    let known = [atoms.TEXT_UTF8, atoms.UTF8_STRING, string, atoms.TEXT, atoms.TEXT_PLAIN, atoms.IMAGE_PNG];
    match offered {
        Some(offered) => known.into_iter().filter(|target| offered.contains(target)).collect(),
        None => vec![atoms.UTF8_STRING, string],
    }
}

/// Whether a target is text.
pub(super) fn is_text(target: u32, atoms: &ClipboardAtoms) -> bool {
    target != atoms.IMAGE_PNG
}

/// Largest size in bytes of a target's data.
pub(super) fn limit(target: u32, atoms: &ClipboardAtoms) -> usize {
    if target == atoms.IMAGE_PNG { MAX_IMAGE_BYTES } else { MAX_TEXT_BYTES }
}

/// Decodes a representation; `None` for an unknown encoding.
pub(super) fn read(data: &TargetData, atoms: &ClipboardAtoms) -> Option<ClipboardItem> {
    if data.format != 8 || data.kind == atoms.COMPOUND_TEXT {
        return None;
    }
    if data.target == atoms.IMAGE_PNG {
        return Some(ClipboardItem::Png(data.bytes.to_vec()));
    }
    let latin = || data.bytes.iter().map(|byte| char::from(*byte)).collect();
    let text = if data.kind == u32::from(AtomEnum::STRING) {
        latin()
    } else if data.kind == atoms.TEXT_PLAIN {
        // `text/plain` names no encoding.
        String::from_utf8(data.bytes.to_vec()).unwrap_or_else(|_| latin())
    } else {
        String::from_utf8_lossy(&data.bytes).into_owned()
    };
    Some(ClipboardItem::Text(text))
}

/// The error for a clipboard owner that did not answer in time.
pub(super) fn owner_silent() -> Error {
    Error::timed_out("The program that owns the clipboard does not answer")
}
