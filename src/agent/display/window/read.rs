//! Reading of the managed windows.
//!
//! All requests for all windows are sent before the first reply is awaited, so a list costs two round trips.
//! Windows that are gone meanwhile are left out.

use x11rb::cookie::Cookie;
use x11rb::protocol::res::{self, ClientIdMask, ClientIdSpec, ConnectionExt as _};
use x11rb::protocol::xproto::{
    self, AtomEnum, ConnectionExt as _, GetGeometryReply, GetPropertyReply, TranslateCoordinatesReply,
};

use super::atoms::EwmhAtoms;
use super::id_text;
use crate::display::fault::{Fault, Outcome};
use crate::display::link::Link;
use crate::display::screen::x11_worker::X11Worker;
use hotdesk_wire::desktop::window::{Frame, Window};

/// Most windows in a list.
pub(in crate::display) const MAX_WINDOWS: u32 = 256;
/// Longest title, class or instance, in units of four bytes.
const MAX_TEXT: u32 = 1024;
/// Most states and types of a window that are read; EWMH defines a dozen of each.
pub(super) const MAX_ATOMS: u32 = 32;

/// Pending requests for a window's title: the program's UTF-8 title, the window manager's version of it, and
/// the legacy title.
pub(in crate::display) struct TitleQuery<'a>([Cookie<'a, Link, GetPropertyReply>; 3]);

impl<'a> TitleQuery<'a> {
    /// Sends the requests.
    pub(in crate::display) fn send(
        link: &'a Link,
        atoms: &EwmhAtoms,
        window: xproto::Window,
    ) -> Outcome<Self> {
        let property = |name| link.get_property(false, window, name, AtomEnum::ANY, 0, MAX_TEXT);
        let (utf8, shown) = (property(atoms._NET_WM_NAME)?, property(atoms._NET_WM_VISIBLE_NAME)?);
        Ok(Self([utf8, shown, property(AtomEnum::WM_NAME.into())?]))
    }

    /// Waits for the replies; the first title that is not empty counts.
    pub(in crate::display) fn answer(self, atoms: &EwmhAtoms) -> Outcome<String> {
        let mut title = String::new();
        for pending in self.0 {
            let reply = pending.reply()?;
            if title.is_empty() {
                title = text(&reply, atoms);
            }
        }
        Ok(title)
    }
}

/// Pending requests about one window.
struct WindowQuery<'a> {
    window: xproto::Window,
    geometry: Cookie<'a, Link, GetGeometryReply>,
    place: Cookie<'a, Link, TranslateCoordinatesReply>,
    title: TitleQuery<'a>,
    class: Cookie<'a, Link, GetPropertyReply>,
    pid: Cookie<'a, Link, GetPropertyReply>,
    client: Option<Cookie<'a, Link, res::QueryClientIdsReply>>,
    states: Cookie<'a, Link, GetPropertyReply>,
    types: Cookie<'a, Link, GetPropertyReply>,
    desktop: Cookie<'a, Link, GetPropertyReply>,
    frame: Cookie<'a, Link, GetPropertyReply>,
}

impl X11Worker {
    /// The managed windows, topmost first.
    pub(super) fn windows(&mut self, screen: &str) -> Outcome<Vec<Window>> {
        self.rearm();
        let atoms = EwmhAtoms::new(&self.link)?.reply()?;
        let knows_clients = !self.clients()?.is_empty();
        let property = |name, most| self.link.get_property(false, self.root, name, AtomEnum::WINDOW, 0, most);
        let list = property(atoms._NET_CLIENT_LIST_STACKING, MAX_WINDOWS)?;
        let active = property(atoms._NET_ACTIVE_WINDOW, 1)?;
        let ids: Vec<xproto::Window> = list.reply()?.value32().into_iter().flatten().collect();
        let active = active.reply()?.value32().and_then(|mut ids| ids.next()).unwrap_or(x11rb::NONE);
        self.rearm();
        let queries: Vec<WindowQuery<'_>> = ids
            .iter()
            .rev()
            .map(|id| self.query_window(&atoms, *id, knows_clients))
            .collect::<Outcome<_>>()?;
        let mut windows = Vec::with_capacity(queries.len());
        for query in queries {
            self.rearm();
            let active = query.window == active;
            if let Some(window) = optional(query.answer(&atoms))? {
                // Window managers report late that no window is active.
                let focused = active && !window.minimized;
                windows.push(Window { focused, screen: screen.to_owned(), ..window });
            }
        }
        Ok(windows)
    }

    fn query_window(
        &self,
        atoms: &EwmhAtoms,
        window: xproto::Window,
        knows_clients: bool,
    ) -> Outcome<WindowQuery<'_>> {
        let link = &self.link;
        let property = |name: u32, most| link.get_property(false, window, name, AtomEnum::ANY, 0, most);
        let spec = ClientIdSpec { client: window, mask: ClientIdMask::LOCAL_CLIENT_PID };
        Ok(WindowQuery {
            window,
            geometry: link.get_geometry(window)?,
            place: link.translate_coordinates(window, self.root, 0, 0)?,
            title: TitleQuery::send(link, atoms, window)?,
            class: property(AtomEnum::WM_CLASS.into(), MAX_TEXT)?,
            pid: property(atoms._NET_WM_PID, 1)?,
            client: if knows_clients { Some(link.res_query_client_ids(&[spec])?) } else { None },
            states: property(atoms._NET_WM_STATE, MAX_ATOMS)?,
            types: property(atoms._NET_WM_WINDOW_TYPE, MAX_ATOMS)?,
            desktop: property(atoms._NET_WM_DESKTOP, 1)?,
            frame: property(atoms._NET_FRAME_EXTENTS, 4)?,
        })
    }
}

impl WindowQuery<'_> {
    /// The window's record. The caller fills in the focus and the screen.
    fn answer(self, atoms: &EwmhAtoms) -> Outcome<Window> {
        let (geometry, place) = (self.geometry.reply()?, self.place.reply()?);
        let title = self.title.answer(atoms)?;
        let class = self.class.reply()?;
        let mut names = class.value.split(|byte| *byte == 0);
        let (instance, class) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
        let client = match self.client {
            // Servers may refuse for a window that is gone or unknown; it is listed without a process id
            // then.
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

pub(in crate::display) fn numbers(property: &GetPropertyReply) -> Vec<u32> {
    property.value32().into_iter().flatten().collect()
}

/// Decodes a title. One that is not marked as UTF-8 is Latin-1 (ICCCM 2.7.1). A cut title may end in half a
/// character.
fn text(property: &GetPropertyReply, atoms: &EwmhAtoms) -> String {
    if property.type_ == atoms.UTF8_STRING {
        let whole = String::from_utf8_lossy(&property.value);
        let cut = property.bytes_after > 0;
        if cut { whole.trim_end_matches('\u{fffd}').to_owned() } else { whole.into_owned() }
    } else {
        property.value.iter().map(|byte| char::from(*byte)).collect()
    }
}

/// The first known type; programs may list their own types before it.
fn kind(types: &[u32], atoms: &EwmhAtoms) -> &'static str {
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

/// Turns an X error about one window into `None`: the window is gone.
pub(in crate::display) fn optional<T>(reply: Outcome<T>) -> Outcome<Option<T>> {
    match reply {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Refused(_)) => Ok(None),
        Err(fault @ (Fault::Silent | Fault::Broken(_))) => Err(fault),
    }
}
