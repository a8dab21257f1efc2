//! Decoder of framed output of a process (docs/api/actions.md#background-processes).

use bytes::{Buf, Bytes, BytesMut};

use super::stdio::OutputStream;

/// Bytes of the header of a frame.
const HEADER: usize = 8;
/// Largest frame in bytes; the server sends at most 64 KiB.
const MAX_FRAME: usize = 16 * 1024 * 1024;

/// Decoder of a stream of frames.
#[derive(Debug, Default)]
pub struct FrameDecoder(BytesMut);

impl FrameDecoder {
    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Returns the next complete frame; `None` until more bytes arrive.
    ///
    /// # Errors
    /// When the bytes are no frames.
    pub fn next(&mut self) -> Result<Option<(OutputStream, Bytes)>, String> {
        let Some(header) = self.0.first_chunk::<HEADER>() else { return Ok(None) };
        let [stream, zeros @ .., a, b, c, d] = *header;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let stream = match (stream, zeros) {
            (1, [0, 0, 0]) => OutputStream::Out,
            (2, [0, 0, 0]) => OutputStream::Err,
            _ => return Err("the server sent output that is not framed: is it of this version?".to_owned()),
        };
        if length > MAX_FRAME {
            return Err(format!("the server sent a frame of {length} bytes: more than {MAX_FRAME}"));
        }
        if self.0.len() < HEADER + length {
            return Ok(None);
        }
        self.0.advance(HEADER);
        Ok(Some((stream, self.0.split_to(length).freeze())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piece_sizes_do_not_change_the_frames() {
        let wire = b"\x01\0\0\0\0\0\0\x03a\0\xff\x02\0\0\0\0\0\0\x01e\x01\0\0\0\0\0\0\0";
        let expected =
            [(OutputStream::Out, &b"a\0\xff"[..]), (OutputStream::Err, b"e"), (OutputStream::Out, b"")];
        for size in 1..=wire.len() {
            let mut decoder = FrameDecoder::default();
            let mut frames = Vec::new();
            for piece in wire.chunks(size) {
                decoder.push(piece);
                while let Some(frame) = decoder.next().unwrap() {
                    frames.push(frame);
                }
            }
            let found: Vec<_> = frames.iter().map(|(stream, bytes)| (*stream, &bytes[..])).collect();
            assert_eq!(found, expected, "pieces of {size}");
        }
        for wrong in
            [&b"\0\0\0\0\0\0\0\x01a"[..], b"\x01\0\x01\0\0\0\0\x01a", b"\x01\0\0\0\xff\0\0\0", b"<html>--"]
        {
            let mut decoder = FrameDecoder::default();
            decoder.push(wrong);
            assert!(decoder.next().is_err(), "{wrong:?}");
        }
    }
}
