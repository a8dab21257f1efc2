//! How much of a command's output is kept? Its beginning and its end, within a fixed bound.

use std::collections::VecDeque;

use super::streams::Stream;

/// Bytes of both streams together kept from the beginning, and as many from the end (threats.md design 9).
const BOTH_BYTES: usize = 512 * 1024;
/// Bytes of each stream alone kept from the beginning, and as many from the end. Less, because they are in the other
/// as well and all three in one answer, where JSON may need six bytes for one: 9 MiB at most.
const EACH_BYTES: usize = 128 * 1024;

/// What a command has written so far, together and apart. Memory grows with the output and stops at 1.5 MiB.
#[derive(Debug)]
pub struct Capture {
    both: Output,
    out: Output,
    err: Output,
}

/// What a command has written, as it is answered.
#[derive(Debug)]
pub struct Captured {
    /// Both streams in the order in which they were written.
    pub both: Text,
    /// Standard output.
    pub out: Text,
    /// Standard error.
    pub err: Text,
}

impl Default for Capture {
    fn default() -> Self {
        Self { both: Output::new(BOTH_BYTES), out: Output::new(EACH_BYTES), err: Output::new(EACH_BYTES) }
    }
}

impl Capture {
    /// Takes what was read.
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        self.both.push(bytes);
        match stream {
            Stream::Out => self.out.push(bytes),
            Stream::Err => self.err.push(bytes),
        }
    }

    /// Ends the collection.
    pub fn finish(self) -> Captured {
        Captured { both: self.both.finish(), out: self.out.finish(), err: self.err.finish() }
    }
}

/// Some bytes' beginning and end.
#[derive(Debug)]
struct Output {
    /// Bytes kept at either end.
    keep: usize,
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
    fn new(keep: usize) -> Self {
        Self { keep, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.keep - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.keep)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.keep);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    fn finish(self) -> Text {
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
        let mut output = Output::new(BOTH_BYTES);
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
        let full = vec![b'x'; 2 * BOTH_BYTES];
        assert_eq!(collected(&[&full]), Text { text: String::from_utf8(full).unwrap(), omitted_bytes: 0 });
    }

    #[test]
    fn long_output_keeps_its_ends_whatever_the_pieces() {
        let whole: Vec<u8> = (0..3_000_000_u32).map(|i| b'a' + (i % 26) as u8).collect();
        let left_out = whole.len() - 2 * BOTH_BYTES;
        for piece in [1, 7, 65_536, 700_000, 3_000_000] {
            let mut output = Output::new(BOTH_BYTES);
            whole.chunks(piece).for_each(|chunk| output.push(chunk));
            let Text { text, omitted_bytes } = output.finish();
            assert_eq!(omitted_bytes, left_out as u64);
            assert!(text.as_bytes().starts_with(&whole[..BOTH_BYTES]));
            assert!(text.as_bytes().ends_with(&whole[whole.len() - BOTH_BYTES..]));
            assert!(text.contains(&format!("[... {left_out} bytes left out ...]")));
        }
    }

    #[test]
    fn streams_are_kept_together_and_apart() {
        let mut capture = Capture::default();
        for (stream, text) in [(Stream::Out, "a"), (Stream::Err, "b"), (Stream::Out, "c")] {
            capture.push(stream, text.as_bytes());
        }
        capture.push(Stream::Err, &vec![b'x'; 2 * EACH_BYTES]);
        let Captured { both, out, err } = capture.finish();
        assert_eq!((both.text.len(), &both.text[..4], both.omitted_bytes), (2 * EACH_BYTES + 3, "abcx", 0));
        assert_eq!((out.text.as_str(), out.omitted_bytes), ("ac", 0));
        assert_eq!(err.omitted_bytes, 1);
    }
}
