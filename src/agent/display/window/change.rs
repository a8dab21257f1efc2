//! How is a window changed? By the messages that EWMH gives panels, which window managers obey most willingly.

use x11rb::protocol::xproto::{self, ClientMessageEvent, ConnectionExt as _, EventMask};

use super::super::fault::Outcome;
use super::super::seat::Seat;
use super::atoms::Atoms;
use hotdesk_wire::window::{Window, WindowPlace};

/// EWMH: the request comes from a direct action of the user, not from a program that wants attention.
const BY_USER: u32 = 2;
/// `_NET_WM_STATE`: take a state away.
const REMOVE: u32 = 0;
/// `_NET_WM_STATE`: give a state.
const ADD: u32 = 1;
/// ICCCM: the state of a minimized window.
const ICONIC: u32 = 3;
/// `_NET_MOVERESIZE_WINDOW`: the place is the upper left corner of the frame (`NorthWestGravity`). For the content's corner there is
/// `StaticGravity`, by which openbox moves a window and remembers another place, where it appears when it is restored.
const NORTH_WEST_GRAVITY: u32 = 1;

/// A state that a window can be brought to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It receives keys, above all others.
    Focus,
    /// It fills the screen but for panels.
    Maximize,
    /// It is an icon.
    Minimize,
    /// It is neither.
    Restore,
}

impl Change {
    /// Whether a window has the state.
    pub(super) fn is_so(self, window: &Window) -> bool {
        match self {
            Self::Focus => window.focused && !window.minimized,
            Self::Maximize => window.maximized && !window.minimized,
            Self::Minimize => window.minimized,
            Self::Restore => !window.minimized && !window.maximized && !window.fullscreen,
        }
    }
}

impl Seat {
    /// Asks the window manager to change the state of a window.
    pub(super) fn change_window(&mut self, window: xproto::Window, change: Change) -> Outcome<()> {
        self.rearm();
        let atoms = Atoms::new(&self.link)?.reply()?;
        let sizes = [atoms._NET_WM_STATE_MAXIMIZED_VERT, atoms._NET_WM_STATE_MAXIMIZED_HORZ];
        let activate = [BY_USER, x11rb::CURRENT_TIME, x11rb::NONE, 0, 0];
        match change {
            Change::Focus => self.tell_manager(window, atoms._NET_ACTIVE_WINDOW, activate)?,
            Change::Minimize => self.tell_manager(window, atoms.WM_CHANGE_STATE, [ICONIC, 0, 0, 0, 0])?,
            Change::Maximize => {
                self.tell_manager(window, atoms._NET_WM_STATE, [ADD, sizes[0], sizes[1], BY_USER, 0])?;
                self.tell_manager(window, atoms._NET_ACTIVE_WINDOW, activate)?;
            }
            Change::Restore => {
                self.tell_manager(window, atoms._NET_WM_STATE, [REMOVE, sizes[0], sizes[1], BY_USER, 0])?;
                let full = atoms._NET_WM_STATE_FULLSCREEN;
                self.tell_manager(window, atoms._NET_WM_STATE, [REMOVE, full, 0, BY_USER, 0])?;
                self.tell_manager(window, atoms._NET_ACTIVE_WINDOW, activate)?;
            }
        }
        self.barrier()
    }

    /// Asks the window manager to move a window's frame, and to resize its content.
    pub(super) fn place_window(&mut self, window: xproto::Window, place: &WindowPlace) -> Outcome<()> {
        self.rearm();
        let atoms = Atoms::new(&self.link)?.reply()?;
        let given = [place.x.is_some(), place.y.is_some(), place.width.is_some(), place.height.is_some()];
        let flags =
            given.iter().enumerate().fold(NORTH_WEST_GRAVITY | BY_USER << 12, |flags, (bit, given)| {
                flags | u32::from(*given) << (8 + bit)
            });
        let (x, y) = (place.x.unwrap_or(0).cast_unsigned(), place.y.unwrap_or(0).cast_unsigned());
        let data = [flags, x, y, place.width.unwrap_or(0), place.height.unwrap_or(0)];
        self.tell_manager(window, atoms._NET_MOVERESIZE_WINDOW, data)?;
        self.barrier()
    }

    /// Asks the window manager to close a window; its program may ask its user first.
    pub(super) fn close_window(&mut self, window: xproto::Window) -> Outcome<()> {
        self.rearm();
        let atoms = Atoms::new(&self.link)?.reply()?;
        let data = [x11rb::CURRENT_TIME, BY_USER, 0, 0, 0];
        self.tell_manager(window, atoms._NET_CLOSE_WINDOW, data)?;
        self.barrier()
    }

    /// Ends the connection of a window's program.
    pub(super) fn kill_client(&mut self, window: xproto::Window) -> Outcome<()> {
        self.rearm();
        // A window that has gone meanwhile is what was wanted: the error is not asked for.
        self.link.kill_client(window)?.ignore_error();
        self.barrier()
    }

    fn tell_manager(&self, window: xproto::Window, message: u32, data: [u32; 5]) -> Outcome<()> {
        let event = ClientMessageEvent::new(32, window, message, data);
        let to = EventMask::SUBSTRUCTURE_NOTIFY | EventMask::SUBSTRUCTURE_REDIRECT;
        self.link.send_event(false, self.root, to, event)?;
        Ok(())
    }
}
