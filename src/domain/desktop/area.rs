//! Rectangles of pixels, which may lie outside of the screen, and merging of overlapping ones.

/// A rectangle; its right and lower edges are exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Distance from the left edge of the screen, in pixels.
    pub x: i32,
    /// Distance from the top edge of the screen, in pixels.
    pub y: i32,
    /// Width, in pixels.
    pub width: u32,
    /// Height, in pixels.
    pub height: u32,
}

impl Area {
    /// Whether the two rectangles share a pixel.
    pub fn touches(self, other: Self) -> bool {
        let overlap = |a: i32, a_len: u32, b: i32, b_len: u32| {
            i64::from(a) < i64::from(b) + i64::from(b_len) && i64::from(b) < i64::from(a) + i64::from(a_len)
        };
        let some = |area: Self| area.width > 0 && area.height > 0;
        some(self)
            && some(other)
            && overlap(self.x, self.width, other.x, other.width)
            && overlap(self.y, self.height, other.y, other.height)
    }

    /// Returns the number of pixels.
    pub fn pixels(self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Returns the smallest rectangle that contains both.
    #[must_use]
    pub fn around(self, other: Self) -> Self {
        let (x, y) = (self.x.min(other.x), self.y.min(other.y));
        let right = self.right().max(other.right());
        let bottom = self.bottom().max(other.bottom());
        let side = |from: i32, to: i64| u32::try_from(to - i64::from(from)).unwrap_or(u32::MAX);
        Self { x, y, width: side(x, right), height: side(y, bottom) }
    }

    /// Returns the square around a point, with `margin` pixels in each direction.
    pub fn near(x: i16, y: i16, margin: u16) -> Self {
        let reach = i32::from(margin);
        let side = 2 * u32::from(margin) + 1;
        Self { x: i32::from(x) - reach, y: i32::from(y) - reach, width: side, height: side }
    }

    fn right(self) -> i64 {
        i64::from(self.x) + i64::from(self.width)
    }

    fn bottom(self) -> i64 {
        i64::from(self.y) + i64::from(self.height)
    }
}

/// Merges rectangles until at most `most` are left: overlapping ones first, then the last ones.
pub fn merge(areas: impl IntoIterator<Item = Area>, most: usize) -> Vec<Area> {
    let mut merged: Vec<Area> = Vec::new();
    for area in areas {
        let mut whole = area;
        // The merged rectangle can overlap further ones.
        while let Some(at) = merged.iter().position(|other| other.touches(whole)) {
            whole = whole.around(merged.swap_remove(at));
        }
        if merged.len() >= most.max(1)
            && let Some(last) = merged.pop()
        {
            whole = whole.around(last);
        }
        merged.push(whole);
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(x: i32, y: i32, width: u32, height: u32) -> Area {
        Area { x, y, width, height }
    }

    #[test]
    fn areas_touch_when_they_share_a_pixel() {
        for (a, b, wanted) in [
            (area(0, 0, 10, 10), area(9, 9, 1, 1), true),
            (area(0, 0, 10, 10), area(10, 0, 5, 5), false),
            (area(0, 0, 10, 10), area(0, 10, 5, 5), false),
            (area(-5, -5, 6, 6), area(0, 0, 1, 1), true),
            (area(3, 3, 0, 9), area(0, 0, 10, 10), false),
            (Area::near(0, 0, 2), area(2, 2, 1, 1), true),
            (Area::near(0, 0, 2), area(3, 0, 1, 1), false),
        ] {
            assert_eq!((a.touches(b), b.touches(a)), (wanted, wanted), "{a:?} {b:?}");
        }
        assert_eq!(area(1, 2, 3, 4).around(area(-1, 5, 1, 10)), area(-1, 2, 5, 13));
    }

    #[test]
    fn areas_are_merged_to_a_bounded_number_that_covers_all() {
        let all =
            [area(0, 0, 2, 2), area(10, 10, 2, 2), area(1, 1, 2, 2), area(50, 0, 1, 1), area(90, 0, 1, 1)];
        assert_eq!(merge(all, 9).len(), 4);
        for most in 0..5 {
            let merged = merge(all, most);
            assert!(merged.len() <= most.max(1), "{most}");
            for part in all {
                assert!(merged.iter().any(|whole| whole.around(part) == *whole), "{part:?} in {merged:?}");
            }
        }
        // A rectangle that overlaps two others merges all three.
        assert_eq!(merge([area(0, 0, 2, 2), area(8, 0, 2, 2), area(1, 0, 8, 1)], 9), [area(0, 0, 10, 2)]);
    }
}
