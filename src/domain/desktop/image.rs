//! Detection of image types by their first bytes.

/// Number of bytes that [`detect_media_type`] needs.
pub const MAGIC_BYTES: usize = 12;

/// Returns the media type of a PNG, JPEG or WebP file; `None` for other data.
pub fn detect_media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, _, ..] => Some("image/jpeg"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_are_enough() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"RIFF\0\0\0\0WEBPVP8L", Some("image/webp")),
            (b"RIFF\0\0\0\0WEBP", Some("image/webp")),
            (b"RIFF\0\0\0\0WAVE", None),
            (b"RIFF\0\0\0\0WEB", None),
            (b"\xff\xd8\xff", None),
            (b"<svg xmlns=", None),
            (b"", None),
        ] {
            assert_eq!(detect_media_type(bytes), expected, "{bytes:?}");
            assert_eq!(detect_media_type(&bytes[..bytes.len().min(MAGIC_BYTES)]), expected);
        }
    }
}
