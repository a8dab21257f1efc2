//! Filter that removes input from the messages of a view-only RFB client.
//!
//! Only complete messages that request output are forwarded. Input is dropped, and an unknown message ends
//! the connection. The server therefore reads only messages that were parsed completely here, so a client
//! cannot exploit differences between two parsers.

use super::{ClientMessage, EXTENDED_BUTTONS, Reader, RfbViolation, remove_encodings};

/// Pseudo-encodings that change how a client sends input: QEMU's extended key event and extended mouse
/// buttons. They are removed, so that the server never enables them.
const INPUT_ENCODINGS: [i32; 2] = [-258, EXTENDED_BUTTONS];

/// Filters the bytes of a view-only client.
#[derive(Debug, Default)]
pub struct ViewOnly {
    reader: Reader,
}

impl ViewOnly {
    /// Parses the next bytes and returns those to forward to the server.
    ///
    /// # Errors
    /// [`RfbViolation`]; nothing must be forwarded after it.
    pub fn pass(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, RfbViolation> {
        let mut passed = Vec::new();
        while let Some(message) = self.reader.next(&mut bytes)? {
            match message {
                ClientMessage::Handshake(mut hello) => passed.append(&mut hello),
                ClientMessage::OutputRequest(mut message) => {
                    remove_encodings(&mut message, &INPUT_ENCODINGS);
                    passed.append(&mut message);
                }
                ClientMessage::Input(_) => {}
            }
        }
        Ok(passed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::MAX_ENCODINGS;
    use super::*;

    const HELLO: &[u8] = b"RFB 003.008\n\x01\x01";

    fn filter(bytes: &[u8]) -> Result<Vec<u8>, RfbViolation> {
        let mut filter = ViewOnly::default();
        let mut passed = filter.pass(HELLO).unwrap();
        assert_eq!(passed, HELLO);
        passed = filter.pass(bytes)?;
        Ok(passed)
    }

    #[test]
    fn a_handshake_passes_in_each_version_and_nothing_else_does() {
        for (input, expected) in [
            (&b"RFB 003.003\n\x00"[..], Ok(())),
            (b"RFB 003.007\n\x01\x00", Ok(())),
            (b"RFB 003.008\n\x01\x01", Ok(())),
            (b"RFB 003.008\n\x02", Err(RfbViolation::Security(2))),
            (b"RFB 003.008\n\x00", Err(RfbViolation::Security(0))),
            (b"RFB 003.889\n", Err(RfbViolation::NotRfb)),
            (b"RFB 004.000\n", Err(RfbViolation::NotRfb)),
            (b"GET / HTTP/1", Err(RfbViolation::NotRfb)),
            (b"\0\0\0\0\0\0\0\0\0\0\0\0", Err(RfbViolation::NotRfb)),
        ] {
            let passed = ViewOnly::default().pass(input);
            assert_eq!(passed, expected.map(|()| input.to_vec()), "{input:?}");
        }
    }

    #[test]
    fn output_requests_pass_unchanged() {
        for message in [
            [&[0u8; 4][..], &[32, 24, 0, 1], &[0; 12]].concat(),
            vec![2, 0, 0, 0],
            vec![2, 0, 0, 2, 0, 0, 0, 7, 255, 255, 255, 33],
            vec![3, 1, 0, 0, 0, 0, 5, 0, 2, 208],
            vec![150, 1, 0, 0, 0, 0, 5, 0, 2, 208],
            vec![248, 0, 0, 0, 128, 0, 0, 1, 0],
            [&[248, 0, 0, 0, 128, 0, 0, 1, 64][..], &[9; 64]].concat(),
        ] {
            assert_eq!(filter(&message), Ok(message.clone()), "{message:?}");
        }
    }

    #[test]
    fn input_is_dropped_and_the_next_message_is_found() {
        let next = [3, 0, 0, 0, 0, 0, 0, 1, 0, 1];
        for message in [
            vec![4, 1, 0, 0, 0, 0, 0, 97],
            vec![5, 1, 0, 10, 0, 10],
            vec![6, 0, 0, 0, 0, 0, 0, 3, b'a', b'b', b'c'],
            vec![6, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc, 1, 0, 0, 0],
            vec![6, 0, 0, 0, 0, 0, 0, 0],
            vec![250, 0, 1, 2],
            [&[251, 0, 5, 0, 2, 208, 1, 0][..], &[0; 16]].concat(),
            vec![251, 0, 5, 0, 2, 208, 0, 0],
            vec![255, 0, 0, 1, 0, 0, 0, 97, 0, 0, 0, 30],
        ] {
            let input = [&message[..], &next].concat();
            assert_eq!(filter(&input), Ok(next.to_vec()), "{message:?}");
        }
    }

    #[test]
    fn unknown_messages_end_the_connection() {
        for (message, refused) in [
            (&[1u8][..], RfbViolation::Unknown(1)),
            (&[7], RfbViolation::Unknown(7)),
            (&[249], RfbViolation::Unknown(249)),
            (&[252], RfbViolation::Unknown(252)),
            (&[255, 1], RfbViolation::Unknown(255)),
            (&[2, 0, 4, 1], RfbViolation::TooLarge(2)),
            (&[2, 0, 255, 255], RfbViolation::TooLarge(2)),
            (&[248, 0, 0, 0, 0, 0, 0, 0, 65], RfbViolation::TooLarge(248)),
        ] {
            assert_eq!(filter(message), Err(refused), "{message:?}");
        }
    }

    #[test]
    fn input_encodings_are_removed() {
        let mut input = vec![2, 0, 0, 4];
        for encoding in [7i32, -258, -316, -308] {
            input.extend(encoding.to_be_bytes());
        }
        let mut expected = vec![2, 0, 0, 2];
        for encoding in [7i32, -308] {
            expected.extend(encoding.to_be_bytes());
        }
        assert_eq!(filter(&input), Ok(expected));
    }

    /// A message and whether it passes.
    fn messages() -> impl Strategy<Value = (Vec<u8>, bool)> {
        let some = |kind: u8, length: usize| {
            proptest::collection::vec(any::<u8>(), length - 1)
                .prop_map(move |rest| [vec![kind], rest].concat())
        };
        let cut = proptest::collection::vec(any::<u8>(), 0..3000).prop_map(|text| {
            let length = u32::try_from(text.len()).unwrap().to_be_bytes();
            [&[6, 0, 0, 0][..], &length, &text].concat()
        });
        let fence = proptest::collection::vec(any::<u8>(), 0..=64).prop_map(|payload| {
            [&[248, 0, 0, 0, 0, 0, 0, 0, u8::try_from(payload.len()).unwrap()][..], &payload].concat()
        });
        let encodings = proptest::collection::vec(0i32..300, 0..50).prop_map(|all| {
            let count = u16::try_from(all.len()).unwrap().to_be_bytes();
            let bytes: Vec<u8> = all.iter().flat_map(|encoding| encoding.to_be_bytes()).collect();
            [&[2, 0][..], &count, &bytes].concat()
        });
        prop_oneof![
            some(0, 20).prop_map(|message| (message, true)),
            some(3, 10).prop_map(|message| (message, true)),
            some(150, 10).prop_map(|message| (message, true)),
            fence.prop_map(|message| (message, true)),
            encodings.prop_map(|message| (message, true)),
            some(4, 8).prop_map(|message| (message, false)),
            some(5, 6).prop_map(|message| (message, false)),
            some(250, 4).prop_map(|message| (message, false)),
            cut.prop_map(|message| (message, false)),
        ]
    }

    /// Bytes cut at places.
    fn cut<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
    }

    proptest! {
        #[test]
        fn only_output_requests_pass_in_pieces_of_any_size(
            input in proptest::collection::vec(messages(), 0..20),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let all = input.iter().fold(HELLO.to_vec(), |all, (message, _)| [all, message.clone()].concat());
            let harmless = input.iter().filter(|(_, passes)| *passes);
            let expected = harmless.fold(HELLO.to_vec(), |all, (message, _)| [all, message.clone()].concat());
            let mut filter = ViewOnly::default();
            let mut passed = Vec::new();
            for piece in cut(&all, &cuts) {
                passed.extend(filter.pass(piece).unwrap());
            }
            prop_assert_eq!(passed, expected);
        }

        #[test]
        fn junk_is_filtered_alike_in_pieces_of_any_size(
            junk in proptest::collection::vec(prop_oneof![
                any::<u8>(), prop::sample::select(vec![0u8, 2, 3, 4, 5, 6, 150, 248, 250, 251, 255])
            ], 0..600),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let input = [HELLO, &junk].concat();
            let read = |pieces: Vec<&[u8]>| {
                let mut filter = ViewOnly::default();
                let mut passed = Vec::new();
                for piece in pieces {
                    match filter.pass(piece) {
                        Ok(more) => passed.extend(more),
                        Err(refused) => return (passed, Some(refused)),
                    }
                    assert!(filter.reader.buffer.len() <= 4 + 4 * MAX_ENCODINGS);
                }
                (passed, None)
            };
            let (passed, refused) = read(cut(&input, &cuts));
            // In single bytes, everything before a refusal has passed.
            let (single, also) = read(input.chunks(1).collect());
            prop_assert_eq!(refused, also);
            prop_assert!(single.starts_with(&passed));
            prop_assert_eq!(ViewOnly::default().pass(&single), Ok(single));
        }
    }
}
