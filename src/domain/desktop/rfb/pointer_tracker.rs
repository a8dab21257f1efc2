//! What does a client hold down with its pointer?

use super::{Phase, Reader, Said};

/// Follows a client's pointer, so that what it holds down can be let go when it is gone.
///
/// It reads along only. The RFB server alone knows which further buttons were agreed on with QEMU's or TigerVNC's
/// extensions; where they make a stream unreadable, something is taken to be held.
#[derive(Debug, Default)]
pub struct Pressed {
    reader: Reader,
    /// The buttons and the place of the last PointerEvent (RFC 6143 section 7.5.5).
    last: Option<[u8; 5]>,
    /// Whether the server may have read less than was noted.
    on_its_way: bool,
    /// Whether what followed could not be read.
    lost: bool,
}

impl Pressed {
    /// Reads what is about to be written to the server, however it was cut.
    pub fn note(&mut self, mut bytes: &[u8]) {
        self.on_its_way = true;
        while !self.lost {
            match self.reader.next(&mut bytes) {
                Ok(Some(Said::Acts(message))) => {
                    if let [5, event @ ..] = message.as_slice() {
                        self.last = event.try_into().ok().or(self.last);
                    }
                }
                Ok(Some(Said::Hello(_) | Said::Asks(_))) => {}
                Ok(None) => return,
                Err(_) => self.lost = true,
            }
        }
    }

    /// The server has all that was noted.
    pub fn written(&mut self) {
        self.on_its_way = false;
    }

    /// The PointerEvent that lets everything go where the pointer was last; `None` when nothing can be down.
    pub fn release(&self) -> Option<[u8; 6]> {
        if self.reader.phase != Phase::Messages {
            return None;
        }
        let [buttons, place @ ..] = match self.last {
            Some(last) => last,
            None if self.lost => [0; 5],
            None => return None,
        };
        let [a, b, c, d] = place;
        (buttons != 0 || self.on_its_way || self.lost).then_some([5, 0, a, b, c, d])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &[u8] = b"RFB 003.008\n\x01\x01";

    #[test]
    fn what_is_down_comes_up_where_it_was_last() {
        const PRESS: [u8; 6] = [5, 1, 0, 10, 1, 20];
        const MOVE: [u8; 6] = [5, 1, 0, 30, 0, 40];
        const UP: [u8; 6] = [5, 0, 0, 50, 0, 60];
        let cut_text = [&[6, 0, 0, 0, 0, 0, 0, 6][..], &PRESS].concat();
        for (said, expected) in [
            (vec![], None),
            (UP.to_vec(), None),
            (PRESS.to_vec(), Some([5, 0, 0, 10, 1, 20])),
            ([PRESS, MOVE].concat(), Some([5, 0, 0, 30, 0, 40])),
            ([PRESS, MOVE, UP].concat(), None),
            // A wheel's button is one as well.
            (vec![5, 8, 0, 1, 0, 1], Some([5, 0, 0, 1, 0, 1])),
            // What was begun is not read by the server either.
            ([&PRESS[..], &UP[..5]].concat(), Some([5, 0, 0, 10, 1, 20])),
            (PRESS[..5].to_vec(), None),
            // What looks like a press in another message is none.
            (cut_text.clone(), None),
            ([&cut_text[..], &PRESS].concat(), Some([5, 0, 0, 10, 1, 20])),
            // Unreadable: something may be down.
            (vec![7], Some([5, 0, 0, 0, 0, 0])),
            ([&UP[..], &[7]].concat(), Some([5, 0, 0, 50, 0, 60])),
        ] {
            let all = [HELLO, &said].concat();
            for size in [1, 4, 7, all.len()] {
                let mut pressed = Pressed::default();
                all.chunks(size).for_each(|piece| pressed.note(piece));
                pressed.written();
                assert_eq!(pressed.release(), expected, "{said:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn who_never_got_in_holds_nothing() {
        for said in [&b""[..], b"GET / HTTP/1.1\r\n", b"RFB 003.008\n\x02", b"RFB 003.008\n\x01"] {
            let mut pressed = Pressed::default();
            pressed.note(said);
            assert_eq!(pressed.release(), None, "{said:?}");
        }
    }

    #[test]
    fn a_release_that_is_on_its_way_may_not_have_arrived() {
        let mut pressed = Pressed::default();
        pressed.note(&[HELLO, &[5, 1, 0, 1, 0, 1]].concat());
        pressed.written();
        pressed.note(&[5, 0, 0, 2, 0, 2]);
        assert_eq!(pressed.release(), Some([5, 0, 0, 2, 0, 2]));
        pressed.written();
        assert_eq!(pressed.release(), None);
    }
}
