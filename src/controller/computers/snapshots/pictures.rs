//! Small pictures of the screen in snapshots of running computers.
//!
//! A snapshot never fails or waits long because of its picture. Encrypted computers have none, because blobs
//! are not encrypted.

use std::time::Duration;

use crate::computers::runner::registry::FleetState;
use hotdesk_base::ids::SnapshotId;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_guest::{ConditionalScreenshot, Guest};
use hotdesk_http::headers::image_headers::IfNoneMatch;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::desktop::screenshot::ScreenshotQuery;

/// Longest side in pixels: a card in a list of snapshots, also on a screen of double density.
const LONGEST_SIDE: u16 = 480;
/// Most pixels of a picture, also of a screen that programs have made larger than it is stored.
const MAX_PIXELS: u32 = LONGEST_SIDE as u32 * LONGEST_SIDE as u32;
/// Quality of the JPEG: text of a window can be guessed, and a screen has about 25 KB.
const QUALITY: u8 = 75;
/// Largest picture in bytes; the agent lowers the quality to reach it.
const MAX_BYTES: u32 = 128 * 1024;
/// Time that a picture may delay a snapshot. An agent answers in some 20 ms.
const TIMEOUT: Duration = Duration::from_secs(2);

impl FleetState {
    /// Takes a picture of the boot screen and gives it to a snapshot. A failure is logged.
    pub(in crate::computers) async fn take_snapshot_picture(
        &self,
        computer: &Computer,
        snapshot: SnapshotId,
        guest: &Guest,
    ) {
        let taken = tokio::time::timeout(TIMEOUT, self.try_snapshot_picture(computer, snapshot, guest)).await;
        let failure = match taken {
            Ok(Ok(())) => return,
            // A defect, or a hostile computer that sent something else than a small picture.
            Ok(Err(error)) if error.kind == Kind::Internal => {
                tracing::warn!(
                    computer = %computer.id,
                    %snapshot,
                    failure = format_args!("{error:#}"),
                    "a snapshot has no picture"
                );
                return;
            }
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => format!("not within {TIMEOUT:?}"),
        };
        tracing::debug!(computer = %computer.id, %snapshot, failure, "a snapshot has no picture");
    }

    async fn try_snapshot_picture(
        &self,
        computer: &Computer,
        snapshot: SnapshotId,
        guest: &Guest,
    ) -> Result<()> {
        if self.store.is_encrypted(computer.id).await? {
            return Ok(());
        }
        let boot_screen = computer.hardware.resolution.size;
        let query = ScreenshotQuery {
            format: Some("jpeg".to_owned()),
            quality: Some(QUALITY),
            scale: Some(scale(boot_screen)),
            max_pixels: Some(MAX_PIXELS),
            max_bytes: Some(MAX_BYTES),
            ..ScreenshotQuery::default()
        };
        let shot = guest.screenshot(&query, boot_screen, &IfNoneMatch::default()).await?;
        let ConditionalScreenshot::Image(image) = shot else {
            return Err(Error::internal("the agent returned no image for an unconditional request"));
        };
        // The route of pictures says that they are JPEG.
        if image.mime_type != "image/jpeg" {
            return Err(Error::internal("the agent returned no JPEG"));
        }
        let stored = self.snapshot_pictures.put(computer.owner, &image.bytes, MAX_BYTES as usize).await?;
        let Some((picture, bytes)) = stored else { return Ok(()) };
        match self.store.set_snapshot_picture(snapshot, picture, bytes).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.snapshot_pictures.remove(&[picture]).await;
                Ok(())
            }
            Err(error) => {
                self.snapshot_pictures.remove(&[picture]).await;
                Err(error)
            }
        }
    }
}

/// The factor by which a screen is at most [`LONGEST_SIDE`] wide and high.
fn scale(screen: Size) -> f64 {
    let longest = screen.width.max(screen.height).max(1);
    (f64::from(LONGEST_SIDE) / f64::from(longest)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_small_whatever_the_screen() {
        for (width, height, expected) in
            [(1280, 720, 0.375), (720, 1280, 0.375), (480, 320, 1.0), (320, 200, 1.0), (7680, 4320, 0.0625)]
        {
            assert_eq!(scale(Size::new(width, height).unwrap()), expected, "{width}x{height}");
        }
    }
}
