//! How much of a command's output is kept? Its beginning and its end, within a fixed bound.

use std::collections::VecDeque;

/// Bytes kept from the beginning (threats.md design 9).
pub const HEAD_BYTES: usize = 512 * 1024;
/// Bytes kept from the end.
pub const TAIL_BYTES: usize = 512 * 1024;

/// What a command has written so far. Memory grows with the output and stops at 1 MiB.
#[derive(Debug, Default)]
pub struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

/// The output as it is answered.
#[derive(Debug, PartialEq, Eq)]
pub struct Text {
    /// Invalid UTF-8 replaced; a line in the middle says how much is missing, if anything is.
    pub text: String,
    /// Bytes left out.
    pub omitted_bytes: u64,
}

impl Output {
    /// Takes what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(TAIL_BYTES)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(TAIL_BYTES);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// Ends the collection.
    pub fn finish(self) -> Text {
        let kept = (self.head.len() + self.tail.len()) as u64;
        let omitted_bytes = self.total - kept;
        let mut bytes = self.head;
        if omitted_bytes > 0 {
            bytes.extend_from_slice(format!("\n[... {omitted_bytes} bytes left out ...]\n").as_bytes());
        }
        let (front, back) = self.tail.as_slices();
        bytes.extend_from_slice(front);
        bytes.extend_from_slice(back);
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Text { text, omitted_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(pieces: &[&[u8]]) -> Text {
        let mut output = Output::default();
        for piece in pieces {
            output.push(piece);
        }
        output.finish()
    }

    #[test]
    fn short_output_is_kept_whole_and_mended() {
        assert_eq!(collected(&[]), Text { text: String::new(), omitted_bytes: 0 });
        assert_eq!(collected(&[b"a", b"", b"b\n"]).text, "ab\n");
        assert_eq!(collected(&[b"\xff\x00\xe2\x82"]).text, "\u{fffd}\0\u{fffd}");
        assert_eq!(collected(&[b"\xe2", b"\x82", b"\xac"]).text, "€");
        let full = vec![b'x'; HEAD_BYTES + TAIL_BYTES];
        assert_eq!(collected(&[&full]), Text { text: String::from_utf8(full).unwrap(), omitted_bytes: 0 });
    }

    #[test]
    fn long_output_keeps_its_ends_whatever_the_pieces() {
        let whole: Vec<u8> = (0..3_000_000_u32).map(|i| b'a' + (i % 26) as u8).collect();
        let left_out = whole.len() - HEAD_BYTES - TAIL_BYTES;
        for piece in [1, 7, 65_536, 700_000, 3_000_000] {
            let mut output = Output::default();
            whole.chunks(piece).for_each(|chunk| output.push(chunk));
            let Text { text, omitted_bytes } = output.finish();
            assert_eq!(omitted_bytes, left_out as u64);
            assert!(text.as_bytes().starts_with(&whole[..HEAD_BYTES]));
            assert!(text.as_bytes().ends_with(&whole[whole.len() - TAIL_BYTES..]));
            assert!(text.contains(&format!("[... {left_out} bytes left out ...]")));
        }
    }
}
