//! Encoding of captured frames as PNG, JPEG or WebP, with scaling and a byte budget.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::budget::{self, EncodeParams};
use crate::encoder_buffers::EncoderBuffers;
use crate::frame::Frame;
use crate::options::{DEFAULT_QUALITY, Format, ScreenshotOptions};
use hotdesk_domain::error::Result;

/// Most bytes of buffers that are reused: those of a 4K picture. Larger buffers are freed after use.
const MAX_IDLE_BYTES: usize = 64 * 1024 * 1024;

/// The encoders of all screens: as many as cores, because more would only use memory.
#[derive(Debug)]
pub struct Encoders {
    permits: Arc<Semaphore>,
    /// Idle buffers. The last used ones are used next, so that a single client works with warm buffers.
    idle: Mutex<Vec<EncoderBuffers>>,
}

impl Default for Encoders {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { permits: Arc::new(Semaphore::new(cores)), idle: Mutex::default() }
    }
}

impl Encoders {
    /// Returns an encoder if one is free.
    pub fn try_acquire(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// Waits for a free encoder. `None` when the semaphore is closed.
    pub async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_owned().await.ok()
    }

    /// Encodes a frame and releases `permit`. Takes milliseconds of a core: call it from a blocking thread.
    ///
    /// # Errors
    /// `Internal` when an encoder fails; `Invalid` with the code `budget_too_small` when nothing fits the
    /// budget.
    pub fn encode(
        &self,
        frame: &Frame,
        options: ScreenshotOptions,
        permit: OwnedSemaphorePermit,
    ) -> Result<EncodedImage> {
        let mut buffers = self.lock().pop().unwrap_or_default();
        let encoded = encode(&mut buffers, frame, options);
        if buffers.bytes() <= MAX_IDLE_BYTES {
            self.lock().push(buffers);
        }
        drop(permit);
        encoded
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<EncoderBuffers>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An encoded file with its type and its size in pixels.
#[derive(Debug)]
pub struct EncodedImage {
    /// Content of the file.
    pub bytes: Bytes,
    /// `image/png`, `image/jpeg` or `image/webp`.
    pub mime_type: &'static str,
    /// Width in pixels, after scaling.
    pub width: u32,
    /// Height in pixels, after scaling.
    pub height: u32,
}

fn encode(buffers: &mut EncoderBuffers, frame: &Frame, options: ScreenshotOptions) -> Result<EncodedImage> {
    let full = (u32::from(frame.width), u32::from(frame.height));
    let (width, height) = budget::sides(full, options.scale, options.max_pixels);
    // The initial quality when quality may be lowered. A lossless WebP that is too large becomes a lossy one.
    let (mime_type, quality, lossy) = match options.format {
        Format::Png => ("image/png", None, None),
        Format::Jpeg { quality } => ("image/jpeg", Some(quality), Some(quality)),
        Format::Webp { quality } => ("image/webp", quality, Some(quality.unwrap_or(DEFAULT_QUALITY))),
    };
    let first = EncodeParams { width, height, quality };
    buffers.forget();
    let (params, bytes) = budget::fit(first, lossy, options.max_bytes, |params| {
        let pixels = buffers.scaled(frame, params.width, params.height)?;
        pixels.write(options.format, params.quality)
    })?;
    Ok(EncodedImage { bytes, mime_type, width: params.width, height: params.height })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Pool;
    use hotdesk_domain::error_code::ErrorCode;

    fn encoded(frame: &Frame, query: &str) -> Result<EncodedImage> {
        let options = ScreenshotOptions::parse(&serde_urlencoded::from_str(query).unwrap()).unwrap();
        encode(&mut EncoderBuffers::default(), frame, options)
    }

    fn rgb(bytes: &Bytes) -> Vec<u8> {
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut rgb).unwrap();
        rgb
    }

    fn noise(width: u16, height: u16) -> Frame {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let pixels = (0..usize::from(width) * usize::from(height) * 4).map(|_| next()).collect();
        Frame { width, height, pixels, pool: Pool::default() }
    }

    #[test]
    fn a_picture_has_its_pixels_and_its_scaled_size() {
        let pixels = [[255, 0, 0, 9], [0, 255, 0, 9], [0, 0, 255, 9], [1, 2, 3, 9]].concat();
        let frame = Frame { width: 2, height: 2, pixels, pool: Pool::default() };
        let picture = encoded(&frame, "").unwrap();
        assert_eq!(rgb(&picture.bytes), [0, 0, 255, 0, 255, 0, 255, 0, 0, 3, 2, 1]);
        let webp = encoded(&frame, "format=webp").unwrap();
        let seen = webp::Decoder::new(&webp.bytes).decode().unwrap();
        assert_eq!((webp.mime_type, &*seen), ("image/webp", &rgb(&picture.bytes)[..]));
        let tiny = encoded(&frame, "format=jpeg&quality=95&scale=0.01").unwrap();
        assert_eq!((tiny.width, tiny.height, tiny.mime_type), (1, 1, "image/jpeg"));
        assert_eq!(tiny.bytes[..2], [0xff, 0xd8]);
    }

    #[test]
    fn every_size_of_noise_comes_back_from_a_lossless_file() {
        let mut buffers = EncoderBuffers::default();
        for (width, height) in [(1, 1), (2, 1), (1, 2), (3, 5), (17, 4), (64, 64), (255, 3), (256, 256)] {
            let frame = noise(width, height);
            let wanted: Vec<u8> =
                frame.pixels.chunks_exact(4).flat_map(|pixel| [pixel[2], pixel[1], pixel[0]]).collect();
            for query in ["", "format=webp"] {
                let options = ScreenshotOptions::parse(&serde_urlencoded::from_str(query).unwrap()).unwrap();
                let file = encode(&mut buffers, &frame, options).unwrap().bytes;
                let seen = match query {
                    "" => rgb(&file),
                    _ => webp::Decoder::new(&file).decode().unwrap().to_vec(),
                };
                assert!(seen == wanted, "{width}x{height} {query}");
            }
        }
    }

    #[test]
    fn budgets_hold_in_every_format_or_are_refused() {
        let frame = noise(320, 200);
        for format in ["png", "jpeg", "jpeg&quality=100", "webp", "webp&quality=90"] {
            for most in [200_000, 50_000, 20_000] {
                let made = encoded(&frame, &format!("format={format}&max_bytes={most}")).unwrap();
                assert!(made.bytes.len() <= most, "{format} {most}: {}", made.bytes.len());
            }
            let refused = encoded(&frame, &format!("format={format}&max_bytes=10")).unwrap_err();
            assert_eq!(refused.code, Some(ErrorCode::BudgetTooSmall), "{format}");
            let small = encoded(&frame, &format!("format={format}&max_pixels=1000")).unwrap();
            assert_eq!((small.width, small.height), (40, 25), "{format}");
        }
    }
}
