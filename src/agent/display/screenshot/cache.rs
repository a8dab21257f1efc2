//! Cache of encoded screenshots by content and options.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::frame_history::{FrameHistory, FrameRecord};
use super::stamp::Stamp;
use hotdesk_pictures::ScreenshotOptions;

/// Most pictures per screen: a few variants (full, scaled, JPEG) of the newest content.
const MAX_PICTURES: usize = 8;
/// Most bytes per screen. A 1080p desktop is under 3 MB as PNG; larger pictures are not cached.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// An encoded screenshot.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Content of the file.
    pub bytes: Bytes,
    /// `image/png`, `image/jpeg` or `image/webp`.
    pub mime_type: &'static str,
    /// Width in pixels, after scaling.
    pub width: u32,
    /// Height in pixels, after scaling.
    pub height: u32,
    /// Pixels of the picture per pixel of the screen.
    pub scale: f64,
    /// Unique frame name, for [`Screen::frame_record`](crate::display::Screen::frame_record) and the entity
    /// tag.
    pub frame: Arc<str>,
}

/// Response to a client that may have the current picture already.
#[derive(Clone, Debug)]
pub enum ConditionalScreenshot {
    /// The client has the current picture: the frame's name and record.
    NotModified(Arc<str>, FrameRecord),
    /// A picture that the client does not have.
    Picture(Picture),
}

/// Encoded pictures of one screen, newest first.
#[derive(Debug, Default)]
pub(in crate::display) struct EncodedCache {
    pictures: VecDeque<(Stamp, ScreenshotOptions, Picture)>,
}

impl EncodedCache {
    /// The picture of this content with these options.
    pub(in crate::display) fn get(&self, stamp: Stamp, options: ScreenshotOptions) -> Option<Picture> {
        let found = self.pictures.iter().find(|(known, shape, _)| *known == stamp && *shape == options);
        found.map(|(_, _, picture)| picture.clone())
    }

    /// Adds a picture and evicts the oldest ones beyond the limits.
    pub(in crate::display) fn put(&mut self, stamp: Stamp, options: ScreenshotOptions, picture: Picture) {
        self.pictures.push_front((stamp, options, picture));
        let mut bytes = 0;
        let within = self.pictures.iter().take(MAX_PICTURES).take_while(|(_, _, picture)| {
            bytes += picture.bytes.len();
            bytes <= MAX_BYTES
        });
        let count = within.count();
        self.pictures.truncate(count);
    }
}

/// Screenshots of one screen: the newest encoded pictures, and the records of more frames.
#[derive(Debug)]
pub(in crate::display) struct ScreenshotCache {
    pub(in crate::display) encoded: EncodedCache,
    pub(in crate::display) frames: FrameHistory,
}

impl Default for ScreenshotCache {
    fn default() -> Self {
        Self { encoded: EncodedCache::default(), frames: FrameHistory::new() }
    }
}

impl ScreenshotCache {
    /// The response for this content and these options, if it is cached. `held` are the names of the frames
    /// that the client has.
    pub(in crate::display) fn known(
        &self,
        stamp: Stamp,
        options: ScreenshotOptions,
        held: &[Arc<str>],
    ) -> Option<ConditionalScreenshot> {
        let same = held.iter().find_map(|name| {
            let frame_record = self.frames.get(name)?;
            (frame_record.stamp == stamp && frame_record.options == options)
                .then(|| ConditionalScreenshot::NotModified(Arc::clone(name), frame_record.clone()))
        });
        same.or_else(|| self.encoded.get(stamp, options).map(ConditionalScreenshot::Picture))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::screenshot::stamp::CursorStamp;

    fn picture(bytes: usize) -> Picture {
        Picture {
            bytes: vec![0; bytes].into(),
            mime_type: "image/png",
            width: 1,
            height: 1,
            scale: 1.0,
            frame: "1".into(),
        }
    }

    #[test]
    fn only_the_same_content_with_the_same_options_is_found_within_bounds() {
        let options =
            |query: &str| ScreenshotOptions::parse(&serde_urlencoded::from_str(query).unwrap()).unwrap();
        let (png, jpeg) = (options(""), options("format=jpeg"));
        let pointer = CursorStamp { serial: 1, at: (0, 0) };
        let stamp = Stamp { connection: 1, frame: 1, cursor: Some(pointer) };
        let mut cache = EncodedCache::default();
        cache.put(stamp, png, picture(10));
        assert!(cache.get(stamp, png).is_some());
        for other in [
            jpeg,
            options("region=0,0,9,9"),
            options("cursor=off"),
            options("scale=0.5"),
            options("max_bytes=9"),
        ] {
            assert!(cache.get(stamp, other).is_none(), "{other:?}");
        }
        for other in [
            Stamp { connection: 2, ..stamp },
            Stamp { frame: 2, ..stamp },
            Stamp { cursor: Some(CursorStamp { serial: 2, ..pointer }), ..stamp },
            Stamp { cursor: Some(CursorStamp { at: (0, 1), ..pointer }), ..stamp },
            Stamp { cursor: None, ..stamp },
        ] {
            assert!(cache.get(other, png).is_none(), "{other:?}");
        }
        for frame in 2..100 {
            cache.put(Stamp { frame, ..stamp }, png, picture(10));
        }
        assert_eq!(cache.pictures.len(), MAX_PICTURES);
        cache.put(stamp, jpeg, picture(MAX_BYTES));
        assert_eq!(cache.pictures.len(), 1);
        cache.put(stamp, png, picture(MAX_BYTES + 1));
        assert!(cache.pictures.is_empty());
    }
}
