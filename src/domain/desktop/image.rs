//! Types and sizes of images, read from their first bytes.
//!
//! A guest can send any bytes as a picture of its screen. Some hundred bytes of a file can claim billions of pixels, and
//! who decodes it allocates four bytes for each. So the service reads what a file claims before it passes it on.

use std::fmt;

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

/// First bytes of a PNG file: its signature, and the length and name of the chunk with its size, which comes first (PNG
/// specification, section 11.2.2).
const PNG_START: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
/// First bytes of a JPEG file: the marker SOI.
const JPEG_START: &[u8] = b"\xff\xd8";

/// Size that a file claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSize {
    /// Width in pixels, at least 1.
    pub width: u32,
    /// Height in pixels, at least 1.
    pub height: u32,
}

impl ImageSize {
    /// Its area, in pixels.
    pub fn pixels(self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }
}

/// Why a file is refused as a picture. Its text is for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFault {
    /// It is no PNG, JPEG or WebP.
    Type,
    /// Its header says no size, or a size of nothing.
    Header,
    /// It claims more pixels than allowed.
    Pixels {
        /// What it claims.
        size: ImageSize,
        /// The most that are allowed.
        most: u32,
    },
}

impl fmt::Display for ImageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type => f.write_str("no PNG, JPEG or WebP"),
            Self::Header => f.write_str("an image whose header has no size"),
            Self::Pixels { size, most } => {
                write!(f, "an image of {}x{} pixels, at most {most} are allowed", size.width, size.height)
            }
        }
    }
}

impl std::error::Error for ImageFault {}

/// Returns the media type of a picture that claims at most so many pixels.
///
/// # Errors
/// The file is none, has no size in its header, or claims more.
pub fn check_image(bytes: &[u8], most_pixels: u32) -> Result<&'static str, ImageFault> {
    let media_type = detect_media_type(bytes).ok_or(ImageFault::Type)?;
    let size = image_size(bytes).ok_or(ImageFault::Header)?;
    if size.pixels() > u64::from(most_pixels) {
        return Err(ImageFault::Pixels { size, most: most_pixels });
    }
    Ok(media_type)
}

/// Returns the size that the header of a PNG, JPEG or WebP file claims; `None` for other data, for a header that is
/// incomplete or not in its usual form, and for a size of nothing. Decoders refuse these files, or find the same size.
pub fn image_size(bytes: &[u8]) -> Option<ImageSize> {
    let size = png_size(bytes).or_else(|| jpeg_size(bytes)).or_else(|| webp_size(bytes))?;
    Some(size).filter(|size| size.width > 0 && size.height > 0)
}

fn png_size(bytes: &[u8]) -> Option<ImageSize> {
    let [a, b, c, d, e, f, g, h] = *bytes.strip_prefix(PNG_START)?.first_chunk::<8>()?;
    Some(ImageSize { width: u32::from_be_bytes([a, b, c, d]), height: u32::from_be_bytes([e, f, g, h]) })
}

/// Reads the first frame header of a JPEG file (ITU-T T.81, section B.2.2). Only segments with a length may precede it.
fn jpeg_size(bytes: &[u8]) -> Option<ImageSize> {
    let mut rest = bytes.strip_prefix(JPEG_START)?;
    loop {
        let (marker, segment) = match rest {
            // Any number of fill bytes may precede a marker.
            [0xff, 0xff, ..] => {
                rest = rest.get(1..)?;
                continue;
            }
            [0xff, marker, segment @ ..] => (*marker, segment),
            _ => return None,
        };
        match marker {
            // SOF: length, precision, height, width.
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                let [_, _, _, a, b, c, d] = *segment.first_chunk::<7>()?;
                let (height, width) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                return Some(ImageSize { width: width.into(), height: height.into() });
            }
            // Tables, application data, comments.
            0xc4 | 0xcc | 0xdb | 0xdd | 0xe0..=0xef | 0xfe => {
                // The length counts its own two bytes.
                let length = u16::from_be_bytes(*segment.first_chunk::<2>()?).checked_sub(2)?;
                rest = segment.get(2..)?.get(usize::from(length)..)?;
            }
            _ => return None,
        }
    }
}

/// Reads the first chunk of a WebP file (RFC 9649, sections 2.5 to 2.7). With the chunk `VP8X` decoders refuse a frame that
/// is larger than its canvas.
fn webp_size(bytes: &[u8]) -> Option<ImageSize> {
    let chunk = bytes.strip_prefix(b"RIFF")?.get(4..)?.strip_prefix(b"WEBP")?;
    let data = chunk.get(8..)?;
    match chunk.first_chunk::<4>()? {
        b"VP8 " => {
            // Three bytes of a frame tag, the start code, then two sides of 14 bits, each with a scale of 2 bits.
            let [a, b, c, d] = *data.get(3..)?.strip_prefix(b"\x9d\x01\x2a")?.first_chunk::<4>()?;
            let side = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
            Some(ImageSize { width: side(a, b), height: side(c, d) })
        }
        b"VP8L" => {
            // Two sides of 14 bits, each less by one.
            let bits = u32::from_le_bytes(*data.strip_prefix(b"\x2f")?.first_chunk::<4>()?);
            Some(ImageSize { width: (bits & 0x3fff) + 1, height: ((bits >> 14) & 0x3fff) + 1 })
        }
        b"VP8X" => {
            // Four bytes of flags, then two sides of 24 bits, each less by one.
            let [a, b, c, d, e, f] = *data.get(4..)?.first_chunk::<6>()?;
            let side = |bytes: [u8; 3]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]) + 1;
            Some(ImageSize { width: side([a, b, c]), height: side([d, e, f]) })
        }
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

    /// A PNG file up to the end of its first chunk's data.
    fn png(width: u32, height: u32) -> Vec<u8> {
        [PNG_START, &width.to_be_bytes(), &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat()
    }

    /// A JPEG file up to the end of its frame header, which follows these segments.
    fn jpeg(segments: &[u8], frame: u8, width: u16, height: u16) -> Vec<u8> {
        let start = [0xff, frame, 0, 11, 8];
        [JPEG_START, segments, &start, &height.to_be_bytes(), &width.to_be_bytes(), &[1, 1, 0x11, 0]].concat()
    }

    /// A WebP file with one chunk.
    fn webp(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
        [&b"RIFF"[..], &[0; 4], b"WEBP", name, &[0; 4], data].concat()
    }

    #[test]
    fn a_size_is_read_from_the_header() {
        let comment = b"\xff\xe0\0\x04ab\xff\xff\xff\xdb\0\x02\xff\xfe\0\x03\xff";
        let extended = webp(b"VP8X", &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0x0f, 0x27, 0]);
        let lossless = webp(b"VP8L", &[0x2f, 0xff, 0xff, 0xff, 0x0f]);
        for (what, file, expected) in [
            ("PNG", png(320, 180), Some((320, 180))),
            ("the largest PNG", png(u32::MAX, u32::MAX), Some((u32::MAX, u32::MAX))),
            ("PNG without width", png(0, 180), None),
            ("JPEG", jpeg(b"", 0xc0, 320, 180), Some((320, 180))),
            ("JPEG behind other segments", jpeg(comment, 0xc2, 320, 180), Some((320, 180))),
            ("the largest JPEG", jpeg(b"", 0xcf, u16::MAX, u16::MAX), Some((65_535, 65_535))),
            ("JPEG whose height follows its data", jpeg(b"", 0xc0, 320, 0), None),
            ("JPEG behind garbage", jpeg(b"x", 0xc0, 320, 180), None),
            ("JPEG behind a scan", jpeg(b"\xff\xda\0\x02", 0xc0, 320, 180), None),
            ("JPEG behind a length of nothing", jpeg(b"\xff\xe0\0\0", 0xc0, 320, 180), None),
            ("JPEG of fill bytes", [JPEG_START, &[0xff; 1000]].concat(), None),
            ("JPEG whose segment is cut", jpeg(b"\xff\xe0\xff\xff", 0xc0, 320, 180), None),
            ("WebP", webp(b"VP8 ", &[0, 0, 0, 0x9d, 1, 0x2a, 0x40, 0x41, 0xb4, 0]), Some((320, 180))),
            ("WebP without its start code", webp(b"VP8 ", &[0; 10]), None),
            ("lossless WebP", lossless, Some((16_384, 16_384))),
            ("extended WebP", extended, Some((1 << 24, 10_000))),
            ("WebP with another chunk", webp(b"EXIF", &[0; 10]), None),
            ("signatures of others", b"GIF89a\x01\0\x01\0".to_vec(), None),
        ] {
            let size = image_size(&file).map(|size| (size.width, size.height));
            assert_eq!(size, expected, "{what}");
            for cut in 0..file.len() {
                // A header that is cut claims the same or nothing.
                let of_cut = image_size(&file[..cut]).map(|size| (size.width, size.height));
                assert!(of_cut.is_none() || of_cut == expected, "{what}, {cut} bytes");
            }
        }
    }

    #[test]
    fn a_picture_claims_no_more_pixels_than_allowed() {
        let too_many =
            |width, height| Err(ImageFault::Pixels { size: ImageSize { width, height }, most: 57_600 });
        let extended = webp(b"VP8X", &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        for (what, file, expected) in [
            ("what was asked for", jpeg(b"", 0xc0, 320, 180), Ok("image/jpeg")),
            ("one row more", jpeg(b"", 0xc0, 320, 181), too_many(320, 181)),
            ("another form", png(57_600, 1), Ok("image/png")),
            ("the largest PNG", png(u32::MAX, u32::MAX), too_many(u32::MAX, u32::MAX)),
            ("the largest JPEG", jpeg(b"", 0xc2, u16::MAX, u16::MAX), too_many(65_535, 65_535)),
            ("the largest WebP", extended, too_many(1 << 24, 1 << 24)),
            ("a signature alone", b"\x89PNG\r\n\x1a\n".to_vec(), Err(ImageFault::Header)),
            ("no picture", b"<svg xmlns=".to_vec(), Err(ImageFault::Type)),
        ] {
            assert_eq!(check_image(&file, 57_600), expected, "{what}");
        }
        let fault = check_image(&png(100_000, 50_000), 57_600).unwrap_err();
        assert_eq!(fault.to_string(), "an image of 100000x50000 pixels, at most 57600 are allowed");
    }
}
