//! Which characters are in a stream of bytes that is cut anywhere? A character that a read has split waits for its
//! rest; what is not UTF-8 is U+FFFD, as browsers have it.

/// Decodes UTF-8 piece by piece.
#[derive(Debug, Default)]
pub struct Text {
    /// The beginning of a character: at most three bytes.
    begun: Vec<u8>,
}

impl Text {
    /// The characters that are complete with these bytes.
    pub fn take(&mut self, bytes: &[u8]) -> String {
        let joined;
        let mut rest = if self.begun.is_empty() {
            bytes
        } else {
            self.begun.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.begun);
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
                self.begun.extend_from_slice(bad);
                return text;
            };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &bad[length..];
        }
    }

    /// What stands for a character that never got its rest.
    pub fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.begun).is_empty() { "" } else { "\u{fffd}" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read when the bytes come in pieces of `size`.
    fn read(bytes: &[u8], size: usize) -> String {
        let mut text = Text::default();
        let mut all: String = bytes.chunks(size).map(|piece| text.take(piece)).collect();
        assert!(text.begun.len() < 4);
        all.push_str(text.finish());
        all
    }

    #[test]
    fn cuts_change_nothing() {
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
    fn a_character_waits_for_its_rest() {
        let mut text = Text::default();
        assert_eq!(text.take(b"a\xf0\x9f"), "a");
        assert_eq!(text.take(b"\x98"), "");
        assert_eq!(text.take(b"\x80b"), "😀b");
        assert_eq!(text.finish(), "");
    }
}
