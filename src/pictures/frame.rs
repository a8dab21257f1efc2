//! Captured pixels of a screen, and drawing of the cursor on them.

use std::sync::{Arc, Mutex, PoisonError};

/// Spare buffers per screen: one captures while another is encoded.
const SPARE_BUFFERS: usize = 2;

/// Reusable pixel buffers: to allocate several megabytes costs more than to fill them.
#[derive(Clone, Debug, Default)]
pub struct Pool(Arc<Mutex<Vec<Vec<u8>>>>);

impl Pool {
    /// A buffer, a used one if possible.
    pub fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Returns a buffer for the next frame.
    pub fn give_back(&self, buffer: Vec<u8>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_BUFFERS {
            spare.push(buffer);
        }
    }
}

/// Pixels of a screen or a region: rows of `width` pixels of four bytes (blue, green, red, unused).
#[derive(Debug)]
pub struct Frame {
    /// Width in pixels.
    pub width: u16,
    /// Height in pixels.
    pub height: u16,
    /// `4 * width * height` bytes.
    pub pixels: Vec<u8>,
    /// Takes the buffer back at the end.
    pub pool: Pool,
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.pixels));
    }
}

/// The cursor image of XFIXES: premultiplied ARGB, its top left corner relative to the frame's.
#[derive(Debug)]
pub struct Cursor<'a> {
    /// Pixels to the right of the frame's left edge.
    pub left: i32,
    /// Pixels below the frame's upper edge.
    pub top: i32,
    /// Width in pixels.
    pub width: u16,
    /// Height in pixels.
    pub height: u16,
    /// `width * height` values.
    pub pixels: &'a [u32],
}

impl Frame {
    /// Draws the cursor; parts beyond an edge are cut off.
    pub fn draw(&mut self, cursor: &Cursor<'_>) {
        let stride = usize::from(self.width) * 4;
        let rows = cursor.pixels.chunks_exact(usize::from(cursor.width).max(1));
        for (y, row) in (cursor.top..).zip(rows.take(usize::from(cursor.height))) {
            let Some(y) = usize::try_from(y).ok().filter(|y| *y < usize::from(self.height)) else { continue };
            for (x, &pixel) in (cursor.left..).zip(row) {
                let Some(x) = usize::try_from(x).ok().filter(|x| *x < usize::from(self.width)) else {
                    continue;
                };
                let at = y * stride + x * 4;
                if let Some(under) = self.pixels.get_mut(at..at + 3) {
                    blend(under, pixel);
                }
            }
        }
    }
}

/// Premultiplied "over" operator.
fn blend(under: &mut [u8], pixel: u32) {
    let [blue, green, red, alpha] = pixel.to_le_bytes();
    let rest = 255 - u16::from(alpha);
    for (channel, colour) in under.iter_mut().zip([blue, green, red]) {
        let share = (u16::from(*channel) * rest + 127) / 255;
        *channel = u8::try_from(u16::from(colour) + share).unwrap_or(u8::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(width: u16, height: u16) -> Frame {
        let pixels = vec![100; usize::from(width) * usize::from(height) * 4];
        Frame { width, height, pixels, pool: Pool::default() }
    }

    #[test]
    fn the_pointer_is_blended_and_cut_at_every_edge() {
        let pixels = [0xffff_0000_u32; 4];
        for (left, top, touched) in [
            (0, 0, vec![(0, 0), (1, 0), (0, 1), (1, 1)]),
            (-1, -1, vec![(0, 0)]),
            (3, 2, vec![(3, 2)]),
            (4, 3, vec![]),
            (-2, 0, vec![]),
        ] {
            let mut frame = grey(4, 3);
            frame.draw(&Cursor { left, top, width: 2, height: 2, pixels: &pixels });
            for y in 0..3_usize {
                for x in 0..4_usize {
                    let seen = &frame.pixels[(y * 4 + x) * 4..][..3];
                    let wanted: [u8; 3] =
                        if touched.contains(&(x, y)) { [0, 0, 255] } else { [100, 100, 100] };
                    assert_eq!(seen, wanted, "{left},{top} at {x},{y}");
                }
            }
        }
    }

    #[test]
    fn half_opaque_and_empty_pointers() {
        let mut frame = grey(1, 1);
        frame.draw(&Cursor { left: 0, top: 0, width: 1, height: 1, pixels: &[0x8000_0080] });
        assert_eq!(frame.pixels[..3], [0x80 + 50, 50, 50]);
        frame.draw(&Cursor { left: 0, top: 0, width: 0, height: 0, pixels: &[] });
        // A cursor brighter than its opacity allows saturates and does not wrap.
        frame.draw(&Cursor { left: 0, top: 0, width: 1, height: 1, pixels: &[0x00ff_ffff] });
        assert_eq!(frame.pixels[..3], [255, 255, 255]);
    }
}
