//! Sizes of PNG, JPEG and WebP files, and headers of pictures for simulated agents.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A PNG of one pixel without its data. The controller reads no more of a picture than its header.
pub const PNG_HEADER: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0";
/// The same as JPEG.
pub const JPEG_HEADER: &[u8] = b"\xff\xd8\xff\xc0\0\x0b\x08\0\x01\0\x01\x01\x01\x11\0";

/// Width and height of a PNG, JPEG or WebP file. Panics when a PNG or JPEG is truncated.
pub fn size(bytes: &[u8]) -> (u32, u32) {
    let big_endian = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        assert!(bytes.ends_with(b"IEND\xae\x42\x60\x82"), "a PNG without its end");
        return (big_endian(16), big_endian(20));
    }
    if bytes.starts_with(b"RIFF") {
        let image = webp::Decoder::new(bytes).decode().expect("a WebP");
        return (image.width(), image.height());
    }
    assert!(bytes.starts_with(&[0xff, 0xd8]) && bytes.ends_with(&[0xff, 0xd9]), "neither PNG nor JPEG");
    let mut at = 2;
    loop {
        let length = usize::from(bytes[at + 2]) << 8 | usize::from(bytes[at + 3]);
        // A start-of-frame marker (baseline or progressive) holds depth, height and width.
        if matches!(bytes[at + 1], 0xc0..=0xc2) {
            let short = |from: usize| u32::from(bytes[from]) << 8 | u32::from(bytes[from + 1]);
            return (short(at + 7), short(at + 5));
        }
        at += 2 + length;
    }
}

/// The bytes behind raw base64.
pub fn from_base64(text: &str) -> Vec<u8> {
    STANDARD.decode(text).expect("raw base64")
}
