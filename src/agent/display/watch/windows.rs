//! Which windows are there, and which is active? As the window manager tells, and without one as the server does. All
//! questions of a kind are sent before the first answer is waited for.

use std::time::{Duration, Instant};

use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, MapState, Window, WindowClass,
};

use super::super::fault::{Fault, Outcome};
use super::super::seat::X_TIMEOUT;
use super::super::windows::id_text;
use super::super::windows::read::{MOST_WINDOWS, Title, numbers, optional};
use super::Sign;
use super::eye::Eye;

/// Window managers name no active window for a moment between two. When none was active for this long, the same window
/// becoming active again is news.
const BLINK: Duration = Duration::from_millis(100);
/// Deepest nesting of a window below the root that is followed.
const MAX_NESTING: usize = 32;

impl Eye<'_> {
    /// Looks at the windows and tells what is different.
    pub(super) fn look(&mut self) -> Outcome<()> {
        let (listed, active) = self.present()?;
        let room = (MOST_WINDOWS as usize).saturating_sub(self.known.windows.len());
        let is_new = |window: &Window| !self.known.windows.contains_key(window);
        let new: Vec<Window> = listed.iter().copied().filter(is_new).take(room).collect();
        let unlisted: Vec<Window> =
            self.known.windows.keys().copied().filter(|window| !listed.contains(window)).collect();
        for window in self.gone(&unlisted)? {
            self.forget(window);
        }
        for window in &new {
            self.observe(*window)?;
        }
        for (window, title) in self.titles(&new)? {
            if self.known.begun {
                (self.tell)(Sign::Opened { id: id_text(window), title: title.clone() });
            }
            self.known.windows.insert(window, title);
        }
        self.retitle()?;
        self.focus(active)
    }

    /// Asks the server to tell of changes of a window.
    pub(super) fn observe(&self, window: Window) -> Outcome<()> {
        let mask = EventMask::STRUCTURE_NOTIFY | EventMask::PROPERTY_CHANGE | EventMask::FOCUS_CHANGE;
        let look = ChangeWindowAttributesAux::new().event_mask(mask);
        // An error would come later, as an event: the window has gone.
        self.link.change_window_attributes(window, &look)?;
        Ok(())
    }

    /// A window is gone.
    pub(super) fn forget(&mut self, window: Window) {
        self.retitled.remove(&window);
        if self.known.windows.remove(&window).is_some() {
            (self.tell)(Sign::Closed { id: id_text(window) });
        }
        if self.known.active == Some(window) {
            self.known.active = None;
        }
    }

    /// The windows that are to be seen, and the active one.
    fn present(&mut self) -> Outcome<(Vec<Window>, Option<Window>)> {
        self.deadline.allow(X_TIMEOUT);
        let (link, atoms) = (&self.link, &self.atoms);
        let ask = |window, name, most| link.get_property(false, window, name, AtomEnum::WINDOW, 0, most);
        let list = ask(self.root, atoms._NET_CLIENT_LIST, MOST_WINDOWS)?;
        let active = ask(self.root, atoms._NET_ACTIVE_WINDOW, 1)?;
        let manager = ask(self.root, atoms._NET_SUPPORTING_WM_CHECK, 1)?;
        let (mut list, active) = (numbers(&list.reply()?), numbers(&active.reply()?));
        // One that was killed leaves its properties, but not its window (EWMH, _NET_SUPPORTING_WM_CHECK).
        self.managed = match numbers(&manager.reply()?).first() {
            None => false,
            Some(window) => {
                let itself = ask(*window, atoms._NET_SUPPORTING_WM_CHECK, 1)?.reply().map_err(Fault::from);
                optional(itself)?.is_some_and(|itself| numbers(&itself).first() == Some(window))
            }
        };
        if self.managed {
            let active = active.first().copied().filter(|window| *window != x11rb::NONE);
            // Some managers name a new window as the active one before they list it: it is opened first, then focused.
            list.extend(active.filter(|window| !list.contains(window)));
            return Ok((list, active));
        }
        Ok((self.children()?, self.focused()?))
    }

    /// What programs show on a screen without a window manager.
    fn children(&self) -> Outcome<Vec<Window>> {
        let link = &self.link;
        let mut children = link.query_tree(self.root)?.reply()?.children;
        children.truncate(MOST_WINDOWS as usize);
        let asked: Vec<_> = children
            .into_iter()
            .map(|window| Ok((window, link.get_window_attributes(window)?)))
            .collect::<Outcome<_>>()?;
        let mut shown = Vec::new();
        for (window, asked) in asked {
            let attributes = optional(asked.reply().map_err(Fault::from))?;
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

    /// Which of these, that are not listed any more, are gone. A window manager that ends lists nothing, but leaves the
    /// windows on the screen.
    fn gone(&self, unlisted: &[Window]) -> Outcome<Vec<Window>> {
        self.deadline.allow(X_TIMEOUT);
        let asked: Vec<_> = unlisted
            .iter()
            .map(|window| Ok((*window, self.link.get_window_attributes(*window)?)))
            .collect::<Outcome<_>>()?;
        let mut gone = Vec::new();
        for (window, asked) in asked {
            let attributes = optional(asked.reply().map_err(Fault::from))?;
            if attributes.is_none_or(|it| it.map_state == MapState::UNMAPPED) {
                gone.push(window);
            }
        }
        Ok(gone)
    }

    /// The titles of those windows that are still there.
    fn titles(&self, windows: &[Window]) -> Outcome<Vec<(Window, String)>> {
        self.deadline.allow(X_TIMEOUT);
        let ask = |window: &Window| Ok((*window, Title::ask(&self.link, &self.atoms, *window)?));
        let asked: Vec<_> = windows.iter().map(ask).collect::<Outcome<_>>()?;
        let mut titles = Vec::new();
        for (window, asked) in asked {
            if let Some(title) = optional(asked.answer(&self.atoms))? {
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
            if self.known.begun && before.as_ref() != Some(&title) {
                (self.tell)(Sign::Titled { id: id_text(window), title });
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
        if self.known.begun {
            (self.tell)(Sign::Focused { id: id_text(window), title });
        }
        Ok(())
    }
}
