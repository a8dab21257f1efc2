//! Frames that one viewer is sent: from a key frame on, and from another one when it missed a frame.

use std::sync::Arc;

use super::unit::{VideoFormat, VideoFrame};

/// What to do with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Leave it out: the viewer cannot decode it.
    Skip,
    /// Send it.
    Send,
    /// Announce its format, then send it.
    Announce,
}

/// State of one viewer.
#[derive(Debug, Default)]
pub(super) struct ViewerState {
    /// The format that was announced last.
    announced: Option<Arc<VideoFormat>>,
    /// Whether the viewer has every frame since its last key frame.
    has_all: bool,
}

impl ViewerState {
    /// Says what to do with the next frame.
    pub(super) fn step(&mut self, frame: &VideoFrame) -> Step {
        let is_announced = self.announced.as_ref() == Some(&frame.format);
        if !(frame.is_key || self.has_all && is_announced) {
            self.has_all = false;
            return Step::Skip;
        }
        self.has_all = true;
        if is_announced {
            return Step::Send;
        }
        self.announced = Some(Arc::clone(&frame.format));
        Step::Announce
    }

    /// Notes that the viewer was too slow for a frame.
    pub(super) fn miss(&mut self) {
        self.has_all = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::video::unit::Configuration;
    use hotdesk_domain::desktop::resolution::Size;

    fn frame(width: u16, is_key: bool) -> VideoFrame {
        let record = b"\x01\x42\xc0\x1f\xff\xe1\0\x03SPS\x01\0\x02PP";
        let configuration = Configuration::parse(record, Size { width, height: 360 }).unwrap();
        configuration.frame(is_key, 0, b"\0\0\0\x01x").unwrap()
    }

    #[test]
    fn a_viewer_begins_at_a_key_frame_and_anew_after_what_it_missed() {
        let mut viewing = ViewerState::default();
        // What the encoder sends, `None` for what the viewer was too slow for, and what the viewer is sent.
        let table = [
            (Some((640, false)), Step::Skip),
            (Some((640, true)), Step::Announce),
            (Some((640, false)), Step::Send),
            (Some((640, true)), Step::Send),
            (None, Step::Skip),
            (Some((640, false)), Step::Skip),
            (Some((640, true)), Step::Send),
            // Another encoder, whose key frame was missed.
            (Some((800, false)), Step::Skip),
            (Some((640, false)), Step::Skip),
            (Some((800, true)), Step::Announce),
            (Some((800, false)), Step::Send),
        ];
        for (number, (sent, expected)) in table.into_iter().enumerate() {
            match sent {
                Some((width, is_key)) => {
                    assert_eq!(viewing.step(&frame(width, is_key)), expected, "{number}")
                }
                None => viewing.miss(),
            }
        }
    }
}
