//! Reading of the windows and the active window, and reporting of differences.
//!
//! The window manager's lists count; without one, the X server's. All requests of a kind are sent before the
//! first reply is awaited.

use std::time::{Duration, Instant};

use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, MapState, Window, WindowClass,
};

use super::ScreenEvent;
use super::event_loop::EventLoop;
use crate::display::fault::{Fault, Outcome};
use crate::display::link::X_TIMEOUT;
use crate::display::window::id_text;
use crate::display::window::read::{MAX_WINDOWS, TitleQuery, numbers, optional};

/// Window managers name no active window for a moment between two. After this time the same window becoming
/// active again is an event.
const BLINK: Duration = Duration::from_millis(100);
/// Most levels below the root that are followed.
const MAX_NESTING: usize = 32;

impl EventLoop<'_> {
    /// Reads the windows and reports differences.
    pub(super) fn look(&mut self) -> Outcome<()> {
        let (listed, active) = self.present()?;
        let free = (MAX_WINDOWS as usize).saturating_sub(self.known.windows.len());
        let is_new = |window: &Window| !self.known.windows.contains_key(window);
        let new: Vec<Window> = listed.iter().copied().filter(is_new).take(free).collect();
        let unlisted: Vec<Window> =
            self.known.windows.keys().copied().filter(|window| !listed.contains(window)).collect();
        for window in self.find_gone(&unlisted)? {
            self.forget(window);
        }
        for window in &new {
            self.observe(*window)?;
        }
        for (window, title) in self.titles(&new)? {
            if self.known.reports_existing {
                (self.callback)(ScreenEvent::Opened { id: id_text(window), title: title.clone() });
            }
            self.known.windows.insert(window, title);
        }
        self.retitle()?;
        self.focus(active)
    }

    /// Subscribes to events of a window.
    pub(super) fn observe(&self, window: Window) -> Outcome<()> {
        let mask = EventMask::STRUCTURE_NOTIFY | EventMask::PROPERTY_CHANGE | EventMask::FOCUS_CHANGE;
        let look = ChangeWindowAttributesAux::new().event_mask(mask);
        // An error arrives later as an event and means that the window is gone.
        self.link.change_window_attributes(window, &look)?;
        Ok(())
    }

    /// Reports that a window is gone.
    pub(super) fn forget(&mut self, window: Window) {
        self.retitled.remove(&window);
        if self.known.windows.remove(&window).is_some() {
            (self.callback)(ScreenEvent::Closed { id: id_text(window) });
        }
        if self.known.active == Some(window) {
            self.known.active = None;
        }
    }

    /// The visible windows and the active one.
    fn present(&mut self) -> Outcome<(Vec<Window>, Option<Window>)> {
        self.deadline.allow(X_TIMEOUT);
        let (link, atoms) = (&self.link, &self.atoms);
        let ask = |window, name, most| link.get_property(false, window, name, AtomEnum::WINDOW, 0, most);
        let list = ask(self.root, atoms._NET_CLIENT_LIST, MAX_WINDOWS)?;
        let active = ask(self.root, atoms._NET_ACTIVE_WINDOW, 1)?;
        let manager = ask(self.root, atoms._NET_SUPPORTING_WM_CHECK, 1)?;
        let (mut list, active) = (numbers(&list.reply()?), numbers(&active.reply()?));
        // A killed window manager leaves its properties, but not its window (EWMH,
        // `_NET_SUPPORTING_WM_CHECK`).
        self.managed = match numbers(&manager.reply()?).first() {
            None => false,
            Some(window) => {
                let itself = ask(*window, atoms._NET_SUPPORTING_WM_CHECK, 1)?.reply().map_err(Fault::from);
                optional(itself)?.is_some_and(|itself| numbers(&itself).first() == Some(window))
            }
        };
        if self.managed {
            let active = active.first().copied().filter(|window| *window != x11rb::NONE);
            // Some managers name a new window as active before they list it. This adds it, so that it opens
            // before it gets the focus.
            list.extend(active.filter(|window| !list.contains(window)));
            return Ok((list, active));
        }
        Ok((self.children()?, self.focused()?))
    }

    /// The visible windows without a window manager.
    fn children(&self) -> Outcome<Vec<Window>> {
        let link = &self.link;
        let mut children = link.query_tree(self.root)?.reply()?.children;
        children.truncate(MAX_WINDOWS as usize);
        let pending: Vec<_> = children
            .into_iter()
            .map(|window| Ok((window, link.get_window_attributes(window)?)))
            .collect::<Outcome<_>>()?;
        let mut shown = Vec::new();
        for (window, pending) in pending {
            let attributes = optional(pending.reply().map_err(Fault::from))?;
            if attributes.is_some_and(|it| {
                !it.override_redirect
                    && it.map_state == MapState::VIEWABLE
                    && it.class == WindowClass::INPUT_OUTPUT
            }) {
                shown.push(window);
            }
        }
        Ok(shown)
    }

    /// The child of the root that has the keyboard.
    fn focused(&self) -> Outcome<Option<Window>> {
        let mut window = self.link.get_input_focus()?.reply()?.focus;
        let pointer_root = u32::from(x11rb::protocol::xproto::InputFocus::POINTER_ROOT);
        if [x11rb::NONE, pointer_root, self.root].contains(&window) {
            return Ok(None);
        }
        for _ in 0..MAX_NESTING {
            let tree = optional(self.link.query_tree(window)?.reply().map_err(Fault::from))?;
            match tree {
                Some(tree) if tree.parent == self.root => return Ok(Some(window)),
                Some(tree) if tree.parent != x11rb::NONE => window = tree.parent,
                Some(_) | None => break,
            }
        }
        Ok(None)
    }

    /// The windows among `unlisted` that are gone. A window manager that ends lists nothing, but leaves the
    /// windows on the screen.
    fn find_gone(&self, unlisted: &[Window]) -> Outcome<Vec<Window>> {
        self.deadline.allow(X_TIMEOUT);
        let pending: Vec<_> = unlisted
            .iter()
            .map(|window| Ok((*window, self.link.get_window_attributes(*window)?)))
            .collect::<Outcome<_>>()?;
        let mut gone = Vec::new();
        for (window, pending) in pending {
            let attributes = optional(pending.reply().map_err(Fault::from))?;
            if attributes.is_none_or(|it| it.map_state == MapState::UNMAPPED) {
                gone.push(window);
            }
        }
        Ok(gone)
    }

    /// The titles of those windows that still exist.
    fn titles(&self, windows: &[Window]) -> Outcome<Vec<(Window, String)>> {
        self.deadline.allow(X_TIMEOUT);
        let ask = |window: &Window| Ok((*window, TitleQuery::send(&self.link, &self.atoms, *window)?));
        let pending: Vec<_> = windows.iter().map(ask).collect::<Outcome<_>>()?;
        let mut titles = Vec::new();
        for (window, pending) in pending {
            if let Some(title) = optional(pending.answer(&self.atoms))? {
                titles.push((window, title));
            }
        }
        Ok(titles)
    }

    fn retitle(&mut self) -> Outcome<()> {
        let known = |window: &Window| self.known.windows.contains_key(window);
        let changed: Vec<Window> = self.retitled.iter().copied().filter(known).collect();
        let titles = self.titles(&changed)?;
        self.retitled.clear();
        for (window, title) in titles {
            let before = self.known.windows.insert(window, title.clone());
            if self.known.reports_existing && before.as_ref() != Some(&title) {
                (self.callback)(ScreenEvent::TitleChanged { id: id_text(window), title });
            }
        }
        Ok(())
    }

    fn focus(&mut self, active: Option<Window>) -> Outcome<()> {
        let Some(window) = active else {
            self.unfocused.get_or_insert_with(Instant::now);
            return Ok(());
        };
        let again = self.unfocused.take().is_some_and(|since| since.elapsed() >= BLINK);
        if self.known.active == Some(window) && !again {
            return Ok(());
        }
        let title = match self.known.windows.get(&window) {
            Some(title) => title.clone(),
            None => match self.titles(&[window])?.pop() {
                Some((_, title)) => title,
                None => return Ok(()),
            },
        };
        self.known.active = Some(window);
        if self.known.reports_existing {
            (self.callback)(ScreenEvent::Focused { id: id_text(window), title });
        }
        Ok(())
    }
}
