//! Plain scalars and characters of a document.

use super::NodeValue;

/// Resolves a plain scalar (YAML 1.2.2, section 10.3.2): `no` is a text, and `0644` is the number 644.
pub(super) fn resolve(text: &str) -> NodeValue {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => NodeValue::Null,
        "true" | "True" | "TRUE" => NodeValue::Flag(true, text.to_owned()),
        "false" | "False" | "FALSE" => NodeValue::Flag(false, text.to_owned()),
        _ if is_number(text) => NodeValue::Number(text.to_owned()),
        _ => NodeValue::Text(text.to_owned()),
    }
}

/// Whether a document can have a character without an escape (YAML 1.2.2, section 5.1). Others are no part of scripts and
/// names, and the normalised document could not be read again.
pub(super) fn is_printable(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

fn is_number(text: &str) -> bool {
    let all = |digits: &str, accept: fn(&u8) -> bool| {
        !digits.is_empty() && digits.bytes().all(|byte| accept(&byte))
    };
    if let Some(digits) = text.strip_prefix("0x") {
        return all(digits, u8::is_ascii_hexdigit);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return all(digits, |byte| (b'0'..=b'7').contains(byte));
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    // `inf` and `nan` parse as well, and begin with a letter.
    unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') && unsigned.parse::<f64>().is_ok()
}
