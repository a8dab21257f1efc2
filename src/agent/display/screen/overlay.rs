//! Screenshots with a drawing on them, such as the marks of elements.

use super::Screen;
use crate::display::screenshot::cache::Picture;
use hotdesk_domain::error::Result;
use hotdesk_pictures::{Frame, ScreenshotOptions};

/// A picture to draw on, before it is encoded: rows of `width` pixels of four bytes (blue, green, red,
/// unused).
#[derive(Debug)]
pub struct Canvas<'a> {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// The pixels, `width * height * 4` bytes.
    pub pixels: &'a mut [u8],
}

impl Screen {
    /// Takes a new screenshot and calls `draw` on its pixels. It is not cached.
    ///
    /// # Errors
    /// Those of [`Screen::screenshot`].
    pub async fn screenshot_with(
        &self,
        options: ScreenshotOptions,
        draw: impl FnOnce(&mut Canvas<'_>) + Send + 'static,
    ) -> Result<Picture> {
        let draw = |frame: &mut Frame| {
            let (width, height) = (usize::from(frame.width), usize::from(frame.height));
            draw(&mut Canvas { width, height, pixels: &mut frame.pixels });
        };
        self.drawn_picture(options, draw).await
    }
}
