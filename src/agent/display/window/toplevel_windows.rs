//! Top-level windows of a screen with their processes, for the element search.

use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::errors::ReplyError;
use x11rb::protocol::res::{ClientIdMask, ClientIdSpec, ConnectionExt as _};
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ClientMessageEvent, ConnectionExt as _, EventMask, MapState, Window,
};

use crate::display::fault::Outcome;
use crate::display::screen::Screen;
use crate::display::screen::x11_worker::X11Worker;
use hotdesk_domain::desktop::pointer::Point;
use hotdesk_domain::error::Result;

/// Most windows in a list; a person's desktop has dozens.
const MAX_WINDOWS: usize = 256;
/// Longest title in units of four bytes: 1 KiB.
const MAX_TITLE: u32 = 256;
/// Most levels of nested windows under a point.
const MAX_NESTING: usize = 32;
/// EWMH source indication 2: a pager, whose requests window managers do not refuse as intrusive.
const AS_A_PAGER: u32 = 2;

/// A top-level window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToplevelWindow {
    /// X id.
    pub window: u32,
    /// Process id of its program, where known.
    pub pid: Option<u32>,
    /// Title.
    pub title: String,
    /// Left edge in screen pixels, without the frame.
    pub x: i32,
    /// Top edge in screen pixels, without the frame.
    pub y: i32,
    /// Width in pixels.
    pub width: i32,
    /// Height in pixels.
    pub height: i32,
    /// Whether it is minimised.
    pub minimised: bool,
}

/// The top-level windows of a screen.
#[derive(Clone, Debug, Default)]
pub struct ToplevelWindows {
    /// Topmost first: menus, then the window manager's list.
    pub windows: Vec<ToplevelWindow>,
    /// X id of the active window, where the window manager names it.
    pub active: Option<u32>,
    /// Process ids of the X server's clients, in no order; empty where the server does not know them.
    pub clients: Vec<u32>,
}

/// Atoms for reading the windows.
struct WindowAtoms {
    stacking: Atom,
    active: Atom,
    pid: Atom,
    name: Atom,
    state: Atom,
    hidden: Atom,
    utf8: Atom,
}

impl Screen {
    /// The top-level windows of this screen.
    ///
    /// # Errors
    /// `Unavailable` when the screen is down or busy; `TimedOut` when the X server stops answering.
    pub async fn toplevel_windows(&self) -> Result<ToplevelWindows> {
        self.run(|worker, _| worker.toplevel_windows()).await
    }

    /// The windows under a point, outermost first: X id, and process id where known.
    ///
    /// # Errors
    /// Those of [`Screen::toplevel_windows`].
    pub async fn windows_at(&self, point: Point) -> Result<Vec<(u32, Option<u32>)>> {
        self.run(move |worker, _| worker.windows_at(point)).await
    }

    /// Asks the window manager to raise a window and give it the focus.
    ///
    /// # Errors
    /// Those of [`Screen::toplevel_windows`].
    pub async fn activate_window(&self, window: u32) -> Result<()> {
        self.run(move |worker, _| worker.activate_window(window)).await
    }
}

/// Turns an X error into `None`: a window can disappear at any moment.
fn or_gone<T>(reply: std::result::Result<T, ReplyError>) -> Outcome<Option<T>> {
    match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(ReplyError::X11Error(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl X11Worker {
    fn atom(&self, name: &str) -> Outcome<Atom> {
        Ok(self.link.intern_atom(false, name.as_bytes())?.reply()?.atom)
    }

    fn window_atoms(&self) -> Outcome<WindowAtoms> {
        Ok(WindowAtoms {
            stacking: self.atom("_NET_CLIENT_LIST_STACKING")?,
            active: self.atom("_NET_ACTIVE_WINDOW")?,
            pid: self.atom("_NET_WM_PID")?,
            name: self.atom("_NET_WM_NAME")?,
            state: self.atom("_NET_WM_STATE")?,
            hidden: self.atom("_NET_WM_STATE_HIDDEN")?,
            utf8: self.atom("UTF8_STRING")?,
        })
    }

    fn toplevel_windows(&mut self) -> Outcome<ToplevelWindows> {
        let names = self.window_atoms()?;
        let numbers = |window, atom, kind: AtomEnum, most| -> Outcome<Vec<u32>> {
            let reply = self.link.get_property(false, window, atom, kind, 0, most)?.reply();
            let property = or_gone(reply)?;
            Ok(property.and_then(|it| it.value32().map(Iterator::collect)).unwrap_or_default())
        };
        let mut order = numbers(self.root, names.stacking, AtomEnum::WINDOW, MAX_WINDOWS as u32)?;
        if order.is_empty() {
            // Without a window manager the windows are the root's children, lowest first.
            order = self.link.query_tree(self.root)?.reply()?.children;
        }
        // Menus and similar windows, which no window manager lists, lie above the listed ones.
        let mut popups = self.link.query_tree(self.root)?.reply()?.children;
        popups.retain(|window| !order.contains(window));
        let listed = order.len();
        order.extend(popups);
        let (order, popups) = order.split_at(listed);
        let mut windows = Vec::new();
        for window in popups.iter().rev().take(MAX_WINDOWS) {
            if self.is_popup(*window)? {
                windows.extend(self.read_toplevel(*window, &names, None, false)?);
            }
        }
        for window in order.iter().rev().take(MAX_WINDOWS).copied() {
            let pid = numbers(window, names.pid, AtomEnum::CARDINAL, 1)?.first().copied();
            let states = numbers(window, names.state, AtomEnum::ATOM, 32)?;
            let minimised = states.contains(&names.hidden);
            windows.extend(self.read_toplevel(window, &names, pid, minimised)?);
        }
        let owners = self.owners(&windows.iter().map(|top| top.window).collect::<Vec<_>>())?;
        for (top, owner) in windows.iter_mut().zip(owners) {
            // The X server's process id wins over the program's claim.
            top.pid = owner.or(top.pid);
        }
        let active = numbers(self.root, names.active, AtomEnum::WINDOW, 1)?;
        let active = active.first().copied().filter(|window| *window != x11rb::NONE);
        Ok(ToplevelWindows { windows, active, clients: self.clients()? })
    }

    /// Whether a window is visible and bypasses the window manager.
    fn is_popup(&self, window: Window) -> Outcome<bool> {
        let attributes = or_gone(self.link.get_window_attributes(window)?.reply())?;
        Ok(attributes.is_some_and(|it| it.override_redirect && it.map_state == MapState::VIEWABLE))
    }

    fn read_toplevel(
        &self,
        window: Window,
        names: &WindowAtoms,
        pid: Option<u32>,
        minimised: bool,
    ) -> Outcome<Option<ToplevelWindow>> {
        let attributes = self.link.get_window_attributes(window)?;
        let geometry = self.link.get_geometry(window)?;
        let place = self.link.translate_coordinates(window, self.root, 0, 0)?;
        let title = self.link.get_property(false, window, names.name, names.utf8, 0, MAX_TITLE)?;
        let old = self.link.get_property(false, window, AtomEnum::WM_NAME, AtomEnum::ANY, 0, MAX_TITLE)?;
        let attributes = or_gone(attributes.reply())?;
        let (geometry, place) = (or_gone(geometry.reply())?, or_gone(place.reply())?);
        let (title, old) = (or_gone(title.reply())?, or_gone(old.reply())?);
        let (Some(attributes), Some(geometry), Some(place)) = (attributes, geometry, place) else {
            return Ok(None);
        };
        if attributes.map_state == MapState::UNMAPPED && !minimised {
            return Ok(None);
        }
        let text = [title, old].into_iter().flatten().map(|it| it.value).find(|text| !text.is_empty());
        Ok(Some(ToplevelWindow {
            window,
            pid,
            title: String::from_utf8_lossy(&text.unwrap_or_default()).into_owned(),
            x: place.dst_x.into(),
            y: place.dst_y.into(),
            width: geometry.width.into(),
            height: geometry.height.into(),
            minimised,
        }))
    }

    /// The process id of each window's client, from the X server. Where the server knows none, `_NET_WM_PID`
    /// of the window or of another window of the same client.
    pub(in crate::display) fn owners(&self, windows: &[Window]) -> Outcome<Vec<Option<u32>>> {
        let mut owners = Vec::new();
        if self.clients()?.is_empty() {
            let pid = self.atom("_NET_WM_PID")?;
            for window in windows {
                let said = self.link.get_property(false, *window, pid, AtomEnum::CARDINAL, 0, 1)?.reply();
                owners.push(or_gone(said)?.and_then(|it| it.value32()?.next()));
            }
            let mask = self.link.setup().resource_id_mask;
            let of_client = |window: Window| {
                let mut all =
                    windows.iter().zip(&owners).filter(|(other, _)| **other & !mask == window & !mask);
                all.find_map(|(_, owner)| *owner)
            };
            return Ok(windows.iter().map(|window| of_client(*window)).collect());
        }
        for window in windows {
            let specs = [ClientIdSpec { client: *window, mask: ClientIdMask::LOCAL_CLIENT_PID }];
            owners.push(self.processes(&specs)?.first().copied());
        }
        Ok(owners)
    }

    /// The process ids of all clients. Empty when the list lacks this agent: under gVisor the server takes
    /// every client for itself.
    pub(in crate::display) fn clients(&self) -> Outcome<Vec<u32>> {
        let all = [ClientIdSpec { client: x11rb::NONE, mask: ClientIdMask::LOCAL_CLIENT_PID }];
        let pids = self.processes(&all)?;
        Ok(if pids.contains(&std::process::id()) { pids } else { Vec::new() })
    }

    fn processes(&self, specs: &[ClientIdSpec]) -> Outcome<Vec<u32>> {
        if self.link.extension_information(x11rb::protocol::res::X11_EXTENSION_NAME)?.is_none() {
            return Ok(Vec::new());
        }
        let reply = or_gone(self.link.res_query_client_ids(specs)?.reply())?;
        let ids = reply.map(|reply| reply.ids).unwrap_or_default();
        Ok(ids.iter().filter_map(|id| id.value.first().copied()).collect())
    }

    fn windows_at(&mut self, point: Point) -> Outcome<Vec<(Window, Option<u32>)>> {
        let mut windows = Vec::new();
        let mut inside = self.root;
        for _ in 0..MAX_NESTING {
            let asked = self.link.translate_coordinates(self.root, inside, point.x, point.y)?;
            let Some(place) = or_gone(asked.reply())? else { break };
            if place.child == x11rb::NONE {
                break;
            }
            inside = place.child;
            windows.push(inside);
        }
        let owners = self.owners(&windows)?;
        Ok(windows.into_iter().zip(owners).collect())
    }

    fn activate_window(&mut self, window: Window) -> Outcome<()> {
        let active = self.atom("_NET_ACTIVE_WINDOW")?;
        let wish = ClientMessageEvent::new(32, window, active, [AS_A_PAGER, 0, 0, 0, 0]);
        let mask = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY;
        self.link.send_event(false, self.root, mask, wish)?;
        self.barrier()
    }
}
