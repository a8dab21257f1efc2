//! Encoding of arbitrary text in URIs and header fields.

/// Percent-encodes one path segment (RFC 3986 section 2.3: everything but the unreserved characters).
pub fn percent_encode(segment: &str) -> String {
    segment
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

/// A `Content-Disposition` for a download with this file name (RFC 6266 section 4.3; the encoded form allows
/// any name).
pub fn attachment(name: &str) -> String {
    format!("attachment; filename*=UTF-8''{}", percent_encode(name))
}
