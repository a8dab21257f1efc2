//! Visible effect of an action: the focused window before and after, and the painted areas.

use std::time::{Duration, Instant};

use x11rb::cookie::Cookie;
use x11rb::protocol::xproto::{Atom, AtomEnum, ConnectionExt as _, GetPropertyReply, InputFocus, Window};

use crate::display::damage_history::{Moment, PaintedChange};
use crate::display::fault::{Fault, Outcome};
use crate::display::link::Link;
use crate::display::screen::x11_worker::X11Worker;

/// Longest title that is read, in units of four bytes.
const MAX_TITLE_UNITS: u32 = 64;

/// The window that has the keyboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FocusedWindow {
    /// X id of the active window. Where no window manager names one, the window with the input focus.
    pub window: Option<u32>,
    /// Its title.
    pub title: Option<String>,
}

/// Visible effect of an action until its response.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The focused window before the action.
    pub before: FocusedWindow,
    /// The focused window after it.
    pub after: FocusedWindow,
    /// The areas painted meanwhile.
    pub change: PaintedChange,
    /// Position in the screen's content history before the action.
    pub since: Moment,
    /// How long the action was observed.
    pub took: Duration,
}

/// Result of an action and its visible effect.
#[derive(Clone, Debug)]
pub struct Observation<T> {
    /// Result of the action.
    pub value: T,
    /// Its visible effect.
    pub effect: Effect,
}

impl X11Worker {
    /// Reads the focus and the pointer before an action. This is the action's barrier: all requests share one
    /// round trip.
    pub(super) fn look_before(&mut self) -> Outcome<FocusedWindow> {
        if self.is_silent() {
            self.check_responsive()?;
        }
        self.rearm();
        let pointer = self.link.query_pointer(self.root)?;
        let question = pointer.sequence_number();
        let before = match self.focused_window(self.last_active) {
            Ok(before) => before,
            Err(Fault::Silent) => {
                // Dropping the cookie would discard the reply, for which the next job waits.
                std::mem::forget(pointer);
                self.note_silence(question);
                return Err(Fault::Silent);
            }
            Err(fault @ (Fault::Refused(_) | Fault::Broken(_))) => return Err(fault),
        };
        self.buttons_down = u16::from(pointer.reply()?.mask);
        // The replies are a barrier: events of everything painted so far have arrived.
        self.read_events()?;
        Ok(before)
    }

    /// Runs `work` and observes its visible effect; `before` is the result of [`Self::look_before`].
    pub(super) fn observe<T>(
        &mut self,
        before: FocusedWindow,
        work: impl FnOnce(&mut Self) -> Outcome<T>,
    ) -> Outcome<Observation<T>> {
        let since = self.moment();
        let began = Instant::now();
        let value = work(self)?;
        let after = self.focused_window(before.window)?;
        self.last_active = after.window;
        self.read_events()?;
        let change = self.change_known_since(since);
        Ok(Observation { value, effect: Effect { before, after, change, since, took: began.elapsed() } })
    }

    /// The current position in the content history, from the events read so far.
    pub(super) fn moment(&self) -> Moment {
        Moment { connection: self.capture_state.number, frame: self.frame }
    }

    /// The areas painted since a position, up to now.
    pub(super) fn change_since(&mut self, since: Moment) -> Outcome<PaintedChange> {
        // The round trip brings the events of everything painted before it.
        self.barrier()?;
        self.read_events()?;
        Ok(self.change_known_since(since))
    }

    /// The areas painted since a position, from the events read so far.
    fn change_known_since(&self, since: Moment) -> PaintedChange {
        let now = self.moment();
        let areas = if since.connection == now.connection && self.damage.is_some() {
            self.damage_history.since(since.frame)
        } else {
            None
        };
        PaintedChange { now, known: areas.is_some(), areas: areas.unwrap_or_default() }
    }

    /// The focused window. The title of the `likely` window is requested in the same round trip.
    pub(super) fn focused_window(&self, likely: Option<Window>) -> Outcome<FocusedWindow> {
        self.rearm();
        let active =
            self.link.get_property(false, self.root, self.focus_atoms.active, AtomEnum::WINDOW, 0, 1)?;
        let focus = self.link.get_input_focus()?;
        let guess = likely.map(|window| self.send_title_query(window)).transpose()?;
        let active = active.reply()?.value32().and_then(|mut ids| ids.next());
        let focus = focus.reply()?.focus;
        let window = match active {
            Some(x11rb::NONE) => None,
            Some(window) => Some(window),
            None => self.focused_program_window(focus)?,
        };
        let guess = guess.map(read_title).transpose()?;
        let title = match (window, guess) {
            (None, _) => None,
            (Some(_), Some(title)) if window == likely => title,
            (Some(window), _) => read_title(self.send_title_query(window)?)?,
        };
        Ok(FocusedWindow { window, title })
    }

    /// The window with the input focus, if it belongs to a program. A window manager without windows gives
    /// the focus to a window of its own.
    fn focused_program_window(&self, focus: Window) -> Outcome<Option<Window>> {
        if focus <= u32::from(InputFocus::POINTER_ROOT) || focus == self.root {
            return Ok(None);
        }
        let own =
            self.link.get_property(false, self.root, self.focus_atoms.manager, AtomEnum::WINDOW, 0, 1)?;
        let own = own.reply()?.value32().and_then(|mut ids| ids.next());
        Ok(Some(focus).filter(|_| own != Some(focus)))
    }

    fn send_title_query(&self, window: Window) -> Outcome<FocusTitleQuery<'_>> {
        let atoms = self.focus_atoms;
        let ask =
            |name: Atom, kind: Atom| self.link.get_property(false, window, name, kind, 0, MAX_TITLE_UNITS);
        let modern = ask(atoms.title, atoms.utf8)?;
        let old = ask(AtomEnum::WM_NAME.into(), AtomEnum::STRING.into())?;
        Ok(FocusTitleQuery { modern, old })
    }
}

/// Pending requests for a window's title.
struct FocusTitleQuery<'a> {
    modern: Cookie<'a, Link, GetPropertyReply>,
    old: Cookie<'a, Link, GetPropertyReply>,
}

/// The title; `None` when the window has none or is gone.
fn read_title(query: FocusTitleQuery<'_>) -> Outcome<Option<String>> {
    let read = |cookie: Cookie<'_, Link, GetPropertyReply>| match cookie.reply().map_err(Fault::from) {
        Ok(reply) => Ok(reply.value),
        Err(Fault::Refused(_)) => Ok(Vec::new()),
        Err(fault @ (Fault::Silent | Fault::Broken(_))) => Err(fault),
    };
    let (modern, old) = (read(query.modern)?, read(query.old)?);
    if !modern.is_empty() {
        return Ok(Some(String::from_utf8_lossy(&modern).into_owned()));
    }
    // STRING is Latin-1 (ICCCM 2.7.1).
    Ok((!old.is_empty()).then(|| old.iter().map(|byte| char::from(*byte)).collect()))
}
