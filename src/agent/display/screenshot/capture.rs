//! What does a screen show right now? Pixels by shared memory, with the pointer; or "what you have already".

use std::sync::atomic::{AtomicU64, Ordering};

use x11rb::protocol::shm::ConnectionExt as _;
use x11rb::protocol::xfixes::{ConnectionExt as _, GetCursorImageReply};
use x11rb::protocol::xproto::{ConnectionExt as _, ImageFormat};

use super::cache::{Picture, Pointer, Stamp};
use super::fault::{Fault, Outcome};
use super::frame::{Cursor, Frame, Pool};
use super::seat::Seat;
use super::shm::Segment;
use hotdesk_domain::error::Error;
use hotdesk_domain::region::Region;
use hotdesk_domain::resolution::Size;

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
    /// A new picture and what it shows, to be encoded elsewhere.
    New(Stamp, Region, Frame),
}

impl Seat {
    /// Tells the present content of a screen, or a part of it, from any other.
    pub(super) fn stamp(&mut self, region: Option<Region>, cursor: bool) -> Outcome<Stamp> {
        Ok(self.present(region, cursor)?.0)
    }

    /// Looks at the screen. `known` is asked first whether the content is encoded already.
    pub(super) fn look(
        &mut self,
        region: Option<Region>,
        cursor: bool,
        known: impl Fn(Stamp) -> Option<Picture>,
    ) -> Outcome<Look> {
        if !self.bgrx {
            return Err(Error::internal("the X server's pixels are not 32 bits, blue first").into());
        }
        let (stamp, cursor) = self.present(region, cursor)?;
        if let Some(picture) = known(stamp) {
            return Ok(Look::Known(picture));
        }
        let (region, mut frame) = self.capture(region)?;
        if let Some(cursor) = cursor {
            frame.draw(&placed(&cursor, region));
        }
        Ok(Look::New(stamp, region, frame))
    }

    /// What tells the present content from any other, and the pointer's picture where it is to be drawn.
    fn present(
        &mut self,
        region: Option<Region>,
        cursor: bool,
    ) -> Outcome<(Stamp, Option<GetCursorImageReply>)> {
        // Each piece of work begins with a barrier: what had changed by then is known. The pointer costs another.
        let cursor = if cursor { Some(self.link.xfixes_get_cursor_image()?.reply()?) } else { None };
        self.read_events()?;
        if self.damage.is_none() {
            self.frame += 1;
        }
        let cursor = cursor.filter(|cursor| {
            let (left, top) = corner(cursor);
            region.is_none_or(|region| region.touches(left, top, cursor.width, cursor.height))
        });
        let pointer =
            cursor.as_ref().map(|cursor| Pointer { serial: cursor.cursor_serial, at: (cursor.x, cursor.y) });
        Ok((Stamp { seat: self.camera.number, frame: self.frame, cursor: pointer }, cursor))
    }

    fn capture(&mut self, part: Option<Region>) -> Outcome<(Region, Frame)> {
        let mut refusal = None;
        for _ in 0..TRIES {
            let geometry = self.link.get_geometry(self.root)?.reply()?;
            let size = Size { width: geometry.width, height: geometry.height };
            self.size.set(size);
            let region = part.unwrap_or(Region::whole(size));
            region.within(size)?;
            match self.capture_of(region, size) {
                Err(Fault::Refused(error)) => refusal = Some(error),
                done => return done.map(|frame| (region, frame)),
            }
        }
        Err(refusal.unwrap_or_else(|| Error::internal("no capture was tried")).into())
    }

    fn capture_of(&mut self, region: Region, screen: Size) -> Outcome<Frame> {
        let bytes = usize::from(region.width) * usize::from(region.height) * 4;
        let mut pixels = self.camera.pool.take();
        // A screen's coordinates are below 7680.
        let (x, y) = (region.x as i16, region.y as i16);
        if self.has_shm {
            let id = self.segment_of(usize::from(screen.width) * usize::from(screen.height) * 4)?;
            let image = self.link.shm_get_image(
                self.root,
                x,
                y,
                region.width,
                region.height,
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
                x,
                y,
                region.width,
                region.height,
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
        Ok(Frame { width: region.width, height: region.height, pixels, pool: self.camera.pool.clone() })
    }

    /// The warm segment, which holds a whole screen; made anew when the screen's size has changed.
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

/// The top left corner of the pointer's picture on the screen.
fn corner(cursor: &GetCursorImageReply) -> (i32, i32) {
    (i32::from(cursor.x) - i32::from(cursor.xhot), i32::from(cursor.y) - i32::from(cursor.yhot))
}

/// The pointer as seen from a region's corner.
fn placed(cursor: &GetCursorImageReply, region: Region) -> Cursor<'_> {
    let (left, top) = corner(cursor);
    Cursor {
        left: left - i32::from(region.x),
        top: top - i32::from(region.y),
        width: cursor.width,
        height: cursor.height,
        pixels: &cursor.cursor_image,
    }
}
