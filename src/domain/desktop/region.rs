//! Screenshot regions: rectangles inside of a screen, written as `x,y,width,height`.

use std::fmt;
use std::str::FromStr;

use crate::desktop::resolution::Size;
use crate::error::{Error, Result};

/// A rectangle of a screen; neither side is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// Distance from the left edge of the screen, in pixels.
    pub x: u16,
    /// Distance from the top edge of the screen, in pixels.
    pub y: u16,
    /// Width, in pixels.
    pub width: u16,
    /// Height, in pixels.
    pub height: u16,
}

impl Region {
    /// Returns the region that covers a whole screen.
    pub fn whole(size: Size) -> Self {
        Self { x: 0, y: 0, width: size.width, height: size.height }
    }

    /// Checks that the region is inside of a screen.
    ///
    /// # Errors
    /// `Invalid` when a part of it is outside.
    pub fn within(self, size: Size) -> Result<()> {
        let fits = |from: u16, length: u16, side: u16| u32::from(from) + u32::from(length) <= u32::from(side);
        if fits(self.x, self.width, size.width) && fits(self.y, self.height, size.height) {
            return Ok(());
        }
        Err(Error::invalid(format!("region {self} is not on the screen of {}x{}", size.width, size.height)))
    }

    /// Whether it shares a pixel with a rectangle that may lie outside of the screen.
    pub fn touches(self, left: i32, top: i32, width: u16, height: u16) -> bool {
        let overlap = |from: u16, length: u16, other: i32, span: u16| {
            let (from, other) = (i64::from(from), i64::from(other));
            span > 0 && other < from + i64::from(length) && from < other + i64::from(span)
        };
        overlap(self.x, self.width, left, width) && overlap(self.y, self.height, top, height)
    }
}

impl FromStr for Region {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::invalid("region must be x,y,width,height in whole screen pixels, no side 0");
        let mut numbers = [0; 4];
        let mut parts = text.split(',');
        for number in &mut numbers {
            let part = parts.next().unwrap_or_default();
            if !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(wrong());
            }
            *number = part.parse().map_err(|_| wrong())?;
        }
        let [x, y, width, height] = numbers;
        if parts.next().is_some() || width == 0 || height == 0 {
            return Err(wrong());
        }
        Ok(Self { x, y, width, height })
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{},{}", self.x, self.y, self.width, self.height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_parse_or_are_refused() {
        for text in ["0,0,1,1", "10,20,300,400", "65535,65535,65535,65535"] {
            assert_eq!(text.parse::<Region>().unwrap().to_string(), text);
        }
        for bad in
            ["", "1,2,3", "1,2,3,4,5", "1,2,0,4", "1,2,3,0", "-1,2,3,4", "+1,2,3,4", "1, 2,3,4", "1.5,2,3,4"]
        {
            assert!(bad.parse::<Region>().is_err(), "{bad:?}");
        }
        assert!("1,2,3,65536".parse::<Region>().is_err());
    }

    #[test]
    fn a_region_is_on_the_screen_or_refused() {
        let size = Size { width: 800, height: 600 };
        assert_eq!(Region::whole(size).to_string(), "0,0,800,600");
        for good in ["0,0,800,600", "799,599,1,1"] {
            assert!(good.parse::<Region>().unwrap().within(size).is_ok(), "{good}");
        }
        for bad in ["0,0,801,600", "1,0,800,600", "0,600,1,1", "65535,0,65535,1"] {
            assert!(bad.parse::<Region>().unwrap().within(size).is_err(), "{bad}");
        }
    }

    #[test]
    fn rectangles_touch_when_they_share_a_pixel() {
        let region = Region { x: 10, y: 10, width: 5, height: 5 };
        for (left, top, touches) in [
            (10, 10, true),
            (14, 14, true),
            (15, 14, false),
            (8, 8, false),
            (8, 9, false),
            (9, 9, true),
            (-5, -5, false),
        ] {
            assert_eq!(region.touches(left, top, 2, 2), touches, "{left},{top}");
        }
        assert!(region.touches(-5, -5, 100, 100) && !region.touches(11, 11, 0, 2));
    }
}
