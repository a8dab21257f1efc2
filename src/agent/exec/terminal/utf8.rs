//! Incremental UTF-8 decoder.
//!
//! A character that is split between two reads is held back until it is complete. Invalid bytes become
//! U+FFFD, as in browsers.

/// Decodes UTF-8 piece by piece.
#[derive(Debug, Default)]
pub struct Utf8Decoder {
    /// Beginning of an incomplete character: at most three bytes.
    partial: Vec<u8>,
}

impl Utf8Decoder {
    /// Returns the characters that are complete with these bytes.
    pub fn take(&mut self, bytes: &[u8]) -> String {
        let joined;
        let mut rest = if self.partial.is_empty() {
            bytes
        } else {
            self.partial.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.partial);
            &joined
        };
        let mut text = String::with_capacity(rest.len());
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    return text;
                }
                Err(error) => error,
            };
            let (valid, bad) = rest.split_at(error.valid_up_to());
            text.push_str(&String::from_utf8_lossy(valid));
            let Some(length) = error.error_len() else {
                self.partial.extend_from_slice(bad);
                return text;
            };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &bad[length..];
        }
    }

    /// Ends the stream: U+FFFD for an incomplete character, else nothing.
    pub fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.partial).is_empty() { "" } else { "\u{fffd}" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decoded text when the bytes come in pieces of `size`.
    fn read(bytes: &[u8], size: usize) -> String {
        let mut text = Utf8Decoder::default();
        let mut all: String = bytes.chunks(size).map(|piece| text.take(piece)).collect();
        assert!(text.partial.len() < 4);
        all.push_str(text.finish());
        all
    }

    #[test]
    fn piece_sizes_do_not_change_the_text() {
        for sample in [
            "plain".as_bytes(),
            "naïve 漢字 😀 é".as_bytes(),
            b"\xff\xfe a \xe6\xbc b \xf0\x9f\x98",
            b"\xc3\x28 \xed\xa0\x80 \xf4\x90\x80\x80",
            b"",
        ] {
            for size in 1..=sample.len().max(1) {
                assert_eq!(read(sample, size), String::from_utf8_lossy(sample), "{sample:?} by {size}");
            }
        }
    }

    #[test]
    fn a_split_character_is_held_back() {
        let mut text = Utf8Decoder::default();
        assert_eq!(text.take(b"a\xf0\x9f"), "a");
        assert_eq!(text.take(b"\x98"), "");
        assert_eq!(text.take(b"\x80b"), "😀b");
        assert_eq!(text.finish(), "");
    }
}
