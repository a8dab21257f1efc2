//! What may a viewer say that must not act? The view-only half of RFB (RFC 6143), from client to server.
//!
//! Only whole messages that ask to be shown something are passed on; what would act is left out, and whatever is not
//! known ends the connection. So the server reads nothing but messages that were read here from start to end, and
//! how a client might have them read otherwise does not matter.

/// The versions that the protocol has (RFC 6143 section 7.1.1): whether the client chooses a security type in it.
const VERSIONS: [(&[u8; 12], bool); 3] =
    [(b"RFB 003.003\n", false), (b"RFB 003.007\n", true), (b"RFB 003.008\n", true)];
/// The security type "None", the only one that is offered: the socket itself was opened with a credential.
const NO_SECURITY: u8 = 1;
/// Encodings that a client may name at once; about 140 are registered.
const MAX_ENCODINGS: usize = 1024;
/// Longest payload of a fence, by its description.
const MAX_FENCE: usize = 64;
/// Pseudo-encodings that change how a client writes what it does: QEMU's extended keys, and further mouse buttons. They
/// are not passed on, so that the server never agrees to them.
const WAYS_TO_ACT: [i32; 2] = [-258, -316];

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
    /// It is whole and may pass.
    Pass,
    /// It is not passed on, nor are so many bytes that follow.
    Leave(usize),
}

/// Reads what a client says and passes on what cannot act. It keeps at most one message, about 4 KiB.
#[derive(Debug)]
pub struct ViewOnly {
    phase: Phase,
    held: Vec<u8>,
    skip: usize,
}

impl Default for ViewOnly {
    fn default() -> Self {
        Self { phase: Phase::Version, held: Vec::new(), skip: 0 }
    }
}

impl ViewOnly {
    /// Reads the next bytes, however they were cut; what of them the server may see.
    ///
    /// # Errors
    /// [`Refused`]; nothing may be passed on after it.
    pub fn pass(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, Refused> {
        let mut passed = Vec::new();
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            match self.step()? {
                Step::Need(_) if bytes.is_empty() => return Ok(passed),
                Step::Need(length) => {
                    let taken = (length - self.held.len()).min(bytes.len());
                    self.held.extend_from_slice(&bytes[..taken]);
                    bytes = &bytes[taken..];
                }
                Step::Pass => {
                    if self.phase == Phase::Messages && self.held.first() == Some(&2) {
                        leave_ways_to_act(&mut self.held);
                    }
                    self.phase = self.phase.next(&self.held);
                    passed.append(&mut self.held);
                }
                Step::Leave(more) => {
                    self.held.clear();
                    self.skip = more;
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
                    assert!(filter.held.len() <= 4 + 4 * MAX_ENCODINGS);
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
