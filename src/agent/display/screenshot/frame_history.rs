//! Records of recent screenshots, so that actions can refer to them.
//!
//! An action that names a frame gives its coordinates in the pixels of that screenshot.

use std::collections::VecDeque;
use std::sync::Arc;

use super::stamp::Stamp;
use crate::display::damage_history::Moment;
use hotdesk_domain::desktop::pointer::format_point;
use hotdesk_domain::desktop::region::Region;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_pictures::ScreenshotOptions;

/// Frames remembered per screen, 150 bytes each. A client that takes ten screenshots a second fills this in
/// 100 seconds. Another client that takes a minute between two actions can still name its frame.
const MAX_FRAMES: usize = 1024;

/// What a screenshot shows of the screen, and when it was taken.
#[derive(Clone, Debug)]
pub struct FrameRecord {
    pub(in crate::display) stamp: Stamp,
    pub(in crate::display) options: ScreenshotOptions,
    /// The region in screen pixels.
    pub region: Region,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

impl FrameRecord {
    /// Pixels of the picture per pixel of the screen.
    pub fn scale(&self) -> f64 {
        f64::from(self.width) / f64::from(self.region.width)
    }

    /// The position in the screen's content history.
    pub fn moment(&self) -> Moment {
        Moment { connection: self.stamp.connection, frame: self.stamp.frame }
    }

    /// Converts a point of the picture to screen pixels: the centre of a pixel becomes the centre of what it
    /// covers.
    ///
    /// # Errors
    /// `Invalid` when the point is not in the picture.
    pub fn to_screen(&self, x: f64, y: f64) -> Result<(f64, f64)> {
        let inside = |at: f64, side: u32| at >= 0.0 && at < f64::from(side);
        if !inside(x, self.width) || !inside(y, self.height) {
            let (width, height) = (self.width, self.height);
            let place = format_point(x, y);
            return Err(Error::invalid(format!("{place} is outside the frame of {width}x{height}")));
        }
        let map = |at: f64, side: u32, from: u16, length: u16| {
            let covered = f64::from(length) / f64::from(side);
            let at = (at + 0.5) * covered - 0.5;
            f64::from(from) + at.clamp(0.0, f64::from(length) - 1.0)
        };
        let (across, down) = (self.region.width, self.region.height);
        Ok((map(x, self.width, self.region.x, across), map(y, self.height, self.region.y, down)))
    }

    /// Converts a pixel of the screen to the pixel of the picture that shows it. Outside of the picture, the
    /// numbers continue.
    pub fn from_screen(&self, x: i32, y: i32) -> (i32, i32) {
        let map = |at: i32, side: u32, from: u16, length: u16| {
            let shown = f64::from(side) / f64::from(length);
            // Screens have at most some thousand pixels on a side.
            ((f64::from(at) - f64::from(from) + 0.5) * shown).floor() as i32
        };
        let (across, down) = (self.region.width, self.region.height);
        (map(x, self.width, self.region.x, across), map(y, self.height, self.region.y, down))
    }

    /// Converts a rectangle of the picture (x, y, width, height) to all pixels of the screen that it shows.
    ///
    /// # Errors
    /// `Invalid` when it is empty or not in the picture.
    pub fn region_to_screen(&self, [x, y, width, height]: [f64; 4]) -> Result<Region> {
        let inside = |from: f64, length: f64, side: u32| {
            from >= 0.0 && length > 0.0 && from + length <= f64::from(side)
        };
        if !inside(x, width, self.width) || !inside(y, height, self.height) {
            let (place, size) = (format_point(x, y), format_point(width, height));
            let (width, height) = (self.width, self.height);
            let message = format!("the part at {place} of {size} is not in the frame of {width}x{height}");
            return Err(Error::invalid(message));
        }
        let map = |from: f64, length: f64, side: u32, origin: u16, covered: u16| {
            let (scale, most) = (f64::from(covered) / f64::from(side), f64::from(covered));
            // Rounding must not leave the region.
            let first = (from * scale).floor().min(most - 1.0);
            let end = ((from + length) * scale).ceil().clamp(first + 1.0, most);
            (origin + first as u16, (end - first) as u16)
        };
        let (across, down) = (self.region.width, self.region.height);
        let (left, width) = map(x, width, self.width, self.region.x, across);
        let (top, height) = map(y, height, self.height, self.region.y, down);
        Ok(Region { x: left, y: top, width, height })
    }
}

/// Frames of one screen, oldest first. A name is a random prefix of this run and a consecutive number, so
/// that no frame of an earlier agent has the same name.
#[derive(Debug)]
pub(in crate::display) struct FrameHistory {
    run: u32,
    first: u64,
    records: VecDeque<FrameRecord>,
}

impl FrameHistory {
    pub(in crate::display) fn new() -> Self {
        Self { run: rand::random(), first: 1, records: VecDeque::new() }
    }

    /// Adds a frame and returns its name.
    pub(in crate::display) fn add(&mut self, record: FrameRecord) -> Arc<str> {
        if self.records.len() == MAX_FRAMES {
            self.records.pop_front();
            self.first += 1;
        }
        let number = self.first + self.records.len() as u64;
        self.records.push_back(record);
        format!("{:08x}-{number}", self.run).into()
    }

    /// The frame with this name; `None` when it is unknown or forgotten.
    pub(in crate::display) fn get(&self, name: &str) -> Option<&FrameRecord> {
        let (run, number) = name.split_once('-')?;
        let number: u64 = number.parse().ok()?;
        if format!("{:08x}-{number}", self.run) != name || run.len() != 8 {
            return None;
        }
        self.records.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }
}

/// The error for an unknown or forgotten frame.
pub(in crate::display) fn unknown(name: &str) -> Error {
    let name: String = name.chars().take(40).collect();
    Error::conflict(format!("Frame {name} is unknown or too old: take a new screenshot"))
        .code(ErrorCode::UnknownFrame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_wire::desktop::screenshot::ScreenshotQuery;

    fn record(region: &str, width: u32, height: u32) -> FrameRecord {
        let options = ScreenshotOptions::parse(&ScreenshotQuery::default()).unwrap();
        let stamp = Stamp { connection: 1, frame: 1, cursor: None };
        FrameRecord { stamp, options, region: region.parse().unwrap(), width, height }
    }

    #[test]
    fn places_in_a_frame_become_places_on_the_screen() {
        for (region, (width, height), (x, y), expected) in [
            ("0,0,800,600", (800, 600), (0.0, 0.0), (0.0, 0.0)),
            ("0,0,800,600", (800, 600), (799.0, 599.0), (799.0, 599.0)),
            ("0,0,800,600", (800, 600), (10.25, 20.5), (10.25, 20.5)),
            ("0,0,800,600", (400, 300), (0.0, 0.0), (0.5, 0.5)),
            ("0,0,800,600", (400, 300), (399.0, 299.0), (798.5, 598.5)),
            ("0,0,800,600", (400, 300), (399.9, 299.9), (799.0, 599.0)),
            ("100,50,200,100", (200, 100), (5.0, 6.0), (105.0, 56.0)),
            ("100,50,200,100", (50, 25), (1.0, 2.0), (105.5, 59.5)),
            ("7,8,1,1", (1, 1), (0.0, 0.0), (7.0, 8.0)),
            ("0,0,1000,10", (100, 1), (50.0, 0.0), (504.5, 4.5)),
        ] {
            let found = record(region, width, height).to_screen(x, y).unwrap();
            assert_eq!(found, expected, "{x},{y} of {width}x{height} of {region}");
        }
        let frame = record("0,0,800,600", 400, 300);
        for (x, y) in [(400.0, 0.0), (0.0, 300.0), (-0.1, 0.0), (f64::NAN, 0.0), (0.0, f64::INFINITY)] {
            assert!(frame.to_screen(x, y).is_err(), "{x},{y}");
        }
    }

    #[test]
    fn pixels_of_the_screen_become_pixels_of_a_frame() {
        for (region, (width, height), (x, y), expected) in [
            ("0,0,800,600", (800, 600), (0, 0), (0, 0)),
            ("0,0,800,600", (800, 600), (799, 599), (799, 599)),
            ("0,0,800,600", (400, 300), (0, 1), (0, 0)),
            ("0,0,800,600", (400, 300), (799, 599), (399, 299)),
            ("100,50,200,100", (200, 100), (105, 56), (5, 6)),
            ("100,50,200,100", (50, 25), (105, 60), (1, 2)),
            ("100,50,200,100", (200, 100), (0, 0), (-100, -50)),
            ("100,50,200,100", (50, 25), (99, 49), (-1, -1)),
        ] {
            let frame = record(region, width, height);
            assert_eq!(frame.from_screen(x, y), expected, "{x},{y} of {width}x{height} of {region}");
        }
        let frame = record("30,40,700,500", 350, 250);
        for (x, y) in [(0, 0), (13, 200), (349, 249)] {
            let (on_x, on_y) = frame.to_screen(f64::from(x), f64::from(y)).unwrap();
            assert_eq!(frame.from_screen(on_x as i32, on_y as i32), (x, y));
        }
    }

    #[test]
    fn parts_of_a_frame_become_regions_of_the_screen() {
        for (region, (width, height), part, expected) in [
            ("0,0,800,600", (800, 600), [0.0, 0.0, 800.0, 600.0], "0,0,800,600"),
            ("0,0,800,600", (400, 300), [0.0, 0.0, 400.0, 300.0], "0,0,800,600"),
            ("0,0,800,600", (400, 300), [10.0, 20.0, 30.0, 40.0], "20,40,60,80"),
            ("0,0,800,600", (400, 300), [10.25, 20.0, 0.5, 0.1], "20,40,2,1"),
            ("100,50,200,100", (50, 25), [1.0, 2.0, 3.0, 4.0], "104,58,12,16"),
            ("0,0,1000,10", (100, 1), [99.0, 0.0, 1.0, 1.0], "990,0,10,10"),
            ("7,8,1,1", (1, 1), [0.0, 0.0, 1.0, 1.0], "7,8,1,1"),
        ] {
            let found = record(region, width, height).region_to_screen(part).unwrap();
            assert_eq!(found.to_string(), expected, "{part:?} of {width}x{height} of {region}");
        }
        let frame = record("0,0,800,600", 400, 300);
        for bad in [
            [0.0, 0.0, 401.0, 300.0],
            [1.0, 0.0, 400.0, 300.0],
            [-1.0, 0.0, 2.0, 2.0],
            [0.0, 0.0, 0.0, 2.0],
            [0.0, 0.0, 1.0, f64::NAN],
        ] {
            assert!(frame.region_to_screen(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_newest_frames_are_known_by_their_names_alone() {
        let mut frames = FrameHistory::new();
        let names: Vec<_> =
            (1..=MAX_FRAMES as u32 + 10).map(|width| frames.add(record("0,0,9,9", width, 1))).collect();
        for (at, name) in names.iter().enumerate() {
            let width = frames.get(name).map(|record| record.width as usize);
            assert_eq!(width, (at >= 10).then_some(at + 1), "{name}");
        }
        let last = names.last().unwrap();
        for stranger in [
            "".to_owned(),
            "-".to_owned(),
            last.replace('-', "-0"),
            last.replace('-', "-+"),
            last.replace('-', ""),
            format!("{last}0"),
            format!("0{last}"),
            last.to_uppercase().replace(|c: char| c.is_ascii_hexdigit(), "g"),
            "99999999-99999999999999999999999999".to_owned(),
        ] {
            assert!(frames.get(&stranger).is_none(), "{stranger}");
        }
        assert!(FrameHistory::new().get(last).is_none());
        assert_eq!(unknown(last).code, Some(ErrorCode::UnknownFrame));
    }
}
