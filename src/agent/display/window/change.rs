//! Changes of windows through EWMH messages to the window manager.
//!
//! The messages claim to come from a pager or panel, which window managers obey most reliably.

use x11rb::protocol::xproto::{self, ClientMessageEvent, ConnectionExt as _, EventMask};

use super::atoms::EwmhAtoms;
use crate::display::fault::Outcome;
use crate::display::screen::x11_worker::X11Worker;
use hotdesk_wire::desktop::window::{Window, WindowPlace};

/// EWMH source indication 2: a direct action of the user.
const BY_USER: u32 = 2;
/// `_NET_WM_STATE`: remove a state.
const REMOVE: u32 = 0;
/// `_NET_WM_STATE`: add a state.
const ADD: u32 = 1;
/// ICCCM: the state of a minimized window.
const ICONIC: u32 = 3;
/// `_NET_MOVERESIZE_WINDOW`: the position is the upper left corner of the frame (`NorthWestGravity`).
/// `StaticGravity` would place the content's corner. With it openbox moves the window but remembers another
/// position for a later restore.
const NORTH_WEST_GRAVITY: u32 = 1;

/// A change of a window's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowChange {
    /// Give the window the keyboard and raise it.
    Focus,
    /// Fill the screen except for panels.
    Maximize,
    /// Minimize the window.
    Minimize,
    /// Undo maximizing, minimizing and fullscreen.
    Restore,
}

impl WindowChange {
    /// Whether the window has the state.
    pub(super) fn is_in_effect(self, window: &Window) -> bool {
        match self {
            Self::Focus => window.focused && !window.minimized,
            Self::Maximize => window.maximized && !window.minimized,
            Self::Minimize => window.minimized,
            Self::Restore => !window.minimized && !window.maximized && !window.fullscreen,
        }
    }
}

impl X11Worker {
    /// Asks the window manager to change the state of a window.
    pub(super) fn change_window(&mut self, window: xproto::Window, change: WindowChange) -> Outcome<()> {
        self.rearm();
        let atoms = EwmhAtoms::new(&self.link)?.reply()?;
        let sizes = [atoms._NET_WM_STATE_MAXIMIZED_VERT, atoms._NET_WM_STATE_MAXIMIZED_HORZ];
        let activate = [BY_USER, x11rb::CURRENT_TIME, x11rb::NONE, 0, 0];
        match change {
            WindowChange::Focus => self.tell_manager(window, atoms._NET_ACTIVE_WINDOW, activate)?,
            WindowChange::Minimize => {
                self.tell_manager(window, atoms.WM_CHANGE_STATE, [ICONIC, 0, 0, 0, 0])?
            }
            WindowChange::Maximize => {
                self.tell_manager(window, atoms._NET_WM_STATE, [ADD, sizes[0], sizes[1], BY_USER, 0])?;
                self.tell_manager(window, atoms._NET_ACTIVE_WINDOW, activate)?;
            }
            WindowChange::Restore => {
                self.tell_manager(window, atoms._NET_WM_STATE, [REMOVE, sizes[0], sizes[1], BY_USER, 0])?;
                let full = atoms._NET_WM_STATE_FULLSCREEN;
                self.tell_manager(window, atoms._NET_WM_STATE, [REMOVE, full, 0, BY_USER, 0])?;
                self.tell_manager(window, atoms._NET_ACTIVE_WINDOW, activate)?;
            }
        }
        self.barrier()
    }

    /// Asks the window manager to move a window's frame and to resize its content.
    pub(super) fn place_window(&mut self, window: xproto::Window, place: &WindowPlace) -> Outcome<()> {
        self.rearm();
        let atoms = EwmhAtoms::new(&self.link)?.reply()?;
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

    /// Asks the window manager to close a window; the program may ask its user first.
    pub(super) fn close_window(&mut self, window: xproto::Window) -> Outcome<()> {
        self.rearm();
        let atoms = EwmhAtoms::new(&self.link)?.reply()?;
        let data = [x11rb::CURRENT_TIME, BY_USER, 0, 0, 0];
        self.tell_manager(window, atoms._NET_CLOSE_WINDOW, data)?;
        self.barrier()
    }

    /// Ends the X connection of a window's program.
    pub(super) fn kill_client(&mut self, window: xproto::Window) -> Outcome<()> {
        self.rearm();
        // An error means that the window is gone, as wanted.
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
