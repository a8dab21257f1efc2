//! What does a screen show right now? Pixels by shared memory, with the pointer; or "what you have already".

use std::sync::atomic::{AtomicU64, Ordering};

use x11rb::protocol::shm::ConnectionExt as _;
use x11rb::protocol::xfixes::{ConnectionExt as _, GetCursorImageReply};
use x11rb::protocol::xproto::{ConnectionExt as _, ImageFormat};

use super::cache::{Picture, Stamp};
use super::fault::{Fault, Outcome};
use super::frame::{Cursor, Frame, Pool};
use super::seat::Seat;
use super::shm::Segment;
use crate::domain::error::Error;
use crate::domain::resolution::Size;

/// Every bit of every pixel.
const ALL_PLANES: u32 = !0;
/// Tries of one capture: a screen that is being resized can refuse the old rectangle once.
const TRIES: u32 = 2;

/// Numbers the connections, so that a stamp of one never equals a stamp of another.
static SEATS: AtomicU64 = AtomicU64::new(1);

/// What a seat keeps between captures.
#[derive(Debug)]
pub(super) struct Camera {
    /// Which connection this is.
    pub(super) number: u64,
    segment: Option<Segment>,
    pool: Pool,
}

impl Camera {
    pub(super) fn new() -> Self {
        Self { number: SEATS.fetch_add(1, Ordering::Relaxed), segment: None, pool: Pool::default() }
    }
}

/// The result of a look.
pub(super) enum Look {
    /// Nothing changed since this picture was made.
    Known(Picture),
    /// A new picture, to be encoded elsewhere.
    New(Stamp, Frame),
}

impl Seat {
    /// The picture of what is shown now, if `known` has it.
    pub(super) fn known_picture(
        &mut self,
        known: impl Fn(Stamp) -> Option<Picture>,
    ) -> Outcome<Option<Picture>> {
        let (stamp, _) = self.stamp()?;
        Ok(known(stamp))
    }

    /// Looks at the screen. `known` is asked first whether the content is encoded already.
    pub(super) fn look(&mut self, known: impl Fn(Stamp) -> Option<Picture>) -> Outcome<Look> {
        if !self.bgrx {
            return Err(Error::internal("the X server's pixels are not 32 bits, blue first").into());
        }
        let (stamp, cursor) = self.stamp()?;
        if let Some(picture) = known(stamp) {
            return Ok(Look::Known(picture));
        }
        let mut frame = self.capture()?;
        frame.draw(&placed(&cursor));
        Ok(Look::New(stamp, frame))
    }

    /// What tells the present content from any other, and the pointer's picture.
    fn stamp(&mut self) -> Outcome<(Stamp, GetCursorImageReply)> {
        let cursor = self.link.xfixes_get_cursor_image()?.reply()?;
        // The reply is a barrier: what had changed by now is in the events.
        self.read_events()?;
        if self.damage.is_none() {
            self.frame += 1;
        }
        let stamp = Stamp {
            seat: self.camera.number,
            frame: self.frame,
            cursor_serial: cursor.cursor_serial,
            cursor: (cursor.x, cursor.y),
        };
        Ok((stamp, cursor))
    }

    fn capture(&mut self) -> Outcome<Frame> {
        let mut refusal = None;
        for _ in 0..TRIES {
            let geometry = self.link.get_geometry(self.root)?.reply()?;
            let size = Size { width: geometry.width, height: geometry.height };
            self.size.set(size);
            match self.capture_of(size) {
                Err(Fault::Refused(error)) => refusal = Some(error),
                done => return done,
            }
        }
        Err(refusal.unwrap_or_else(|| Error::internal("no capture was tried")).into())
    }

    fn capture_of(&mut self, size: Size) -> Outcome<Frame> {
        let bytes = usize::from(size.width) * usize::from(size.height) * 4;
        let mut pixels = self.camera.pool.take();
        if self.has_shm {
            let id = self.segment_of(bytes)?;
            let image = self.link.shm_get_image(
                self.root,
                0,
                0,
                size.width,
                size.height,
                ALL_PLANES,
                ImageFormat::Z_PIXMAP.into(),
                id,
                0,
            )?;
            image.reply()?;
            if let Some(segment) = &self.camera.segment {
                segment.copy_to(&mut pixels, bytes);
            }
        } else {
            let image = self.link.get_image(
                ImageFormat::Z_PIXMAP,
                self.root,
                0,
                0,
                size.width,
                size.height,
                ALL_PLANES,
            )?;
            pixels.clear();
            pixels.extend_from_slice(&image.reply()?.data);
        }
        if pixels.len() != bytes {
            return Err(
                Error::internal(format!("the X server sent {} of {bytes} bytes", pixels.len())).into()
            );
        }
        Ok(Frame { width: size.width, height: size.height, pixels, pool: self.camera.pool.clone() })
    }

    /// The warm segment, made anew when the screen's size has changed.
    fn segment_of(&mut self, bytes: usize) -> Outcome<u32> {
        if let Some(segment) = &self.camera.segment
            && segment.len() == bytes
        {
            return Ok(segment.id);
        }
        if let Some(old) = self.camera.segment.take() {
            old.detach(&self.link)?;
        }
        let segment = Segment::attach(&self.link, bytes)?;
        Ok(self.camera.segment.insert(segment).id)
    }
}

fn placed(cursor: &GetCursorImageReply) -> Cursor<'_> {
    Cursor {
        left: i32::from(cursor.x) - i32::from(cursor.xhot),
        top: i32::from(cursor.y) - i32::from(cursor.yhot),
        width: cursor.width,
        height: cursor.height,
        pixels: &cursor.cursor_image,
    }
}
