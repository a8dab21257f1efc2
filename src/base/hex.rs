//! Hexadecimal encoding and decoding.

/// Bytes as lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes hex digits of either case; `None` for an odd number of digits or another character.
pub fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?)).collect();
    if rest.is_empty() { bytes } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hex_digits_decode() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(hex(&all).as_bytes()), Some(all));
        assert_eq!((hex(&[]), unhex(b"")), (String::new(), Some(Vec::new())));
        assert_eq!(unhex(b"0aFf"), Some(vec![0x0a, 0xff]));
        for wrong in ["0", "0g", "+f", " f", "0x", "\u{e9}", "00 "] {
            assert_eq!(unhex(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
