//! Validation of pointer actions: coordinates, buttons, directions and amounts.

use crate::desktop::resolution::Size;
use crate::error::{Error, Result};

/// Longest drag, in seconds: a drag occupies the screen's queue.
pub const MAX_DRAG_SECONDS: f64 = 30.0;
/// Largest number of scroll steps in a request: about 100 screens of text.
pub const MAX_SCROLL_STEPS: u32 = 500;
/// Largest number of clicks in a request: three select a line or a paragraph, and programs give more no
/// meaning.
pub const MAX_CLICKS: u8 = 3;
/// Largest number of points of a drag path: enough for a signature.
pub const MAX_PATH_POINTS: usize = 1000;

/// Pixels that one wheel step scrolls. Models with OpenAI's vocabulary scroll by pixels; browsers scroll
/// about this far.
const PIXELS_OF_WHEEL_STEP: f64 = 100.0;

/// Returns the whole wheel steps for a distance in pixels: at least 1 for any distance but 0.
pub fn wheel_steps(pixels: f64) -> f64 {
    if pixels == 0.0 { 0.0 } else { (pixels.abs() / PIXELS_OF_WHEEL_STEP).round().max(1.0) }
}

/// Checks a scroll amount in wheel steps; fractions are allowed, and 0 scrolls nothing.
///
/// # Errors
/// `Invalid` below 0 and above [`MAX_SCROLL_STEPS`].
pub fn check_scroll_amount(amount: f64) -> Result<f64> {
    if (0.0..=f64::from(MAX_SCROLL_STEPS)).contains(&amount) {
        return Ok(amount);
    }
    Err(Error::invalid(format!("amount must be 0 to {MAX_SCROLL_STEPS}")))
}

/// Adds a scroll amount to the remainder of an earlier request, and returns whole wheel steps and the new
/// remainder.
pub fn whole_steps(left_over: f64, amount: f64) -> (u32, f64) {
    // Larger than the rounding error of a sum of tenths.
    const ROUNDING: f64 = 1e-9;
    let sum = left_over + amount;
    let whole = (sum + ROUNDING).floor().max(0.0);
    // At most MAX_SCROLL_STEPS and a remainder below 1.
    (whole as u32, (sum - whole).max(0.0))
}

/// A pointer button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Button {
    /// The main button.
    Left,
    /// The wheel's button.
    Middle,
    /// The context-menu button.
    Right,
    /// One page back, in browsers and file managers.
    Back,
    /// One page forward.
    Forward,
}

impl Button {
    /// Parses a name of the API; absent means left.
    ///
    /// # Errors
    /// `Invalid` for any other name.
    pub fn parse(name: Option<&str>) -> Result<Self> {
        match name {
            None | Some("left") => Ok(Self::Left),
            Some("middle") => Ok(Self::Middle),
            Some("right") => Ok(Self::Right),
            Some("back") => Ok(Self::Back),
            Some("forward") => Ok(Self::Forward),
            Some(_) => Err(Error::invalid("button must be left, right, middle, back or forward")),
        }
    }

    /// Returns the X11 core button number; 4 to 7 are the wheel.
    pub fn number(self) -> u8 {
        match self {
            Self::Left => 1,
            Self::Middle => 2,
            Self::Right => 3,
            Self::Back => 8,
            Self::Forward => 9,
        }
    }

    /// Returns the name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Middle => "middle",
            Self::Right => "right",
            Self::Back => "back",
            Self::Forward => "forward",
        }
    }
}

/// A scroll direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards the start of the document.
    Up,
    /// Towards its end.
    Down,
    /// Towards the left edge.
    Left,
    /// Towards the right edge.
    Right,
}

impl Direction {
    /// Parses a name of the API, in any case.
    ///
    /// # Errors
    /// `Invalid` for any other name.
    pub fn parse(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "up" => Ok(Self::Up),
            "down" => Ok(Self::Down),
            "left" => Ok(Self::Left),
            "right" => Ok(Self::Right),
            _ => Err(Error::invalid("direction must be up, down, left or right")),
        }
    }

    /// Returns the X11 core button whose clicks scroll in this direction.
    pub fn button_number(self) -> u8 {
        match self {
            Self::Up => 4,
            Self::Down => 5,
            Self::Left => 6,
            Self::Right => 7,
        }
    }
}

/// A pixel of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Distance from the left edge of the screen, in pixels; 0 is the first pixel.
    pub x: i16,
    /// Distance from the top edge of the screen, in pixels; 0 is the first pixel.
    pub y: i16,
}

impl Point {
    /// Converts coordinates of a request to a pixel; fractions are rounded down.
    ///
    /// # Errors
    /// `Invalid` when the point is not on the screen.
    pub fn parse(x: f64, y: f64, size: Size) -> Result<Self> {
        let inside = |value: f64, limit: u16| value >= 0.0 && value < f64::from(limit);
        if inside(x, size.width) && inside(y, size.height) {
            // In range: a side is at most 7680.
            return Ok(Self { x: x as i16, y: y as i16 });
        }
        let place = format_point(x, y);
        Err(Error::invalid(format!("{place} is outside the screen of {}x{}", size.width, size.height)))
    }
}

/// Formats coordinates for a message; large numbers are in scientific notation.
pub fn format_point(x: f64, y: f64) -> String {
    let shown = |value: f64| if value.abs() < 1e9 { value.to_string() } else { format!("{value:e}") };
    format!("({}, {})", shown(x), shown(y))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_wheel_steps_add_up() {
        let mut left_over = 0.0;
        let mut steps = 0;
        for _ in 0..100 {
            let (whole, rest) = whole_steps(left_over, 0.1);
            (steps, left_over) = (steps + whole, rest);
        }
        assert_eq!(steps, 10);
        assert_eq!(whole_steps(0.0, 3.0), (3, 0.0));
        assert_eq!(whole_steps(0.5, 2.75), (3, 0.25));
        assert!(check_scroll_amount(0.0).is_ok());
        for bad in [-0.1, 500.1, f64::NAN, f64::INFINITY] {
            assert!(check_scroll_amount(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn pixels_are_whole_wheel_steps() {
        for (pixels, steps) in
            [(0.0, 0.0), (1.0, 1.0), (-1.0, 1.0), (149.0, 1.0), (150.0, 2.0), (-500.0, 5.0)]
        {
            assert_eq!(wheel_steps(pixels), steps, "{pixels}");
        }
    }

    #[test]
    fn zero_is_inside_and_the_size_is_outside() {
        let size = Size { width: 1280, height: 720 };
        assert_eq!(Point::parse(0.0, 0.0, size).unwrap(), Point { x: 0, y: 0 });
        assert_eq!(Point::parse(1279.9, 719.0, size).unwrap(), Point { x: 1279, y: 719 });
        for (x, y) in
            [(1280.0, 0.0), (0.0, 720.0), (-0.5, 0.0), (f64::NAN, 1.0), (f64::INFINITY, 1.0), (1e300, 0.0)]
        {
            assert!(Point::parse(x, y, size).is_err(), "{x},{y}");
        }
        let far = Point::parse(1e300, -1.5, size).unwrap_err().message;
        assert_eq!(far, "(1e300, -1.5) is outside the screen of 1280x720");
    }
}
