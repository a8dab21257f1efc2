//! Screenshots of a screen: capture, encoding, and answers from the cache.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::capture::{Capture, CaptureResult};
use super::{Screen, x11_worker};
use crate::display::screenshot::cache::{ConditionalScreenshot, Picture, ScreenshotCache};
use crate::display::screenshot::frame_history::{self, FrameRecord};
use hotdesk_domain::error::{Error, Result};
use hotdesk_pictures::{EncodedImage, Frame, ScreenshotOptions};

/// How long a screenshot may wait for an encoder; each takes milliseconds.
const ENCODER_TIMEOUT: Duration = Duration::from_secs(10);

impl Screen {
    /// Takes a screenshot.
    ///
    /// # Errors
    /// `Unavailable` when the screen or all encoders are busy, or the screen is down; `TimedOut` when the X
    /// server stops answering. `Invalid` for a region that is not on the screen, and with the code
    /// `budget_too_small` for a budget that no picture fits. `Internal` when an encoder fails.
    pub async fn screenshot(&self, options: ScreenshotOptions) -> Result<Picture> {
        match self.screenshot_if_changed(options, Vec::new()).await? {
            ConditionalScreenshot::Picture(picture) => Ok(picture),
            ConditionalScreenshot::NotModified(..) => {
                Err(Error::internal("A screenshot was left out although the client has none"))
            }
        }
    }

    /// Takes a screenshot, unless the current one is among `held`, the names of the frames that the client
    /// has.
    ///
    /// # Errors
    /// Those of [`Screen::screenshot`].
    pub async fn screenshot_if_changed(
        &self,
        options: ScreenshotOptions,
        held: Vec<Arc<str>>,
    ) -> Result<ConditionalScreenshot> {
        let permit = match self.encoders.try_acquire() {
            Some(permit) => permit,
            None => {
                // What is known already needs no encoder.
                let stamp = self.run(move |worker, _| worker.stamp(options.region, options.cursor)).await?;
                if let Some(known) = self.screenshot_cache().known(stamp, options, &held) {
                    return Ok(known);
                }
                self.encoder().await?
            }
        };
        let cache = Arc::clone(&self.screenshot_cache);
        let known = move |stamp| lock(&cache).known(stamp, options, &held);
        // One job for the comparison and the pixels: each job waits for the X server.
        let captured = self
            .run(move |worker, _| worker.capture_unless_known(options.region, options.cursor, known))
            .await?;
        match captured {
            CaptureResult::Known(known) => Ok(known),
            CaptureResult::New(captured) => {
                let stamp = captured.stamp;
                let picture = self.encode(captured, options, permit, |_| {}).await?;
                self.screenshot_cache().encoded.put(stamp, options, picture.clone());
                Ok(ConditionalScreenshot::Picture(picture))
            }
        }
    }

    /// Queues a screenshot before all later work on the screen, and returns what waits for it and encodes it:
    /// the caller acts on the screen meanwhile. Nothing waits for an encoder. The returned future must be
    /// polled soon, because it has one.
    ///
    /// # Errors
    /// `Unavailable` when the screen or all encoders are busy, or the screen is down. The future's errors are
    /// those of [`Screen::screenshot`].
    pub fn queue_screenshot(
        self: &Arc<Self>,
        options: ScreenshotOptions,
    ) -> Result<impl Future<Output = Result<Picture>> + Send + 'static + use<>> {
        let permit = self.encoders.try_acquire().ok_or_else(|| self.busy())?;
        let cache = Arc::clone(&self.screenshot_cache);
        let known = move |stamp| lock(&cache).known(stamp, options, &[]);
        let (job, start, answered) = x11_worker::job(move |worker, _| {
            worker.capture_unless_known(options.region, options.cursor, known)
        });
        self.enqueue(job)?;
        let screen = Arc::clone(self);
        Ok(async move {
            match screen.answer(start, answered).await? {
                CaptureResult::Known(ConditionalScreenshot::Picture(picture)) => Ok(picture),
                CaptureResult::Known(ConditionalScreenshot::NotModified(..)) => {
                    Err(Error::internal("A screenshot was left out although the client has none"))
                }
                CaptureResult::New(captured) => {
                    let stamp = captured.stamp;
                    let picture = screen.encode(captured, options, permit, |_| {}).await?;
                    screen.screenshot_cache().encoded.put(stamp, options, picture.clone());
                    Ok(picture)
                }
            }
        })
    }

    /// Captures the screen, calls `draw` on the pixels, encodes and names the picture.
    pub(super) async fn drawn_picture(
        &self,
        options: ScreenshotOptions,
        draw: impl FnOnce(&mut Frame) + Send + 'static,
    ) -> Result<Picture> {
        // The encoder first, so that waiting requests hold no pixels.
        let permit = self.encoder().await?;
        let captured = self.run(move |worker, _| worker.capture(options.region, options.cursor)).await?;
        self.encode(captured, options, permit, draw).await
    }

    /// Waits for a free encoder.
    async fn encoder(&self) -> Result<OwnedSemaphorePermit> {
        let permit = tokio::time::timeout(ENCODER_TIMEOUT, self.encoders.acquire()).await;
        permit.ok().flatten().ok_or_else(|| self.busy())
    }

    async fn encode(
        &self,
        Capture { stamp, region, mut frame }: Capture,
        options: ScreenshotOptions,
        permit: OwnedSemaphorePermit,
        draw: impl FnOnce(&mut Frame) + Send + 'static,
    ) -> Result<Picture> {
        let encoders = Arc::clone(&self.encoders);
        let encoded = hotdesk_base::tasks::spawn_blocking(move || {
            draw(&mut frame);
            encoders.encode(&frame, options, permit)
        });
        let file =
            encoded.await.map_err(|error| Error::internal(format!("Encoding the screenshot: {error}")))??;
        let frame_record = FrameRecord { stamp, options, region, width: file.width, height: file.height };
        let scale = frame_record.scale();
        let frame = self.screenshot_cache().frames.add(frame_record);
        let EncodedImage { bytes, mime_type, width, height } = file;
        Ok(Picture { bytes, mime_type, width, height, scale, frame })
    }

    /// The record of a recent screenshot.
    ///
    /// # Errors
    /// `Conflict` with the code `unknown_frame` when the frame is unknown or forgotten.
    pub fn frame_record(&self, frame: &str) -> Result<FrameRecord> {
        self.screenshot_cache().frames.get(frame).cloned().ok_or_else(|| frame_history::unknown(frame))
    }

    fn screenshot_cache(&self) -> MutexGuard<'_, ScreenshotCache> {
        lock(&self.screenshot_cache)
    }
}

fn lock(screenshot_cache: &Mutex<ScreenshotCache>) -> MutexGuard<'_, ScreenshotCache> {
    screenshot_cache.lock().unwrap_or_else(PoisonError::into_inner)
}
