//! What can be seen of an action's effect? Which window had the keyboard before and after, and what was painted.

use std::time::{Duration, Instant};

use x11rb::cookie::Cookie;
use x11rb::protocol::xproto::{Atom, AtomEnum, ConnectionExt as _, GetPropertyReply, InputFocus, Window};

use super::changes::{Change, Moment};
use super::fault::{Fault, Outcome};
use super::link::Link;
use super::seat::Seat;

/// Longest title that is told, in units of four bytes: what a panel shows of it is far shorter.
const MOST_TITLE_WORDS: u32 = 64;

/// The names of properties that tell who has the keyboard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    active: Atom,
    manager: Atom,
    title: Atom,
    utf8: Atom,
}

impl Names {
    pub(super) fn ask(link: &Link) -> Outcome<Self> {
        let ask = |name: &[u8]| link.intern_atom(false, name);
        let (active, manager) = (ask(b"_NET_ACTIVE_WINDOW")?, ask(b"_NET_SUPPORTING_WM_CHECK")?);
        let (title, utf8) = (ask(b"_NET_WM_NAME")?, ask(b"UTF8_STRING")?);
        Ok(Self {
            active: active.reply()?.atom,
            manager: manager.reply()?.atom,
            title: title.reply()?.atom,
            utf8: utf8.reply()?.atom,
        })
    }
}

/// Who has the keyboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attention {
    /// The X id of the active window; where no window manager names one, of the window that has the input focus.
    pub window: Option<u32>,
    /// Its title.
    pub title: Option<String>,
}

/// What was seen of an action's effect until it was answered.
#[derive(Clone, Debug)]
pub struct Effect {
    /// Who had the keyboard before.
    pub before: Attention,
    /// Who has it now.
    pub after: Attention,
    /// What was painted meanwhile.
    pub change: Change,
    /// The moment before the action.
    pub since: Moment,
    /// How long it was looked at.
    pub took: Duration,
}

/// A value and what was seen while it came about.
#[derive(Clone, Debug)]
pub struct Observed<T> {
    /// What the action returned.
    pub value: T,
    /// What was seen.
    pub effect: Effect,
}

impl Seat {
    /// Does work and tells what could be seen of its effect.
    pub(super) fn observed<T>(&mut self, work: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<Observed<T>> {
        // Asked for in the same round trip.
        let pointer = self.link.query_pointer(self.root)?;
        let before = self.attention(self.last_active)?;
        self.buttons_down = u16::from(pointer.reply()?.mask);
        // The replies are a barrier: what was painted until now is in the events.
        self.read_events()?;
        let since = self.moment();
        let began = Instant::now();
        let value = work(self)?;
        let after = self.attention(before.window)?;
        self.last_active = after.window;
        self.read_events()?;
        let change = self.change_known_since(since);
        Ok(Observed { value, effect: Effect { before, after, change, since, took: began.elapsed() } })
    }

    /// The present moment, as far as events have been read.
    pub(super) fn moment(&self) -> Moment {
        Moment { seat: self.camera.number, frame: self.frame }
    }

    /// What was painted since a moment, up to now.
    pub(super) fn change_since(&mut self, since: Moment) -> Outcome<Change> {
        // A round trip: what was painted before it is in the events now.
        self.barrier()?;
        self.read_events()?;
        Ok(self.change_known_since(since))
    }

    /// What was painted since a moment, as far as events have been read.
    fn change_known_since(&self, since: Moment) -> Change {
        let now = self.moment();
        let areas = if since.seat == now.seat && self.damage.is_some() {
            self.changes.since(since.frame)
        } else {
            None
        };
        Change { now, known: areas.is_some(), areas: areas.unwrap_or_default() }
    }

    /// Who has the keyboard now. The title of the window that is `likely` to have it is asked for in the same round trip.
    pub(super) fn attention(&self, likely: Option<Window>) -> Outcome<Attention> {
        self.rearm();
        let active = self.link.get_property(false, self.root, self.names.active, AtomEnum::WINDOW, 0, 1)?;
        let focus = self.link.get_input_focus()?;
        let guess = likely.map(|window| self.ask_title(window)).transpose()?;
        let active = active.reply()?.value32().and_then(|mut ids| ids.next());
        let focus = focus.reply()?.focus;
        let window = match active {
            Some(x11rb::NONE) => None,
            Some(window) => Some(window),
            None => self.somebodys(focus)?,
        };
        let guess = guess.map(read_title).transpose()?;
        let title = match (window, guess) {
            (None, _) => None,
            (Some(_), Some(title)) if window == likely => title,
            (Some(window), _) => read_title(self.ask_title(window)?)?,
        };
        Ok(Attention { window, title })
    }

    /// The window that has the input focus, if it is a program's: a window manager without windows gives it to one of its own.
    fn somebodys(&self, focus: Window) -> Outcome<Option<Window>> {
        if focus <= u32::from(InputFocus::POINTER_ROOT) || focus == self.root {
            return Ok(None);
        }
        let own = self.link.get_property(false, self.root, self.names.manager, AtomEnum::WINDOW, 0, 1)?;
        let own = own.reply()?.value32().and_then(|mut ids| ids.next());
        Ok(Some(focus).filter(|_| own != Some(focus)))
    }

    fn ask_title(&self, window: Window) -> Outcome<Title<'_>> {
        let names = self.names;
        let ask =
            |name: Atom, kind: Atom| self.link.get_property(false, window, name, kind, 0, MOST_TITLE_WORDS);
        let modern = ask(names.title, names.utf8)?;
        let old = ask(AtomEnum::WM_NAME.into(), AtomEnum::STRING.into())?;
        Ok(Title { modern, old })
    }
}

/// A window's title, asked for.
struct Title<'a> {
    modern: Cookie<'a, Link, GetPropertyReply>,
    old: Cookie<'a, Link, GetPropertyReply>,
}

/// The title; none of a window that has none, or has gone meanwhile.
fn read_title(asked: Title<'_>) -> Outcome<Option<String>> {
    let read = |cookie: Cookie<'_, Link, GetPropertyReply>| match cookie.reply().map_err(Fault::from) {
        Ok(reply) => Ok(reply.value),
        Err(Fault::Refused(_)) => Ok(Vec::new()),
        Err(fault @ (Fault::Silent | Fault::Broken(_))) => Err(fault),
    };
    let (modern, old) = (read(asked.modern)?, read(asked.old)?);
    if !modern.is_empty() {
        return Ok(Some(String::from_utf8_lossy(&modern).into_owned()));
    }
    // STRING is Latin-1 (ICCCM 2.7.1).
    Ok((!old.is_empty()).then(|| old.iter().map(|byte| char::from(*byte)).collect()))
}
