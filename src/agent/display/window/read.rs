//! How are the windows of a screen read? All questions about all windows are sent before the first answer is waited
//! for, so that a list costs two round trips; a window that has gone meanwhile is left out.

use x11rb::cookie::Cookie;
use x11rb::protocol::res::{self, ClientIdMask, ClientIdSpec, ConnectionExt as _};
use x11rb::protocol::xproto::{
    self, AtomEnum, ConnectionExt as _, GetGeometryReply, GetPropertyReply, TranslateCoordinatesReply,
};

use super::super::fault::{Fault, Outcome};
use super::super::link::Link;
use super::super::seat::Seat;
use super::atoms::Atoms;
use super::id_text;
use hotdesk_wire::window::{Frame, Window};

/// Most windows that are listed: more than fit on any screen.
pub(in super::super) const MOST_WINDOWS: u32 = 256;
/// Longest title, class or instance that is read, in units of four bytes.
const MOST_TEXT: u32 = 1024;
/// Most states, and most types, of a window that are read; EWMH knows a dozen.
const MOST_ATOMS: u32 = 32;

/// The open questions about a window's title: what the program says in UTF-8, what the window manager made of what it
/// says otherwise, and that itself.
pub(in super::super) struct Title<'a>([Cookie<'a, Link, GetPropertyReply>; 3]);

impl<'a> Title<'a> {
    /// Sends the questions.
    pub(in super::super) fn ask(link: &'a Link, atoms: &Atoms, window: xproto::Window) -> Outcome<Self> {
        let property = |name| link.get_property(false, window, name, AtomEnum::ANY, 0, MOST_TEXT);
        let (told, shown) = (property(atoms._NET_WM_NAME)?, property(atoms._NET_WM_VISIBLE_NAME)?);
        Ok(Self([told, shown, property(AtomEnum::WM_NAME.into())?]))
    }

    /// Waits for the answers; the first that says anything counts.
    pub(in super::super) fn answer(self, atoms: &Atoms) -> Outcome<String> {
        let mut title = String::new();
        for told in self.0 {
            let told = told.reply()?;
            if title.is_empty() {
                title = text(&told, atoms);
            }
        }
        Ok(title)
    }
}

/// The open questions about one window.
struct Asked<'a> {
    window: xproto::Window,
    geometry: Cookie<'a, Link, GetGeometryReply>,
    place: Cookie<'a, Link, TranslateCoordinatesReply>,
    title: Title<'a>,
    class: Cookie<'a, Link, GetPropertyReply>,
    pid: Cookie<'a, Link, GetPropertyReply>,
    client: Option<Cookie<'a, Link, res::QueryClientIdsReply>>,
    states: Cookie<'a, Link, GetPropertyReply>,
    types: Cookie<'a, Link, GetPropertyReply>,
    desktop: Cookie<'a, Link, GetPropertyReply>,
    frame: Cookie<'a, Link, GetPropertyReply>,
}

impl Seat {
    /// The managed windows, the topmost first.
    pub(super) fn windows(&mut self, screen: &str) -> Outcome<Vec<Window>> {
        self.rearm();
        let atoms = Atoms::new(&self.link)?.reply()?;
        let knows_clients = !self.clients()?.is_empty();
        let property = |name, most| self.link.get_property(false, self.root, name, AtomEnum::WINDOW, 0, most);
        let list = property(atoms._NET_CLIENT_LIST_STACKING, MOST_WINDOWS)?;
        let active = property(atoms._NET_ACTIVE_WINDOW, 1)?;
        let ids: Vec<xproto::Window> = list.reply()?.value32().into_iter().flatten().collect();
        let active = active.reply()?.value32().and_then(|mut ids| ids.next()).unwrap_or(x11rb::NONE);
        self.rearm();
        let asked: Vec<Asked<'_>> =
            ids.iter().rev().map(|id| self.ask_about(&atoms, *id, knows_clients)).collect::<Outcome<_>>()?;
        let mut windows = Vec::with_capacity(asked.len());
        for asked in asked {
            self.rearm();
            let active = asked.window == active;
            if let Some(window) = optional(asked.answer(&atoms))? {
                // Window managers are slow to say that nothing is active any more.
                let focused = active && !window.minimized;
                windows.push(Window { focused, screen: screen.to_owned(), ..window });
            }
        }
        Ok(windows)
    }

    fn ask_about(&self, atoms: &Atoms, window: xproto::Window, knows_clients: bool) -> Outcome<Asked<'_>> {
        let link = &self.link;
        let property = |name: u32, most| link.get_property(false, window, name, AtomEnum::ANY, 0, most);
        let spec = ClientIdSpec { client: window, mask: ClientIdMask::LOCAL_CLIENT_PID };
        Ok(Asked {
            window,
            geometry: link.get_geometry(window)?,
            place: link.translate_coordinates(window, self.root, 0, 0)?,
            title: Title::ask(link, atoms, window)?,
            class: property(AtomEnum::WM_CLASS.into(), MOST_TEXT)?,
            pid: property(atoms._NET_WM_PID, 1)?,
            client: if knows_clients { Some(link.res_query_client_ids(&[spec])?) } else { None },
            states: property(atoms._NET_WM_STATE, MOST_ATOMS)?,
            types: property(atoms._NET_WM_WINDOW_TYPE, MOST_ATOMS)?,
            desktop: property(atoms._NET_WM_DESKTOP, 1)?,
            frame: property(atoms._NET_FRAME_EXTENTS, 4)?,
        })
    }
}

impl Asked<'_> {
    /// The record; whether it has the focus and on which screen it is is the caller's to know.
    fn answer(self, atoms: &Atoms) -> Outcome<Window> {
        let (geometry, place) = (self.geometry.reply()?, self.place.reply()?);
        let title = self.title.answer(atoms)?;
        let class = self.class.reply()?;
        let mut names = class.value.split(|byte| *byte == 0);
        let (instance, class) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
        let client = match self.client {
            // Servers answer for a window that has gone, or may not know: no reason to leave it out here.
            Some(client) => optional(client.reply().map_err(Fault::from))?,
            None => None,
        };
        let of_server = client.and_then(|reply| reply.ids.first()?.value.first().copied());
        let pid = numbers(&self.pid.reply()?).first().copied().or(of_server).filter(|pid| *pid > 0);
        let states = numbers(&self.states.reply()?);
        let has = |state: u32| states.contains(&state);
        let types = numbers(&self.types.reply()?);
        let frame = numbers(&self.frame.reply()?);
        let side = |at: usize| frame.get(at).copied().unwrap_or(0);
        Ok(Window {
            id: id_text(self.window),
            title,
            class: String::from_utf8_lossy(class).into_owned(),
            instance: String::from_utf8_lossy(instance).into_owned(),
            pid,
            screen: String::new(),
            x: place.dst_x.into(),
            y: place.dst_y.into(),
            width: geometry.width.into(),
            height: geometry.height.into(),
            frame: Frame { left: side(0), right: side(1), top: side(2), bottom: side(3) },
            focused: false,
            minimized: has(atoms._NET_WM_STATE_HIDDEN),
            maximized: has(atoms._NET_WM_STATE_MAXIMIZED_VERT) && has(atoms._NET_WM_STATE_MAXIMIZED_HORZ),
            fullscreen: has(atoms._NET_WM_STATE_FULLSCREEN),
            desktop: numbers(&self.desktop.reply()?).first().copied().filter(|number| *number != u32::MAX),
            kind: kind(&types, atoms).to_owned(),
        })
    }
}

pub(in super::super) fn numbers(property: &GetPropertyReply) -> Vec<u32> {
    property.value32().into_iter().flatten().collect()
}

/// A title; what is not marked as UTF-8 is Latin-1 (ICCCM 2.7.1). One that was cut may end in half a character.
fn text(property: &GetPropertyReply, atoms: &Atoms) -> String {
    if property.type_ == atoms.UTF8_STRING {
        let whole = String::from_utf8_lossy(&property.value);
        let cut = property.bytes_after > 0;
        if cut { whole.trim_end_matches('\u{fffd}').to_owned() } else { whole.into_owned() }
    } else {
        property.value.iter().map(|byte| char::from(*byte)).collect()
    }
}

/// The first type that is known; programs may name their own before it.
fn kind(types: &[u32], atoms: &Atoms) -> &'static str {
    let known = [
        (atoms._NET_WM_WINDOW_TYPE_NORMAL, "normal"),
        (atoms._NET_WM_WINDOW_TYPE_DIALOG, "dialog"),
        (atoms._NET_WM_WINDOW_TYPE_DOCK, "dock"),
        (atoms._NET_WM_WINDOW_TYPE_DESKTOP, "desktop"),
        (atoms._NET_WM_WINDOW_TYPE_SPLASH, "splash"),
        (atoms._NET_WM_WINDOW_TYPE_UTILITY, "utility"),
        (atoms._NET_WM_WINDOW_TYPE_MENU, "menu"),
        (atoms._NET_WM_WINDOW_TYPE_TOOLBAR, "toolbar"),
        (atoms._NET_WM_WINDOW_TYPE_NOTIFICATION, "notification"),
    ];
    let named = types.iter().find_map(|kind| known.iter().find(|(atom, _)| atom == kind));
    match named {
        Some((_, name)) => name,
        None if types.is_empty() => "normal",
        None => "other",
    }
}

/// An X error about one window only means that it has gone.
pub(in super::super) fn optional<T>(reply: Outcome<T>) -> Outcome<Option<T>> {
    match reply {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Refused(_)) => Ok(None),
        Err(fault @ (Fault::Silent | Fault::Broken(_))) => Err(fault),
    }
}
