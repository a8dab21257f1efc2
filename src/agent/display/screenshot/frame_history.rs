//! Which pictures were given out lately? An action that quotes one means its pixels.

use std::collections::VecDeque;
use std::sync::Arc;

use super::cache::Stamp;
use super::changes::Moment;
use super::form::Form;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::pointer::shown_place;
use hotdesk_domain::region::Region;

/// Frames remembered per screen, 150 bytes each: what a client that looks ten times a second sees in 100 seconds, so
/// that one that thinks for a minute beside it can still quote its own.
const MOST_FRAMES: usize = 1024;

/// A picture that was given out: what of the screen it shows, and when.
#[derive(Clone, Debug)]
pub struct Taken {
    pub(super) stamp: Stamp,
    pub(super) form: Form,
    /// What it shows, in screen pixels.
    pub region: Region,
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
}

impl Taken {
    /// The factor between screen and picture.
    pub fn scale(&self) -> f64 {
        f64::from(self.width) / f64::from(self.region.width)
    }

    /// When it was taken.
    pub fn moment(&self) -> Moment {
        Moment { seat: self.stamp.seat, frame: self.stamp.frame }
    }

    /// The place on the screen that a place in the picture shows: a pixel's middle becomes the middle of what it covers.
    ///
    /// # Errors
    /// `Invalid` when the place is not in the picture.
    pub fn place(&self, x: f64, y: f64) -> Result<(f64, f64)> {
        let inside = |at: f64, side: u32| at >= 0.0 && at < f64::from(side);
        if !inside(x, self.width) || !inside(y, self.height) {
            let (width, height) = (self.width, self.height);
            let place = shown_place(x, y);
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
}

/// The frames of one screen, oldest first. Their names are numbers in a row behind a word of this run, so that none of
/// an earlier agent's is taken for one of these.
#[derive(Debug)]
pub(super) struct Frames {
    run: u32,
    first: u64,
    kept: VecDeque<Taken>,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self { run: rand::random(), first: 1, kept: VecDeque::new() }
    }

    /// Remembers a picture and names it.
    pub(super) fn add(&mut self, taken: Taken) -> Arc<str> {
        if self.kept.len() == MOST_FRAMES {
            self.kept.pop_front();
            self.first += 1;
        }
        let number = self.first + self.kept.len() as u64;
        self.kept.push_back(taken);
        format!("{:08x}-{number}", self.run).into()
    }

    /// The picture of this name, if it is remembered.
    pub(super) fn get(&self, name: &str) -> Option<&Taken> {
        let (run, number) = name.split_once('-')?;
        let number: u64 = number.parse().ok()?;
        if format!("{:08x}-{number}", self.run) != name || run.len() != 8 {
            return None;
        }
        self.kept.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }
}

/// What a client hears whose frame is not remembered.
pub(super) fn unknown(name: &str) -> Error {
    let name: String = name.chars().take(40).collect();
    Error::conflict(format!("Frame {name} is not known any more: take a new screenshot"))
        .code("unknown_frame")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_wire::screenshot::ScreenshotQuery;

    fn taken(region: &str, width: u32, height: u32) -> Taken {
        let form = Form::parse(&ScreenshotQuery::default()).unwrap();
        let stamp = Stamp { seat: 1, frame: 1, cursor: None };
        Taken { stamp, form, region: region.parse().unwrap(), width, height }
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
            let found = taken(region, width, height).place(x, y).unwrap();
            assert_eq!(found, expected, "{x},{y} of {width}x{height} of {region}");
        }
        let frame = taken("0,0,800,600", 400, 300);
        for (x, y) in [(400.0, 0.0), (0.0, 300.0), (-0.1, 0.0), (f64::NAN, 0.0), (0.0, f64::INFINITY)] {
            assert!(frame.place(x, y).is_err(), "{x},{y}");
        }
    }

    #[test]
    fn the_newest_frames_are_known_by_their_names_alone() {
        let mut frames = Frames::new();
        let names: Vec<_> =
            (1..=MOST_FRAMES as u32 + 10).map(|width| frames.add(taken("0,0,9,9", width, 1))).collect();
        for (at, name) in names.iter().enumerate() {
            let width = frames.get(name).map(|taken| taken.width as usize);
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
        assert!(Frames::new().get(last).is_none());
        assert_eq!(unknown(last).code, Some("unknown_frame"));
    }
}
