//! Capture of a screen's pixels and cursor, by shared memory where the X server supports it.

use x11rb::protocol::shm::ConnectionExt as _;
use x11rb::protocol::xfixes::{ConnectionExt as _, GetCursorImageReply};
use x11rb::protocol::xproto::{ConnectionExt as _, ImageFormat, Window};

use super::x11_worker::X11Worker;
use crate::display::fault::{Fault, Outcome};
use crate::display::link::Link;
use crate::display::screenshot::capture_state::CaptureState;
use crate::display::screenshot::stamp::{CursorStamp, Stamp};
use hotdesk_domain::desktop::region::Region;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::Error;
use hotdesk_pictures::{Cursor, Frame};

/// Plane mask with all bits.
const ALL_PLANES: u32 = !0;
/// Attempts of one capture: a screen that is being resized can refuse the old rectangle once.
const TRIES: u32 = 2;

/// Result of a capture.
pub(super) enum CaptureResult<T> {
    /// The content is known, so its pixels were not captured.
    Known(T),
    /// New content.
    New(Capture),
}

/// Captured content.
pub(super) struct Capture {
    pub(super) stamp: Stamp,
    /// What part of the screen it shows.
    pub(super) region: Region,
    pub(super) frame: Frame,
}

impl X11Worker {
    /// The identity of the current content of a screen or a region.
    pub(super) fn stamp(&mut self, region: Option<Region>, cursor: bool) -> Outcome<Stamp> {
        Ok(self.present(region, cursor)?.0)
    }

    /// Captures the screen unless `known` returns an answer for its content.
    pub(super) fn capture_unless_known<T>(
        &mut self,
        region: Option<Region>,
        cursor: bool,
        known: impl FnOnce(Stamp) -> Option<T>,
    ) -> Outcome<CaptureResult<T>> {
        let (stamp, cursor) = self.present(region, cursor)?;
        match known(stamp) {
            Some(answer) => Ok(CaptureResult::Known(answer)),
            None => self.read_pixels(region, stamp, cursor).map(CaptureResult::New),
        }
    }

    /// Captures the screen.
    pub(super) fn capture(&mut self, region: Option<Region>, cursor: bool) -> Outcome<Capture> {
        let (stamp, cursor) = self.present(region, cursor)?;
        self.read_pixels(region, stamp, cursor)
    }

    fn read_pixels(
        &mut self,
        region: Option<Region>,
        stamp: Stamp,
        cursor: Option<GetCursorImageReply>,
    ) -> Outcome<Capture> {
        if !self.bgrx {
            return Err(Error::internal(
                "The X server's pixel format is not supported: 32 bits with blue first is required",
            )
            .into());
        }
        let (region, mut frame) = self.read_image(region)?;
        if let Some(cursor) = cursor {
            frame.draw(&placed(&cursor, region));
        }
        Ok(Capture { stamp, region, frame })
    }

    /// The identity of the current content, and the cursor image if it must be drawn.
    fn present(
        &mut self,
        region: Option<Region>,
        cursor: bool,
    ) -> Outcome<(Stamp, Option<GetCursorImageReply>)> {
        // Every job begins with a barrier, so all changes before it are known. The cursor image costs another
        // round trip.
        let cursor = if cursor { Some(self.link.xfixes_get_cursor_image()?.reply()?) } else { None };
        self.read_events()?;
        if self.damage.is_none() {
            self.frame += 1;
        }
        let cursor = cursor.filter(|cursor| {
            let (left, top) = corner(cursor);
            region.is_none_or(|region| region.touches(left, top, cursor.width, cursor.height))
        });
        let pointer = cursor
            .as_ref()
            .map(|cursor| CursorStamp { serial: cursor.cursor_serial, at: (cursor.x, cursor.y) });
        Ok((Stamp { connection: self.capture_state.number, frame: self.frame, cursor: pointer }, cursor))
    }

    fn read_image(&mut self, part: Option<Region>) -> Outcome<(Region, Frame)> {
        let mut refusal = None;
        for _ in 0..TRIES {
            let seen = self.size.get();
            let region = part.unwrap_or(Region::whole(seen));
            // One round trip for both: each costs a busy machine two waits for a core.
            let geometry = self.link.get_geometry(self.root)?;
            let link = &self.link;
            let image = Image { root: self.root, by_shared_memory: self.has_shm, region, screen: seen };
            let fits = region.within(seen).map_err(Fault::from);
            let captured = fits.and_then(|()| image.read(link, &mut self.capture_state));
            let geometry = geometry.reply()?;
            let size = Size { width: geometry.width, height: geometry.height };
            self.size.set(size);
            match captured {
                Ok(frame) if size == seen => return Ok((region, frame)),
                Err(Fault::Refused(error)) => refusal = Some(error),
                Ok(_) => {
                    refusal = Some(Error::unavailable("The screen changed its size during the screenshot"))
                }
                Err(fault) => return Err(fault),
            }
        }
        Err(refusal.unwrap_or_else(|| Error::internal("no capture was tried")).into())
    }
}

/// Pixels of a part of a screen of a known size.
#[derive(Clone, Copy)]
struct Image {
    root: Window,
    by_shared_memory: bool,
    region: Region,
    screen: Size,
}

impl Image {
    fn read(self, link: &Link, state: &mut CaptureState) -> Outcome<Frame> {
        let Self { root, region, screen, .. } = self;
        let bytes = usize::from(region.width) * usize::from(region.height) * 4;
        let mut pixels = state.pool.take();
        // Coordinates on a screen are below 7680.
        let (x, y) = (region.x as i16, region.y as i16);
        if self.by_shared_memory {
            let whole = usize::from(screen.width) * usize::from(screen.height) * 4;
            let id = state.segment_id(link, whole)?;
            let image = link.shm_get_image(
                root,
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
            if let Some(segment) = &state.segment {
                segment.copy_to(&mut pixels, bytes);
            }
        } else {
            let image =
                link.get_image(ImageFormat::Z_PIXMAP, root, x, y, region.width, region.height, ALL_PLANES)?;
            pixels.clear();
            pixels.extend_from_slice(&image.reply()?.data);
        }
        if pixels.len() != bytes {
            return Err(Error::internal(format!(
                "The X server sent {} of {bytes} bytes of the screen",
                pixels.len()
            ))
            .into());
        }
        Ok(Frame { width: region.width, height: region.height, pixels, pool: state.pool.clone() })
    }
}

/// Top left corner of the cursor image on the screen.
fn corner(cursor: &GetCursorImageReply) -> (i32, i32) {
    (i32::from(cursor.x) - i32::from(cursor.xhot), i32::from(cursor.y) - i32::from(cursor.yhot))
}

/// The cursor relative to a region's corner.
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
