//! Windows that a session shows first: its desktop, which has the wallpaper, and its panel.
//!
//! A screenshot without them shows an unfinished desktop. Programs set the background of a window before they
//! map it, so the wallpaper is drawn once its window is visible.

use std::time::{Duration, Instant};

use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, EventMask, MapState};

use super::atoms::EwmhAtoms;
use super::read::{MAX_ATOMS, MAX_WINDOWS, numbers, optional};
use crate::display::fault::{Fault, Outcome};
use crate::display::screen::x11_worker::{CancelCheck, X11Worker};

/// Longest wait for an event until the next check whether the request was cancelled.
const CANCEL_INTERVAL: Duration = Duration::from_millis(100);

/// The EWMH types of windows of these kinds, which are words. Unknown words are ignored.
fn window_types(kinds: &str, atoms: &EwmhAtoms) -> Vec<u32> {
    let known = [("desktop", atoms._NET_WM_WINDOW_TYPE_DESKTOP), ("dock", atoms._NET_WM_WINDOW_TYPE_DOCK)];
    let of = |kind| known.iter().find(|(name, _)| *name == kind).map(|(_, atom)| *atom);
    kinds.split_whitespace().filter_map(of).collect()
}

impl X11Worker {
    /// Waits until the screen shows a window of each of these kinds, `desktop` and `dock`. False when the timeout
    /// or the request ends first.
    pub(in crate::display) fn wait_for_windows(
        &mut self,
        kinds: &str,
        timeout: Duration,
        cancelled: CancelCheck<'_>,
    ) -> Outcome<bool> {
        self.rearm();
        let until = Instant::now() + timeout;
        let atoms = EwmhAtoms::new(&self.link)?.reply()?;
        let types = window_types(kinds, &atoms);
        // Before the first look, so that no change is lost in between.
        self.watch_root(
            EventMask::STRUCTURE_NOTIFY | EventMask::SUBSTRUCTURE_NOTIFY | EventMask::PROPERTY_CHANGE,
        )?;
        let shown = loop {
            self.rearm();
            let shown = self.shows_all(&types, &atoms)?;
            if shown || !self.wait_for_change(until, &atoms, cancelled)? {
                break shown;
            }
        };
        self.rearm();
        self.watch_root(EventMask::STRUCTURE_NOTIFY)?;
        Ok(shown)
    }

    /// Whether a visible window of each type is managed.
    fn shows_all(&self, types: &[u32], atoms: &EwmhAtoms) -> Outcome<bool> {
        let list = (atoms._NET_CLIENT_LIST, AtomEnum::WINDOW);
        let list = self.link.get_property(false, self.root, list.0, list.1, 0, MAX_WINDOWS)?.reply()?;
        let mut visible = Vec::new();
        for window in numbers(&list) {
            let attributes = self.link.get_window_attributes(window)?;
            let name = atoms._NET_WM_WINDOW_TYPE;
            let of_window = self.link.get_property(false, window, name, AtomEnum::ATOM, 0, MAX_ATOMS)?;
            let attributes = optional(attributes.reply().map_err(Fault::from))?;
            let of_window = optional(of_window.reply().map_err(Fault::from))?;
            if attributes.is_some_and(|it| it.map_state == MapState::VIEWABLE) {
                visible.extend(of_window.iter().flat_map(numbers));
            }
        }
        Ok(types.iter().all(|kind| visible.contains(kind)))
    }

    /// Waits for an event after which another window may be visible. False when the time or the request
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
                }
                Err(Fault::Silent) => {}
                Err(fault @ (Fault::Broken(_) | Fault::Refused(_))) => return Err(fault),
            }
        }
    }
}
