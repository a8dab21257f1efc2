//! What can be on a clipboard, and in which forms is it offered and read?

use std::sync::Arc;

use x11rb::protocol::xproto::AtomEnum;

use super::atoms::Atoms;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::clipboard::{MAX_IMAGE_BYTES, MAX_TEXT_BYTES};

/// What every PNG file begins with.
const PNG_SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];

/// Which of a screen's two clipboards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// What programs copy and paste.
    Clipboard,
    /// What was last marked with the pointer; the middle button pastes it.
    Primary,
}

impl Selection {
    /// Reads its name; the clipboard proper when there is none.
    ///
    /// # Errors
    /// `Invalid` for another name.
    pub fn parse(name: Option<&str>) -> Result<Self> {
        match name {
            None | Some("clipboard") => Ok(Self::Clipboard),
            Some("primary") => Ok(Self::Primary),
            Some(_) => Err(Error::invalid("selection must be clipboard or primary")),
        }
    }

    pub(super) fn atom(self, atoms: &Atoms) -> u32 {
        match self {
            Self::Clipboard => atoms.CLIPBOARD,
            Self::Primary => AtomEnum::PRIMARY.into(),
        }
    }
}

/// What is on a clipboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text of at most [`MAX_TEXT_BYTES`].
    Text(String),
    /// A PNG file of at most [`MAX_IMAGE_BYTES`].
    Png(Vec<u8>),
}

impl Content {
    /// Checks that it can be put on a clipboard.
    ///
    /// # Errors
    /// `TooLarge`; `Invalid` for text with NUL, which the programs that paste it would cut, and for what is no PNG.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Text(text) if text.len() > MAX_TEXT_BYTES => {
                Err(Error::too_large(format!("text is longer than {MAX_TEXT_BYTES} bytes")))
            }
            Self::Text(text) if text.contains('\0') => Err(Error::invalid("text holds a NUL character")),
            Self::Png(bytes) if bytes.len() > MAX_IMAGE_BYTES => {
                Err(Error::too_large(format!("image is larger than {MAX_IMAGE_BYTES} bytes")))
            }
            Self::Png(bytes) if !bytes.starts_with(&PNG_SIGNATURE) => {
                Err(Error::invalid("image is not a PNG file"))
            }
            Self::Text(_) | Self::Png(_) => Ok(()),
        }
    }

    /// The forms that it is offered in.
    pub(super) fn forms(self, atoms: &Atoms) -> Vec<Form> {
        let form = |target: u32, kind: u32, bytes: &Arc<[u8]>| Form {
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
                    form(atoms.TEXT_UTF8, atoms.TEXT_UTF8, &utf8),
                    form(atoms.UTF8_STRING, atoms.UTF8_STRING, &utf8),
                    form(atoms.TEXT, atoms.UTF8_STRING, &utf8),
                    form(atoms.TEXT_PLAIN, atoms.TEXT_PLAIN, &utf8),
                    form(string, string, &latin),
                ]
            }
            Self::Png(bytes) => vec![form(atoms.IMAGE_PNG, atoms.IMAGE_PNG, &bytes.into())],
        }
    }
}

/// What was found on a clipboard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The content; `None` when it is empty or neither text nor a PNG image.
    pub content: Option<Content>,
    /// The names of the forms that its owner offers.
    pub targets: Vec<String>,
}

/// What a program has put on the clipboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copied {
    /// Text. One that is longer than an event may carry is cut, but still longer than that.
    Text(String),
    /// Something that is no text, or nothing.
    Other,
    /// What this program put there for a while, or put back after that.
    Passing,
}

/// All that was on a clipboard at some time, in all its forms.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(super) forms: Vec<Form>,
    /// Whether a form was left out because it was too large, or its owner did not hand it over.
    pub partial: bool,
}

impl Snapshot {
    /// Whether nothing was on the clipboard.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }
}

/// One form of a content, as X passes it on.
#[derive(Clone, Debug)]
pub(super) struct Form {
    /// By which name it is asked for.
    pub(super) target: u32,
    /// Its type.
    pub(super) kind: u32,
    /// Bits of one item.
    pub(super) format: u8,
    /// The items.
    pub(super) bytes: Arc<[u8]>,
}

/// The targets to ask for, the best first; `None` offered means that the owner does not say.
pub(super) fn candidates(offered: Option<&[u32]>, atoms: &Atoms) -> Vec<u32> {
    let string = AtomEnum::STRING.into();
    let known = [atoms.TEXT_UTF8, atoms.UTF8_STRING, string, atoms.TEXT, atoms.TEXT_PLAIN, atoms.IMAGE_PNG];
    match offered {
        Some(offered) => known.into_iter().filter(|target| offered.contains(target)).collect(),
        None => vec![atoms.UTF8_STRING, string],
    }
}

/// Whether a form is text.
pub(super) fn is_text(target: u32, atoms: &Atoms) -> bool {
    target != atoms.IMAGE_PNG
}

/// How many bytes of a form are taken.
pub(super) fn limit(target: u32, atoms: &Atoms) -> usize {
    if target == atoms.IMAGE_PNG { MAX_IMAGE_BYTES } else { MAX_TEXT_BYTES }
}

/// Reads a form; `None` for an encoding that is not known here.
pub(super) fn read(form: &Form, atoms: &Atoms) -> Option<Content> {
    if form.format != 8 || form.kind == atoms.COMPOUND_TEXT {
        return None;
    }
    if form.target == atoms.IMAGE_PNG {
        return Some(Content::Png(form.bytes.to_vec()));
    }
    let latin = || form.bytes.iter().map(|byte| char::from(*byte)).collect();
    let text = if form.kind == u32::from(AtomEnum::STRING) {
        latin()
    } else if form.kind == atoms.TEXT_PLAIN {
        // No encoding is named.
        String::from_utf8(form.bytes.to_vec()).unwrap_or_else(|_| latin())
    } else {
        String::from_utf8_lossy(&form.bytes).into_owned()
    };
    Some(Content::Text(text))
}

/// The owner of a clipboard said nothing in time.
pub(super) fn owner_silent() -> Error {
    Error::timed_out("The program that owns the clipboard does not answer")
}
