//! Bounded capture of a command's output: its beginning and its end.

use std::collections::VecDeque;

pub(super) mod drain;
pub(super) mod streams;

use self::streams::StdStream;

/// Bytes of the merged streams that are stored from the beginning, and as many from the end (D9,
/// docs/security.md).
const BOTH_BYTES: usize = 512 * 1024;
/// Bytes of each single stream that are stored from the beginning, and as many from the end. Less, because
/// the merged streams hold them too and JSON may need six bytes for one: 9 MiB per answer at most.
const EACH_BYTES: usize = 128 * 1024;

/// Output of a command so far, merged and per stream. Memory grows with the output up to 1.5 MiB.
#[derive(Debug)]
pub struct OutputCapture {
    both: HeadTailBuffer,
    out: HeadTailBuffer,
    err: HeadTailBuffer,
}

/// Complete output of a command.
#[derive(Debug)]
pub struct CapturedOutput {
    /// Both streams in the order in which they were written.
    pub both: BoundedText,
    /// Standard output.
    pub out: BoundedText,
    /// Standard error.
    pub err: BoundedText,
}

impl Default for OutputCapture {
    fn default() -> Self {
        Self {
            both: HeadTailBuffer::new(BOTH_BYTES),
            out: HeadTailBuffer::new(EACH_BYTES),
            err: HeadTailBuffer::new(EACH_BYTES),
        }
    }
}

impl OutputCapture {
    /// Appends bytes that were read.
    pub fn push(&mut self, stream: StdStream, bytes: &[u8]) {
        self.both.push(bytes);
        match stream {
            StdStream::Out => self.out.push(bytes),
            StdStream::Err => self.err.push(bytes),
        }
    }

    /// Returns the captured output.
    pub fn finish(self) -> CapturedOutput {
        CapturedOutput { both: self.both.finish(), out: self.out.finish(), err: self.err.finish() }
    }
}

/// Beginning and end of a byte sequence.
#[derive(Debug)]
struct HeadTailBuffer {
    /// Most bytes stored of each end.
    limit: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

/// Text of an output.
#[derive(Debug, PartialEq, Eq)]
pub struct BoundedText {
    /// Invalid UTF-8 is replaced; a line in the middle says how many bytes are missing, if any.
    pub text: String,
    /// Bytes left out.
    pub omitted_bytes: u64,
}

impl HeadTailBuffer {
    fn new(limit: usize) -> Self {
        Self { limit, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.limit - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.limit)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.limit);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    fn finish(self) -> BoundedText {
        let stored = (self.head.len() + self.tail.len()) as u64;
        let omitted_bytes = self.total - stored;
        let mut bytes = self.head;
        if omitted_bytes > 0 {
            bytes.extend_from_slice(format!("\n[... {omitted_bytes} bytes left out ...]\n").as_bytes());
        }
        let (front, back) = self.tail.as_slices();
        bytes.extend_from_slice(front);
        bytes.extend_from_slice(back);
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        BoundedText { text, omitted_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(pieces: &[&[u8]]) -> BoundedText {
        let mut output = HeadTailBuffer::new(BOTH_BYTES);
        for piece in pieces {
            output.push(piece);
        }
        output.finish()
    }

    #[test]
    fn short_output_is_complete_and_valid_utf8() {
        assert_eq!(collected(&[]), BoundedText { text: String::new(), omitted_bytes: 0 });
        assert_eq!(collected(&[b"a", b"", b"b\n"]).text, "ab\n");
        assert_eq!(collected(&[b"\xff\x00\xe2\x82"]).text, "\u{fffd}\0\u{fffd}");
        assert_eq!(collected(&[b"\xe2", b"\x82", b"\xac"]).text, "€");
        let full = vec![b'x'; 2 * BOTH_BYTES];
        assert_eq!(
            collected(&[&full]),
            BoundedText { text: String::from_utf8(full).unwrap(), omitted_bytes: 0 }
        );
    }

    #[test]
    fn long_output_keeps_its_ends_whatever_the_pieces() {
        let whole: Vec<u8> = (0..3_000_000_u32).map(|i| b'a' + (i % 26) as u8).collect();
        let left_out = whole.len() - 2 * BOTH_BYTES;
        for piece in [1, 7, 65_536, 700_000, 3_000_000] {
            let mut output = HeadTailBuffer::new(BOTH_BYTES);
            whole.chunks(piece).for_each(|chunk| output.push(chunk));
            let BoundedText { text, omitted_bytes } = output.finish();
            assert_eq!(omitted_bytes, left_out as u64);
            assert!(text.as_bytes().starts_with(&whole[..BOTH_BYTES]));
            assert!(text.as_bytes().ends_with(&whole[whole.len() - BOTH_BYTES..]));
            assert!(text.contains(&format!("[... {left_out} bytes left out ...]")));
        }
    }

    #[test]
    fn streams_are_captured_merged_and_single() {
        let mut capture = OutputCapture::default();
        for (stream, text) in [(StdStream::Out, "a"), (StdStream::Err, "b"), (StdStream::Out, "c")] {
            capture.push(stream, text.as_bytes());
        }
        capture.push(StdStream::Err, &vec![b'x'; 2 * EACH_BYTES]);
        let CapturedOutput { both, out, err } = capture.finish();
        assert_eq!((both.text.len(), &both.text[..4], both.omitted_bytes), (2 * EACH_BYTES + 3, "abcx", 0));
        assert_eq!((out.text.as_str(), out.omitted_bytes), ("ac", 0));
        assert_eq!(err.omitted_bytes, 1);
    }
}
