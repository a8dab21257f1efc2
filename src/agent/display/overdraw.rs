//! How is something drawn on a picture of a screen? On the raw pixels, before they are encoded.

use std::sync::Arc;

use super::cache::Picture;
use super::capture::Look;
use super::encode::{self, Form};
use super::screen::Screen;
use crate::domain::error::{Error, Result};

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
        let permit = self.encoder().await?;
        let looked = self.run(|seat, _| seat.look(|_| None)).await?;
        let Look::New(_, mut frame) = looked else {
            return Err(Error::internal("a picture that nobody kept was known"));
        };
        let encoded = tokio::task::spawn_blocking(move || {
            let (width, height) = (usize::from(frame.width), usize::from(frame.height));
            draw(&mut Canvas { width, height, pixels: &mut frame.pixels });
            let picture = encode::encode(&frame, form);
            drop(permit);
            picture
        });
        encoded.await.map_err(|error| Error::internal(format!("encoder: {error}")))?
    }

    async fn encoder(&self) -> Result<tokio::sync::OwnedSemaphorePermit> {
        let encoders = Arc::clone(&self.encoders).acquire_owned();
        match tokio::time::timeout(super::screen::ENCODER_PATIENCE, encoders).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(self.busy()),
        }
    }
}
