//! Screen sizes and boot resolutions (`WIDTHxHEIGHTxDEPTH`).

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Smallest side, in pixels: below it no panel or window is usable.
pub const MIN_SIDE: u16 = 64;
/// Largest side, in pixels: 7680 is the width of 8K UHD, one frame of which takes at most 133 MB of shared
/// memory.
pub const MAX_SIDE: u16 = 7680;
/// Largest area, in pixels (7680x4320, 8K UHD), so that two long sides do not need gigabytes.
pub const MAX_AREA: u32 = 7680 * 4320;

/// Bytes of an encoded image beside its pixels: headers, checksums, and the marks of rows and blocks.
const IMAGE_OVERHEAD: usize = 1 << 20;

/// A screen's size in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Width, in pixels.
    pub width: u16,
    /// Height, in pixels.
    pub height: u16,
}

impl Size {
    /// Creates a size in pixels.
    ///
    /// # Errors
    /// `Invalid` when a side or the area is out of range.
    pub fn new(width: u32, height: u32) -> Result<Self> {
        let side = |value: u32| u16::try_from(value).ok().filter(|side| (MIN_SIDE..=MAX_SIDE).contains(side));
        match (side(width), side(height)) {
            (Some(w), Some(h)) if width * height <= MAX_AREA => Ok(Self { width: w, height: h }),
            _ => Err(Error::invalid(format!(
                "screen size {width}x{height} is out of range: each side {MIN_SIDE} to {MAX_SIDE}, at most {MAX_AREA} pixels"
            ))),
        }
    }

    /// Its area, in pixels.
    pub fn pixels(self) -> u32 {
        u32::from(self.width) * u32::from(self.height)
    }
}

/// The largest image of so many pixels, in bytes: four for each, as if nothing were compressed, and a margin.
pub fn max_image_bytes(pixels: u32) -> usize {
    (pixels as usize).saturating_mul(4).saturating_add(IMAGE_OVERHEAD)
}

/// A computer's boot resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Width and height.
    pub size: Size,
    /// Bits per pixel as requested: 16, 24 or 32. The screen always uses 24.
    pub depth: u8,
}

impl Default for Resolution {
    /// `1280x720x24` (docs/api/computers.md).
    fn default() -> Self {
        Self { size: Size { width: 1280, height: 720 }, depth: 24 }
    }
}

impl FromStr for Resolution {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::invalid("resolution must be WIDTHxHEIGHTxDEPTH, for example 1280x720x24");
        let number = |part: &str| -> Result<u32> {
            if part.is_empty() || part.len() > 5 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(wrong());
            }
            part.parse().map_err(|_| wrong())
        };
        let mut parts = text.split('x');
        let (Some(width), Some(height)) = (parts.next(), parts.next()) else { return Err(wrong()) };
        let size = Size::new(number(width)?, number(height)?)?;
        let depth = match parts.next() {
            None | Some("24") => 24,
            Some("16") => 16,
            Some("32") => 32,
            Some(_) => return Err(Error::invalid("resolution depth must be 16, 24 or 32")),
        };
        if parts.next().is_some() {
            return Err(wrong());
        }
        Ok(Self { size, depth })
    }
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.size.width, self.size.height, self.depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_parse_or_are_refused() {
        for (text, shown) in [
            ("1280x720x24", "1280x720x24"),
            ("1920x1080x24", "1920x1080x24"),
            ("1024x768", "1024x768x24"),
            ("64x64x16", "64x64x16"),
            ("7680x4320x32", "7680x4320x32"),
        ] {
            assert_eq!(text.parse::<Resolution>().unwrap().to_string(), shown);
        }
        for bad in [
            "",
            "x",
            "1280",
            "1280x",
            "1280x720x",
            "1280x720x24x1",
            "-1x720x24",
            "+800x600x24",
            " 800x600x24",
            "63x64x24",
            "7681x64x24",
            "7680x7680x24",
            "99999x99999x24",
            "800x600x8",
            "800x600x25",
            "８00x600x24",
            "1280X720X24",
            "4294967297x720x24",
        ] {
            assert!(bad.parse::<Resolution>().is_err(), "{bad:?}");
        }
    }
}
