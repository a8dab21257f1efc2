//! What may a viewer say that must not act?
//!
//! Only whole messages that ask to be shown something are passed on; what would act is left out, and whatever is not
//! known ends the connection. So the server reads nothing but messages that were read here from start to end, and
//! how a client might have them read otherwise does not matter.

use super::{Reader, Refused, Said};

/// Pseudo-encodings that change how a client writes what it does: QEMU's extended keys, and further mouse buttons. They
/// are not passed on, so that the server never agrees to them.
const WAYS_TO_ACT: [i32; 2] = [-258, -316];

/// Reads what a client says and passes on what cannot act.
#[derive(Debug, Default)]
pub struct ViewOnly {
    reader: Reader,
}

impl ViewOnly {
    /// Reads the next bytes, however they were cut; what of them the server may see.
    ///
    /// # Errors
    /// [`Refused`]; nothing may be passed on after it.
    pub fn pass(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, Refused> {
        let mut passed = Vec::new();
        while let Some(said) = self.reader.next(&mut bytes)? {
            match said {
                Said::Hello(mut hello) => passed.append(&mut hello),
                Said::Asks(mut message) => {
                    if message.first() == Some(&2) {
                        leave_ways_to_act(&mut message);
                    }
                    passed.append(&mut message);
                }
                Said::Acts(_) => {}
            }
        }
        Ok(passed)
    }
}

/// Takes [`WAYS_TO_ACT`] out of a whole SetEncodings message.
fn leave_ways_to_act(message: &mut Vec<u8>) {
    let encodings = message[4..]
        .chunks_exact(4)
        .filter(|encoding| !WAYS_TO_ACT.iter().any(|way| way.to_be_bytes() == **encoding));
    let kept: Vec<u8> = encodings.flatten().copied().collect();
    // At most `MAX_ENCODINGS`, and fewer than before.
    let count = u16::try_from(kept.len() / 4).unwrap_or(u16::MAX);
    message[2..4].copy_from_slice(&count.to_be_bytes());
    message.truncate(4);
    message.extend(kept);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::MAX_ENCODINGS;
    use super::*;

    const HELLO: &[u8] = b"RFB 003.008\n\x01\x01";

    fn told(bytes: &[u8]) -> Result<Vec<u8>, Refused> {
        let mut filter = ViewOnly::default();
        let mut passed = filter.pass(HELLO).unwrap();
        assert_eq!(passed, HELLO);
        passed = filter.pass(bytes)?;
        Ok(passed)
    }

    #[test]
    fn a_handshake_passes_in_each_version_and_nothing_else_does() {
        for (said, expected) in [
            (&b"RFB 003.003\n\x00"[..], Ok(())),
            (b"RFB 003.007\n\x01\x00", Ok(())),
            (b"RFB 003.008\n\x01\x01", Ok(())),
            (b"RFB 003.008\n\x02", Err(Refused::Security(2))),
            (b"RFB 003.008\n\x00", Err(Refused::Security(0))),
            (b"RFB 003.889\n", Err(Refused::NotRfb)),
            (b"RFB 004.000\n", Err(Refused::NotRfb)),
            (b"GET / HTTP/1", Err(Refused::NotRfb)),
            (b"\0\0\0\0\0\0\0\0\0\0\0\0", Err(Refused::NotRfb)),
        ] {
            let passed = ViewOnly::default().pass(said);
            assert_eq!(passed, expected.map(|()| said.to_vec()), "{said:?}");
        }
    }

    #[test]
    fn messages_that_ask_to_be_shown_something_pass_as_they_are() {
        for message in [
            [&[0u8; 4][..], &[32, 24, 0, 1], &[0; 12]].concat(),
            vec![2, 0, 0, 0],
            vec![2, 0, 0, 2, 0, 0, 0, 7, 255, 255, 255, 33],
            vec![3, 1, 0, 0, 0, 0, 5, 0, 2, 208],
            vec![150, 1, 0, 0, 0, 0, 5, 0, 2, 208],
            vec![248, 0, 0, 0, 128, 0, 0, 1, 0],
            [&[248, 0, 0, 0, 128, 0, 0, 1, 64][..], &[9; 64]].concat(),
        ] {
            assert_eq!(told(&message), Ok(message.clone()), "{message:?}");
        }
    }

    #[test]
    fn messages_that_act_are_left_out_and_the_next_one_is_found() {
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
            let said = [&message[..], &next].concat();
            assert_eq!(told(&said), Ok(next.to_vec()), "{message:?}");
        }
    }

    #[test]
    fn what_no_viewer_says_ends_the_connection() {
        for (message, refused) in [
            (&[1u8][..], Refused::Unknown(1)),
            (&[7], Refused::Unknown(7)),
            (&[249], Refused::Unknown(249)),
            (&[252], Refused::Unknown(252)),
            (&[255, 1], Refused::Unknown(255)),
            (&[2, 0, 4, 1], Refused::TooLarge(2)),
            (&[2, 0, 255, 255], Refused::TooLarge(2)),
            (&[248, 0, 0, 0, 0, 0, 0, 0, 65], Refused::TooLarge(248)),
        ] {
            assert_eq!(told(message), Err(refused), "{message:?}");
        }
    }

    #[test]
    fn the_server_never_hears_of_other_ways_to_act() {
        let mut said = vec![2, 0, 0, 4];
        for encoding in [7i32, -258, -316, -308] {
            said.extend(encoding.to_be_bytes());
        }
        let mut expected = vec![2, 0, 0, 2];
        for encoding in [7i32, -308] {
            expected.extend(encoding.to_be_bytes());
        }
        assert_eq!(told(&said), Ok(expected));
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
        fn however_it_is_cut_only_what_cannot_act_passes(
            said in proptest::collection::vec(messages(), 0..20),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let all = said.iter().fold(HELLO.to_vec(), |all, (message, _)| [all, message.clone()].concat());
            let harmless = said.iter().filter(|(_, passes)| *passes);
            let expected = harmless.fold(HELLO.to_vec(), |all, (message, _)| [all, message.clone()].concat());
            let mut filter = ViewOnly::default();
            let mut passed = Vec::new();
            for piece in cut(&all, &cuts) {
                passed.extend(filter.pass(piece).unwrap());
            }
            prop_assert_eq!(passed, expected);
        }

        #[test]
        fn junk_is_read_alike_however_it_is_cut_and_what_passes_would_pass_again(
            junk in proptest::collection::vec(prop_oneof![
                any::<u8>(), prop::sample::select(vec![0u8, 2, 3, 4, 5, 6, 150, 248, 250, 251, 255])
            ], 0..600),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let said = [HELLO, &junk].concat();
            let read = |pieces: Vec<&[u8]>| {
                let mut filter = ViewOnly::default();
                let mut passed = Vec::new();
                for piece in pieces {
                    match filter.pass(piece) {
                        Ok(more) => passed.extend(more),
                        Err(refused) => return (passed, Some(refused)),
                    }
                    assert!(filter.reader.held.len() <= 4 + 4 * MAX_ENCODINGS);
                }
                (passed, None)
            };
            let (passed, refused) = read(cut(&said, &cuts));
            // In single bytes, everything before a refusal has passed.
            let (single, also) = read(said.chunks(1).collect());
            prop_assert_eq!(refused, also);
            prop_assert!(single.starts_with(&passed));
            prop_assert_eq!(ViewOnly::default().pass(&single), Ok(single));
        }
    }
}
