//! Tracker of the pointer buttons that an RFB client holds down.

use super::{ClientMessage, Phase, Reader};

/// Tracks a client's pointer, so that its buttons can be released when it disconnects.
///
/// The tracker does not know which extensions of QEMU or TigerVNC the server and the client agreed on. If it
/// cannot parse the stream, it assumes that a button is down.
#[derive(Debug, Default)]
pub struct PointerTracker {
    reader: Reader,
    /// Buttons and position of the last PointerEvent (RFC 6143 section 7.5.5).
    last: Option<[u8; 5]>,
    /// Whether the server may not have received everything yet.
    on_its_way: bool,
    /// Whether the stream could not be parsed.
    lost: bool,
}

impl PointerTracker {
    /// Parses bytes that are about to be sent to the server.
    pub fn note(&mut self, mut bytes: &[u8]) {
        self.on_its_way = true;
        while !self.lost {
            match self.reader.next(&mut bytes) {
                Ok(Some(ClientMessage::Input(message))) => {
                    if let [5, event @ ..] = message.as_slice() {
                        self.last = event.try_into().ok().or(self.last);
                    }
                }
                Ok(Some(ClientMessage::Handshake(_) | ClientMessage::OutputRequest(_))) => {}
                Ok(None) => return,
                Err(_) => self.lost = true,
            }
        }
    }

    /// Records that the server has received everything.
    pub fn written(&mut self) {
        self.on_its_way = false;
    }

    /// Returns a PointerEvent that releases all buttons at the last position; `None` when no button can be
    /// down.
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
    fn buttons_are_released_at_the_last_position() {
        const PRESS: [u8; 6] = [5, 1, 0, 10, 1, 20];
        const MOVE: [u8; 6] = [5, 1, 0, 30, 0, 40];
        const UP: [u8; 6] = [5, 0, 0, 50, 0, 60];
        let cut_text = [&[6, 0, 0, 0, 0, 0, 0, 6][..], &PRESS].concat();
        for (input, expected) in [
            (vec![], None),
            (UP.to_vec(), None),
            (PRESS.to_vec(), Some([5, 0, 0, 10, 1, 20])),
            ([PRESS, MOVE].concat(), Some([5, 0, 0, 30, 0, 40])),
            ([PRESS, MOVE, UP].concat(), None),
            // A wheel's button is one as well.
            (vec![5, 8, 0, 1, 0, 1], Some([5, 0, 0, 1, 0, 1])),
            // The server does not read an incomplete message either.
            ([&PRESS[..], &UP[..5]].concat(), Some([5, 0, 0, 10, 1, 20])),
            (PRESS[..5].to_vec(), None),
            // Bytes of another message are not a press.
            (cut_text.clone(), None),
            ([&cut_text[..], &PRESS].concat(), Some([5, 0, 0, 10, 1, 20])),
            // The stream cannot be parsed: a button may be down.
            (vec![7], Some([5, 0, 0, 0, 0, 0])),
            ([&UP[..], &[7]].concat(), Some([5, 0, 0, 50, 0, 60])),
        ] {
            let all = [HELLO, &input].concat();
            for size in [1, 4, 7, all.len()] {
                let mut tracker = PointerTracker::default();
                all.chunks(size).for_each(|piece| tracker.note(piece));
                tracker.written();
                assert_eq!(tracker.release(), expected, "{input:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn an_incomplete_handshake_holds_no_button() {
        for input in [&b""[..], b"GET / HTTP/1.1\r\n", b"RFB 003.008\n\x02", b"RFB 003.008\n\x01"] {
            let mut tracker = PointerTracker::default();
            tracker.note(input);
            assert_eq!(tracker.release(), None, "{input:?}");
        }
    }

    #[test]
    fn a_release_that_is_on_its_way_may_not_have_arrived() {
        let mut tracker = PointerTracker::default();
        tracker.note(&[HELLO, &[5, 1, 0, 1, 0, 1]].concat());
        tracker.written();
        tracker.note(&[5, 0, 0, 2, 0, 2]);
        assert_eq!(tracker.release(), Some([5, 0, 0, 2, 0, 2]));
        tracker.written();
        assert_eq!(tracker.release(), None);
    }
}
