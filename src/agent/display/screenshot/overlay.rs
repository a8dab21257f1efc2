//! How is something drawn on a picture of a screen? On the raw pixels, before they are encoded.

use super::cache::Picture;
use super::form::Form;
use super::screen::Screen;
use hotdesk_domain::error::Result;

/// A picture that can be drawn on: rows of `width` pixels of four bytes (blue, green, red, unused).
#[derive(Debug)]
pub struct Canvas<'a> {
    /// Pixels across.
    pub width: usize,
    /// Pixels down.
    pub height: usize,
    /// The pixels.
    pub pixels: &'a mut [u8],
}

impl Screen {
    /// A new picture of the screen with something drawn on it; it is not kept for the next who asks.
    ///
    /// # Errors
    /// As [`Screen::screenshot`].
    pub async fn screenshot_with(
        &self,
        form: Form,
        draw: impl FnOnce(&mut Canvas<'_>) + Send + 'static,
    ) -> Result<Picture> {
        let (_, picture) = self
            .picture(
                form,
                |_| None,
                |frame| {
                    let (width, height) = (usize::from(frame.width), usize::from(frame.height));
                    draw(&mut Canvas { width, height, pixels: &mut frame.pixels });
                },
            )
            .await?;
        Ok(picture)
    }
}
