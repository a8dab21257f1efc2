//! Windows that a session shows first: its desktop, which has the wallpaper, and its panel.
//!
//! A screenshot without them shows an unfinished desktop. The desktop sets its wallpaper as the background of its window before it
//! maps it, so it is drawn once its window is visible. A panel paints after that, so it is drawn once it has more than one color.

use std::time::{Duration, Instant};

use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, EventMask, ImageFormat, MapState, Window};

use super::atoms::EwmhAtoms;
use super::read::{MAX_ATOMS, MAX_WINDOWS, numbers, optional};
use crate::display::fault::{Fault, Outcome};
use crate::display::screen::x11_worker::{CancelCheck, X11Worker};

/// Longest wait for an event until the next check whether the request was cancelled.
const CANCEL_INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait for a visible panel to be painted: one of a single color never shows that it is.
const PAINT_TIMEOUT: Duration = Duration::from_secs(1);
/// Rows of a panel that are read: enough for its icons and texts. It bounds the picture of a panel as large as the screen.
const PANEL_ROWS: u16 = 64;

/// How far the windows are that a session shows first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Missing,
    Visible,
    Drawn,
}

/// The EWMH types of windows of these kinds, which are words. Unknown words are ignored.
fn window_types(kinds: &str, atoms: &EwmhAtoms) -> Vec<u32> {
    let known = [("desktop", atoms._NET_WM_WINDOW_TYPE_DESKTOP), ("dock", atoms._NET_WM_WINDOW_TYPE_DOCK)];
    let of = |kind| known.iter().find(|(name, _)| *name == kind).map(|(_, atom)| *atom);
    kinds.split_whitespace().filter_map(of).collect()
}

impl X11Worker {
    /// Waits until the screen shows a window of each of these kinds, `desktop` and `dock`, and the docks are painted. False when the
    /// timeout or the request ends before all are visible.
    pub(in crate::display) fn wait_for_windows(
        &mut self,
        kinds: &str,
        timeout: Duration,
        cancelled: CancelCheck<'_>,
    ) -> Outcome<bool> {
        self.rearm();
        let until = Instant::now() + timeout;
        let mut paint_until = until;
        let atoms = EwmhAtoms::new(&self.link)?.reply()?;
        let types = window_types(kinds, &atoms);
        // Before the first look, so that no change is lost in between.
        self.watch_root(
            EventMask::STRUCTURE_NOTIFY | EventMask::SUBSTRUCTURE_NOTIFY | EventMask::PROPERTY_CHANGE,
        )?;
        let mut last = Progress::Missing;
        let shown = loop {
            self.rearm();
            let progress = self.progress_of(&types, &atoms)?;
            match (last, progress) {
                (_, Progress::Missing) => paint_until = until,
                (Progress::Missing, _) => paint_until = until.min(Instant::now() + PAINT_TIMEOUT),
                (Progress::Visible | Progress::Drawn, _) => {}
            }
            last = progress;
            if progress == Progress::Drawn || !self.wait_for_change(paint_until, &atoms, cancelled)? {
                break progress != Progress::Missing;
            }
        };
        self.rearm();
        self.watch_root(EventMask::STRUCTURE_NOTIFY)?;
        Ok(shown)
    }

    /// Whether a visible window of each type is managed, and the docks among them are painted.
    fn progress_of(&self, types: &[u32], atoms: &EwmhAtoms) -> Outcome<Progress> {
        let list = (atoms._NET_CLIENT_LIST, AtomEnum::WINDOW);
        let list = self.link.get_property(false, self.root, list.0, list.1, 0, MAX_WINDOWS)?.reply()?;
        let mut visible = Vec::new();
        let mut are_painted = true;
        for window in numbers(&list) {
            let attributes = self.link.get_window_attributes(window)?;
            let name = atoms._NET_WM_WINDOW_TYPE;
            let of_window = self.link.get_property(false, window, name, AtomEnum::ATOM, 0, MAX_ATOMS)?;
            let attributes = optional(attributes.reply().map_err(Fault::from))?;
            let of_window = optional(of_window.reply().map_err(Fault::from))?;
            if attributes.is_some_and(|it| it.map_state == MapState::VIEWABLE) {
                let before = visible.len();
                visible.extend(of_window.iter().flat_map(numbers));
                let dock = atoms._NET_WM_WINDOW_TYPE_DOCK;
                if types.contains(&dock) && visible[before..].contains(&dock) {
                    are_painted &= self.has_colors(window)?;
                }
            }
        }
        Ok(match (types.iter().all(|kind| visible.contains(kind)), are_painted) {
            (false, _) => Progress::Missing,
            (true, false) => Progress::Visible,
            (true, true) => Progress::Drawn,
        })
    }

    /// Whether a window shows more than one color. True for one that cannot be read, because a part of it is outside of the screen.
    fn has_colors(&self, window: Window) -> Outcome<bool> {
        let size = optional(self.link.get_geometry(window)?.reply().map_err(Fault::from))?;
        let Some(size) = size else { return Ok(true) };
        let rows = size.height.min(PANEL_ROWS);
        let picture = self.link.get_image(ImageFormat::Z_PIXMAP, window, 0, 0, size.width, rows, !0)?;
        let picture = optional(picture.reply().map_err(Fault::from))?;
        Ok(picture.is_none_or(|picture| has_colors(&picture.data)))
    }

    /// Waits for an event after which another window may be visible or painted. False when the time or the request
    /// ended.
    fn wait_for_change(
        &mut self,
        until: Instant,
        atoms: &EwmhAtoms,
        cancelled: CancelCheck<'_>,
    ) -> Outcome<bool> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || cancelled() {
                return Ok(false);
            }
            self.deadline.allow(left.min(CANCEL_INTERVAL));
            match self.link.wait_for_event().map_err(Fault::from) {
                Ok(Event::MapNotify(_)) => return Ok(true),
                Ok(Event::PropertyNotify(change)) if change.atom == atoms._NET_CLIENT_LIST => {
                    return Ok(true);
                }
                Ok(event) => {
                    self.rearm();
                    self.handle_event(&event)?;
                    if matches!(event, Event::DamageNotify(_)) {
                        return Ok(true);
                    }
                }
                Err(Fault::Silent) => {}
                Err(fault @ (Fault::Broken(_) | Fault::Refused(_))) => return Err(fault),
            }
        }
    }
}

/// Whether pixels of 4 bytes differ in color. The fourth byte is unused.
fn has_colors(pixels: &[u8]) -> bool {
    let mut colors = pixels.chunks_exact(4).map(|pixel| &pixel[..3]);
    let first = colors.next();
    colors.any(|color| Some(color) != first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_one_color_is_told_apart() {
        for (pixels, expected) in [
            (&[][..], false),
            (&[1, 2, 3, 0], false),
            (&[1, 2, 3, 0, 1, 2, 3, 255], false),
            (&[1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 4, 0], true),
        ] {
            assert_eq!(has_colors(pixels), expected, "{pixels:?}");
        }
    }
}
