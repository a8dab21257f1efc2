//! Reader of the input in the messages of an RFB client.

use super::{ClientMessage, Reader};

/// Flags of the extended clipboard (protocol description, "Extended Clipboard Pseudo-Encoding"): the message
/// lists capabilities, or announces the formats of a content.
const CLIPBOARD_CAPABILITIES: u32 = 1 << 24;
const CLIPBOARD_NOTIFY: u32 = 1 << 27;
/// Formats of the extended clipboard; the bits above are its actions.
const CLIPBOARD_FORMATS: u32 = 0xffff;

/// Input of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientInput {
    /// The pointer (RFC 6143 section 7.5.5).
    Pointer {
        /// Buttons that are down; bit 0 is the left one, bits 3 to 6 are the wheel.
        buttons: u8,
        /// Distance from the left edge of the screen in pixels.
        x: u16,
        /// Distance from the top edge of the screen in pixels.
        y: u16,
    },
    /// A key (RFC 6143 section 7.5.4, and QEMU's extended key event). A held key goes down repeatedly.
    Key {
        /// Whether it goes down.
        is_down: bool,
        /// Its X keysym; 0 when the client knows none.
        keysym: u32,
    },
    /// A content for the clipboard.
    Clipboard {
        /// Length of the text; `None` when the content is only announced.
        characters: Option<u32>,
    },
    /// The stream cannot be parsed: no later input is read.
    Unreadable,
}

/// Reads the input of a client.
#[derive(Debug, Default)]
pub struct InputReader {
    reader: Reader,
    is_lost: bool,
}

impl InputReader {
    /// Parses the next bytes and calls `on_input` for each input in them.
    pub fn read(&mut self, mut bytes: &[u8], mut on_input: impl FnMut(ClientInput)) {
        while !self.is_lost {
            match self.reader.next(&mut bytes) {
                Ok(Some(ClientMessage::Input(message))) => {
                    if let Some(input) = input(&message) {
                        on_input(input);
                    }
                }
                Ok(Some(ClientMessage::Handshake(_) | ClientMessage::OutputRequest(_))) => {}
                Ok(None) => return,
                Err(_) => {
                    self.is_lost = true;
                    on_input(ClientInput::Unreadable);
                }
            }
        }
    }

    /// Parses the next bytes and returns whether input may be in them.
    pub fn may_have_input(&mut self, bytes: &[u8]) -> bool {
        let mut found = self.is_lost;
        self.read(bytes, |_| found = true);
        found
    }
}

/// Returns what a message of input says; `None` for one that neither acts nor sets the clipboard.
fn input(message: &[u8]) -> Option<ClientInput> {
    match message {
        [4, down, _, _, a, b, c, d] => {
            Some(ClientInput::Key { is_down: *down != 0, keysym: u32::from_be_bytes([*a, *b, *c, *d]) })
        }
        [255, 0, high, low, a, b, c, d, ..] => Some(ClientInput::Key {
            is_down: *high != 0 || *low != 0,
            keysym: u32::from_be_bytes([*a, *b, *c, *d]),
        }),
        [5, buttons, a, b, c, d] => Some(ClientInput::Pointer {
            buttons: *buttons,
            x: u16::from_be_bytes([*a, *b]),
            y: u16::from_be_bytes([*c, *d]),
        }),
        [6, _, _, _, a, b, c, d] => {
            // A message without a text clears the clipboard; a negative length has flags.
            let length = u32::try_from(i32::from_be_bytes([*a, *b, *c, *d])).ok().filter(|it| *it > 0);
            length.map(|length| ClientInput::Clipboard { characters: Some(length) })
        }
        [6, _, _, _, _, _, _, _, a, b, c, d] => {
            let flags = u32::from_be_bytes([*a, *b, *c, *d]);
            let is_announced = flags & CLIPBOARD_NOTIFY != 0
                && flags & CLIPBOARD_CAPABILITIES == 0
                && flags & CLIPBOARD_FORMATS != 0;
            is_announced.then_some(ClientInput::Clipboard { characters: None })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &[u8] = b"RFB 003.008\n\x01\x01";
    const UPDATE: [u8; 10] = [3, 0, 0, 0, 0, 0, 0, 1, 0, 1];

    #[test]
    fn input_is_read_from_pieces_of_any_size() {
        let pointer = |buttons, x, y| ClientInput::Pointer { buttons, x, y };
        let key = |is_down, keysym| ClientInput::Key { is_down, keysym };
        let clipboard = |characters| ClientInput::Clipboard { characters };
        let text = [&[6, 0, 0, 0, 0, 0, 0, 6][..], &[5, 1, 0, 9, 0, 9]].concat();
        let provided = [&[6, 0, 0, 0, 0xff, 0xff, 0xff, 0xf6, 16, 0, 0, 1][..], &[5, 1, 0, 9, 0, 9]].concat();
        for (message, expected) in [
            (vec![5, 1, 0, 10, 1, 20], Some(pointer(1, 10, 276))),
            (vec![4, 1, 0, 0, 0, 0, 0xff, 0x0d], Some(key(true, 0xff0d))),
            (vec![4, 0, 0, 0, 0, 0, 0, 97], Some(key(false, 97))),
            (vec![255, 0, 0, 1, 0, 0, 0, 97, 0, 0, 0, 30], Some(key(true, 97))),
            (vec![255, 0, 0, 0, 0, 0, 0, 97, 0, 0, 0, 30], Some(key(false, 97))),
            // The bytes of a text are no input.
            (text, Some(clipboard(Some(6)))),
            (vec![6, 0, 0, 0, 0, 0, 0, 0], None),
            (vec![6, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc, 8, 0, 0, 1], Some(clipboard(None))),
            // Nothing is announced any more; capabilities; what was announced; too short for flags.
            (vec![6, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc, 8, 0, 0, 0], None),
            (vec![6, 0, 0, 0, 0xff, 0xff, 0xff, 0xf8, 31, 0, 0, 1, 0, 0, 0, 0], None),
            (provided, None),
            (vec![6, 0, 0, 0, 0xff, 0xff, 0xff, 0xfe, 5, 1], None),
            (vec![250, 0, 1, 2], None),
            (UPDATE.to_vec(), None),
        ] {
            let last = pointer(0, 7, 8);
            let all = [HELLO, &UPDATE, &message, &[5, 0, 0, 7, 0, 8]].concat();
            for size in [1, 3, 7, all.len()] {
                let (mut reader, mut read) = (InputReader::default(), Vec::new());
                all.chunks(size).for_each(|piece| reader.read(piece, |input| read.push(input)));
                let expected: Vec<ClientInput> = expected.into_iter().chain([last]).collect();
                assert_eq!(read, expected, "{message:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn an_unknown_message_is_told_once_and_everything_after_it_may_be_input() {
        let (mut reader, mut read) = (InputReader::default(), Vec::new());
        assert!(!reader.may_have_input(&[HELLO, &UPDATE].concat()));
        reader.read(&[7, 5, 1, 0, 9, 0, 9], |input| read.push(input));
        reader.read(&[5, 0, 0, 9, 0, 9], |input| read.push(input));
        assert_eq!(read, [ClientInput::Unreadable]);
        assert!(reader.may_have_input(&UPDATE));
    }
}
