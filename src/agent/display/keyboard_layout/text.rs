//! Conversion of text to keysyms.

use xkeysym::key;

use super::keys;
use hotdesk_domain::error::{Error, Result};

/// Longest text of one request, about a book chapter. With mapped keys it takes 5 s, with spare keys only 6
/// minutes.
pub const MAX_TEXT_CHARS: usize = 100_000;

/// Converts text to keysyms: `\n`, `\r\n` and `\r` become Return, `\t` becomes Tab.
///
/// # Errors
/// `TooLarge` past [`MAX_TEXT_CHARS`]; `Invalid` for any other control character and for code points that are
/// not characters.
pub(in crate::display) fn keysyms(text: &str) -> Result<Vec<u32>> {
    // Counts characters only when the byte length exceeds the limit.
    if text.len() > MAX_TEXT_CHARS && text.chars().count() > MAX_TEXT_CHARS {
        return Err(Error::too_large(format!("text is longer than {MAX_TEXT_CHARS} characters")));
    }
    let mut keysyms = Vec::with_capacity(text.len());
    let mut after_return = false;
    for character in text.chars() {
        let repeated = character == '\n' && after_return;
        after_return = character == '\r';
        match character {
            '\n' if repeated => {}
            '\n' | '\r' => keysyms.push(key::Return),
            '\t' => keysyms.push(key::Tab),
            _ => keysyms.push(keys::of_char(character).ok_or_else(|| {
                Error::invalid(format!("text contains U+{:04X}, which no key types", u32::from(character)))
            })?),
        }
    }
    Ok(keysyms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_keysyms_or_is_refused() {
        assert_eq!(keysyms("a\r\n\n\t\r").unwrap(), [0x61, key::Return, key::Return, key::Tab, key::Return]);
        assert_eq!(keysyms("é日\u{301}").unwrap(), [0xe9, 0x0100_65e5, 0x0100_0301]);
        assert!(keysyms("").unwrap().is_empty());
        for bad in ["\0", "a\u{8}", "\u{1b}[A", "\u{7f}", "\u{85}", "\u{fdd0}", "\u{1ffff}"] {
            assert!(keysyms(bad).unwrap_err().message.contains("U+"), "{bad:?}");
        }
        assert!(keysyms(&"日".repeat(MAX_TEXT_CHARS)).is_ok());
        assert!(keysyms(&"a".repeat(MAX_TEXT_CHARS + 1)).is_err());
    }
}
