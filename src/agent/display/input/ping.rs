//! Synchronisation with the focused program: waits until it has read all key events.
//!
//! Programs answer `_NET_WM_PING` (EWMH) in the order of their events. For a program without ping support,
//! `quiescence` waits until its process sleeps.

use std::time::Duration;

use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ClientMessageEvent, ConnectionExt as _, EventMask, InputFocus,
    Window,
};

use super::quiescence;
use crate::display::fault::{Fault, Outcome};
use crate::display::link::X_TIMEOUT;
use crate::display::screen::x11_worker::X11Worker;

/// Timeout of a ping: a program that takes longer hangs.
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// Most parents of the focused window that are searched for its top-level window.
const MAX_PARENTS: usize = 8;
/// Most protocols of a window that are read; programs name up to five.
const MAX_PROTOCOLS: u32 = 32;

/// The program that has the keyboard, and how to synchronise with it.
#[derive(Debug)]
pub(super) enum Listener {
    /// It answers pings.
    Answers(PingTarget),
    /// It does not; its process id.
    Sleeps(u32),
}

/// A program that answers pings.
#[derive(Debug)]
pub(super) struct PingTarget {
    window: Window,
    ping: u32,
    protocols: u32,
    /// Number of the last ping; it distinguishes the answers.
    number: u32,
}

impl X11Worker {
    /// Finds the program that has the keyboard. `None` when neither ping nor process id is available.
    pub(super) fn listener(&mut self) -> Outcome<Option<Listener>> {
        self.rearm();
        let ping = self.link.intern_atom(false, b"_NET_WM_PING")?;
        let protocols = self.link.intern_atom(false, b"WM_PROTOCOLS")?;
        let (ping, protocols) = (ping.reply()?.atom, protocols.reply()?.atom);
        let focus = self.link.get_input_focus()?.reply()?.focus;
        let mut window = if focus <= u32::from(InputFocus::POINTER_ROOT) {
            self.link.query_pointer(self.root)?.reply()?.child
        } else {
            focus
        };
        let addressed = window;
        for _ in 0..MAX_PARENTS {
            if window == x11rb::NONE || window == self.root {
                break;
            }
            let named = self.link.get_property(false, window, protocols, AtomEnum::ATOM, 0, MAX_PROTOCOLS)?;
            // The window is gone.
            let Some(named) = optional(named.reply().map_err(Fault::from))? else { break };
            if named.value32().is_some_and(|mut atoms| atoms.any(|atom| atom == ping)) {
                return Ok(Some(Listener::Answers(PingTarget { window, ping, protocols, number: 0 })));
            }
            let Some(tree) = optional(self.link.query_tree(window)?.reply().map_err(Fault::from))? else {
                break;
            };
            window = tree.parent;
        }
        let owner = self.owners(&[addressed])?.first().copied().flatten();
        Ok(owner.map(Listener::Sleeps))
    }

    /// Waits until the program has read all keys so far; false after a timeout.
    pub(super) fn has_processed_input(&mut self, listener: &mut Listener) -> Outcome<bool> {
        let target = match listener {
            Listener::Answers(target) => target,
            Listener::Sleeps(pid) => {
                return quiescence::wait_until_quiescent(*pid, || self.barrier());
            }
        };
        // The answer goes to clients that select the events of the root's children. There are many such
        // events, so they are selected only now.
        self.watch_root(EventMask::STRUCTURE_NOTIFY | EventMask::SUBSTRUCTURE_NOTIFY)?;
        let answered = self.ping(target);
        self.rearm();
        self.watch_root(EventMask::STRUCTURE_NOTIFY)?;
        answered
    }

    /// Selects the events of the root window.
    pub(in crate::display) fn watch_root(&self, mask: EventMask) -> Outcome<()> {
        let watch = ChangeWindowAttributesAux::new().event_mask(mask);
        self.link.change_window_attributes(self.root, &watch)?;
        Ok(())
    }

    fn ping(&mut self, listener: &mut PingTarget) -> Outcome<bool> {
        listener.number += 1;
        let data = [listener.ping, listener.number, listener.window, 0, 0];
        let question = ClientMessageEvent::new(32, listener.window, listener.protocols, data);
        self.link.send_event(false, listener.window, EventMask::NO_EVENT, question)?;
        self.deadline.allow(PING_TIMEOUT.max(X_TIMEOUT));
        self.link.flush()?;
        loop {
            match self.link.wait_for_event().map_err(Fault::from) {
                Ok(Event::ClientMessage(answer))
                    if answer.window == self.root && answer.data.as_data32()[..3] == data[..3] =>
                {
                    return Ok(true);
                }
                Ok(event) => self.handle_event(&event)?,
                Err(Fault::Silent) => return Ok(false),
                Err(fault) => return Err(fault),
            }
        }
    }
}

/// Turns an X error about one window into `None`: the window is gone.
fn optional<T>(reply: Outcome<T>) -> Outcome<Option<T>> {
    match reply {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Refused(_)) => Ok(None),
        Err(fault @ (Fault::Silent | Fault::Broken(_))) => Err(fault),
    }
}
