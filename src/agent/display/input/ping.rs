//! Has the program that receives the keys seen them all? It is asked by `_NET_WM_PING` (EWMH), which programs answer
//! in the order of their events; those that do not take part are watched until they sleep, after a fixed time.

use std::time::Duration;

use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ClientMessageEvent, ConnectionExt as _, EventMask, InputFocus,
    Window,
};

use super::fault::{Fault, Outcome};
use super::rest;
use super::seat::{Seat, X_TIMEOUT};

/// How long a program may take to answer: one that takes longer is stuck, not slow.
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// How far up from the focused window its top-level window is looked for.
const MOST_PARENTS: usize = 8;
/// Most protocols of a window that are read; programs name up to five.
const MOST_PROTOCOLS: u32 = 32;

/// The program that has the keyboard, and how it is known what it has seen.
#[derive(Debug)]
pub(super) enum Listener {
    /// It answers pings.
    Answers(Asked),
    /// It does not, but its process can be watched.
    Sleeps(u32),
}

/// A program that answers pings.
#[derive(Debug)]
pub(super) struct Asked {
    window: Window,
    ping: u32,
    protocols: u32,
    /// Tells one question from another.
    number: u32,
}

impl Seat {
    /// Finds out who has the keyboard. `None` when nothing tells what it has seen.
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
        for _ in 0..MOST_PARENTS {
            if window == x11rb::NONE || window == self.root {
                break;
            }
            let named =
                self.link.get_property(false, window, protocols, AtomEnum::ATOM, 0, MOST_PROTOCOLS)?;
            // A window that has gone meanwhile has no listener.
            let Some(named) = optional(named.reply().map_err(Fault::from))? else { break };
            if named.value32().is_some_and(|mut atoms| atoms.any(|atom| atom == ping)) {
                return Ok(Some(Listener::Answers(Asked { window, ping, protocols, number: 0 })));
            }
            let Some(tree) = optional(self.link.query_tree(window)?.reply().map_err(Fault::from))? else {
                break;
            };
            window = tree.parent;
        }
        let owner = self.owners(&[addressed])?.first().copied().flatten();
        Ok(owner.map(Listener::Sleeps))
    }

    /// Waits until the program has seen all keys so far; false when it did not say so in time.
    pub(super) fn has_heard(&mut self, listener: &mut Listener) -> Outcome<bool> {
        let asked = match listener {
            Listener::Answers(asked) => asked,
            Listener::Sleeps(pid) => {
                return rest::comes_to_rest(*pid, || self.barrier());
            }
        };
        // The answer goes to whoever watches the root's children; only now, for they are busy.
        self.watch_root(EventMask::STRUCTURE_NOTIFY | EventMask::SUBSTRUCTURE_NOTIFY)?;
        let heard = self.ask(asked);
        self.rearm();
        self.watch_root(EventMask::STRUCTURE_NOTIFY)?;
        heard
    }

    fn watch_root(&self, mask: EventMask) -> Outcome<()> {
        let watch = ChangeWindowAttributesAux::new().event_mask(mask);
        self.link.change_window_attributes(self.root, &watch)?;
        Ok(())
    }

    fn ask(&mut self, listener: &mut Asked) -> Outcome<bool> {
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
                Ok(event) => self.take_in(&event)?,
                Err(Fault::Silent) => return Ok(false),
                Err(fault) => return Err(fault),
            }
        }
    }
}

/// An X error about one window only means that it has gone.
fn optional<T>(reply: Outcome<T>) -> Outcome<Option<T>> {
    match reply {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Refused(_)) => Ok(None),
        Err(fault @ (Fault::Silent | Fault::Broken(_))) => Err(fault),
    }
}
