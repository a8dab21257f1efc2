//! Filter of a client that loses its input for a time, while somebody else holds the screen.
//!
//! Whole messages pass or are dropped, so the server stays in step. A client that sends messages which are
//! unknown here loses nothing while its input is admitted: from then on its bytes pass unread. Its connection
//! must end when its input is no longer admitted.

use super::{ClientMessage, EXTENDED_BUTTONS, Reader, remove_encodings};

/// Most keys of a client that are remembered as held down; a keyboard reports fewer at once.
const MAX_KEYS_DOWN: usize = 64;

/// The connection must end, because the client's input cannot be told from its other messages, or cannot be
/// released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadableInput;

/// Filters the bytes of a client.
#[derive(Debug, Default)]
pub struct InputFilter {
    reader: Reader,
    /// Whether the text of the current clipboard message passes.
    passes_text: bool,
    /// Whether the stream could not be parsed; its bytes pass unread from then on.
    is_lost: bool,
    /// Messages that release the keys which the server has seen go down.
    keys_down: Vec<Vec<u8>>,
    /// Whether more keys were down than are remembered.
    has_more_keys: bool,
}

impl InputFilter {
    /// Parses the next bytes and returns those to forward to the server, without input unless it is admitted.
    ///
    /// # Errors
    /// [`UnreadableInput`] when input is not admitted and the stream cannot be parsed; nothing must be
    /// forwarded after it.
    pub fn pass(&mut self, mut bytes: &[u8], is_admitted: bool) -> Result<Vec<u8>, UnreadableInput> {
        let mut passed = Vec::new();
        while !self.is_lost {
            if self.passes_text {
                passed.extend_from_slice(&bytes[..self.reader.skip.min(bytes.len())]);
            }
            match self.reader.next(&mut bytes) {
                Ok(None) => return Ok(passed),
                Ok(Some(ClientMessage::Handshake(mut hello))) => passed.append(&mut hello),
                Ok(Some(ClientMessage::OutputRequest(mut message))) => {
                    remove_encodings(&mut message, &[EXTENDED_BUTTONS]);
                    passed.append(&mut message);
                }
                Ok(Some(ClientMessage::Input(mut message))) => {
                    self.passes_text = is_admitted;
                    if is_admitted {
                        self.note_key(&message);
                        passed.append(&mut message);
                    }
                }
                Err(_) => {
                    self.is_lost = true;
                    passed.append(&mut self.reader.buffer);
                }
            }
        }
        if !is_admitted {
            return Err(UnreadableInput);
        }
        passed.extend_from_slice(bytes);
        Ok(passed)
    }

    /// Returns messages that release the keys that the client holds down, and `more` after them. They go
    /// between two messages of the client. No key is held down then.
    ///
    /// # Errors
    /// [`UnreadableInput`] when the keys are not known, or when the client is in the middle of a message that
    /// passes.
    pub fn release(&mut self, more: Option<[u8; 6]>) -> Result<Vec<u8>, UnreadableInput> {
        if self.is_lost || self.has_more_keys {
            return Err(UnreadableInput);
        }
        let mut messages = std::mem::take(&mut self.keys_down).concat();
        messages.extend(more.into_iter().flatten());
        let is_in_text = self.passes_text && self.reader.skip > 0;
        if is_in_text && !messages.is_empty() {
            return Err(UnreadableInput);
        }
        Ok(messages)
    }

    /// Remembers a key that goes down, by the message that releases it (RFC 6143 section 7.5.4, and QEMU's
    /// extended key event).
    fn note_key(&mut self, message: &[u8]) {
        let (is_down, release) = match message {
            [4, down, _, _, key @ ..] => (*down != 0, [&[4, 0, 0, 0][..], key].concat()),
            [255, 0, high, low, key @ ..] => (*high != 0 || *low != 0, [&[255, 0, 0, 0][..], key].concat()),
            _ => return,
        };
        self.keys_down.retain(|known| *known != release);
        if !is_down {
            return;
        }
        if self.keys_down.len() == MAX_KEYS_DOWN {
            self.has_more_keys = true;
        } else {
            self.keys_down.push(release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &[u8] = b"RFB 003.008\n\x01\x01";
    const UPDATE: [u8; 10] = [3, 0, 0, 0, 0, 0, 0, 1, 0, 1];
    const PRESS: [u8; 6] = [5, 1, 0, 10, 0, 10];
    const KEY_DOWN: [u8; 8] = [4, 1, 0, 0, 0, 0, 0, 97];
    const KEY_UP: [u8; 8] = [4, 0, 0, 0, 0, 0, 0, 97];
    const EXTENDED_DOWN: [u8; 12] = [255, 0, 0, 1, 0, 0, 0, 97, 0, 0, 0, 30];
    const EXTENDED_UP: [u8; 12] = [255, 0, 0, 0, 0, 0, 0, 97, 0, 0, 0, 30];
    const TEXT: [u8; 11] = [6, 0, 0, 0, 0, 0, 0, 3, 5, 1, 2];

    fn opened() -> InputFilter {
        let mut filter = InputFilter::default();
        assert_eq!(filter.pass(HELLO, true), Ok(HELLO.to_vec()));
        filter
    }

    #[test]
    fn input_passes_only_while_it_is_admitted() {
        let input = [&PRESS[..], &KEY_DOWN, &UPDATE, &TEXT, &EXTENDED_DOWN, &UPDATE].concat();
        let output = [UPDATE, UPDATE].concat();
        for size in [1, 3, 7, input.len()] {
            for (is_admitted, expected) in [(true, &input), (false, &output)] {
                let mut filter = opened();
                let pieces = input.chunks(size).map(|piece| filter.pass(piece, is_admitted).unwrap());
                assert_eq!(&pieces.collect::<Vec<_>>().concat(), expected, "in pieces of {size}");
                // The stream is in step afterwards.
                assert_eq!(filter.pass(&PRESS, true), Ok(PRESS.to_vec()));
            }
        }
    }

    #[test]
    fn a_message_is_decided_as_a_whole() {
        let mut filter = opened();
        assert_eq!(filter.pass(&PRESS[..3], true), Ok(vec![]));
        assert_eq!(filter.pass(&PRESS[3..], false), Ok(vec![]), "it is complete when it is refused");
        assert_eq!(filter.pass(&TEXT[..9], true), Ok(TEXT[..9].to_vec()));
        assert_eq!(filter.release(None), Ok(vec![]));
        assert_eq!(filter.release(Some(PRESS)), Err(UnreadableInput), "nothing goes into a text");
        assert_eq!(filter.pass(&TEXT[9..], false), Ok(TEXT[9..].to_vec()));
        assert_eq!(filter.pass(&TEXT[..9], false), Ok(vec![]));
        assert_eq!(filter.pass(&[&TEXT[9..], &PRESS].concat(), true), Ok(PRESS.to_vec()));
    }

    #[test]
    fn held_keys_are_released() {
        let up = [5, 0, 0, 10, 0, 10];
        for (input, expected) in [
            (vec![], up.to_vec()),
            (KEY_DOWN.to_vec(), [&KEY_UP[..], &up].concat()),
            (EXTENDED_DOWN.to_vec(), [&EXTENDED_UP[..], &up].concat()),
            ([KEY_DOWN, KEY_DOWN].concat(), [&KEY_UP[..], &up].concat()),
            ([KEY_DOWN, KEY_UP].concat(), up.to_vec()),
        ] {
            let mut filter = opened();
            filter.pass(&input, true).unwrap();
            assert_eq!(filter.release(Some(up)), Ok(expected), "{input:?}");
            assert_eq!(filter.release(None), Ok(vec![]), "they are up");
        }
        let mut filter = opened();
        filter.pass(&KEY_DOWN, false).unwrap();
        assert_eq!(filter.release(None), Ok(vec![]), "the server has not seen it");
        for key in 0..=u8::try_from(MAX_KEYS_DOWN).expect("a byte") {
            filter.pass(&[4, 1, 0, 0, 0, 0, 0, key], true).unwrap();
        }
        assert_eq!(filter.release(None), Err(UnreadableInput));
    }

    #[test]
    fn unknown_messages_pass_until_input_is_refused() {
        let mut filter = opened();
        let unknown = [&UPDATE[..], &[7, 1, 2, 3], &PRESS].concat();
        assert_eq!(filter.pass(&unknown, true), Ok(unknown.clone()));
        assert_eq!(filter.pass(&PRESS, true), Ok(PRESS.to_vec()));
        assert_eq!(filter.release(None), Err(UnreadableInput));
        assert_eq!(filter.pass(&UPDATE, false), Err(UnreadableInput));
        let mut filter = InputFilter::default();
        assert_eq!(filter.pass(b"GET / HT", true), Ok(vec![]));
        assert_eq!(filter.pass(b"TP/1.1\r\n", true), Ok(b"GET / HTTP/1.1\r\n".to_vec()));
        assert_eq!(opened().pass(&[7], false), Err(UnreadableInput));
    }

    #[test]
    fn pointer_events_keep_their_length() {
        let mut input = vec![2, 0, 0, 3];
        let mut expected = vec![2, 0, 0, 2];
        for encoding in [7i32, EXTENDED_BUTTONS, -258] {
            input.extend(encoding.to_be_bytes());
            expected
                .extend((encoding != EXTENDED_BUTTONS).then(|| encoding.to_be_bytes()).into_iter().flatten());
        }
        assert_eq!(opened().pass(&input, true), Ok(expected));
    }
}
