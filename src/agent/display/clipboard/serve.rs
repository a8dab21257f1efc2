//! How is a program that pastes answered? (ICCCM 2.2) What is longer than [`CHUNK`] goes piece by piece (INCR), the
//! next when the last was taken.

use std::time::{Duration, Instant};

use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, PropMode, SelectionNotifyEvent,
    SelectionRequestEvent, Window,
};
use x11rb::wrapper::ConnectionExt as _;

use super::super::fault::{Fault, Outcome};
use super::content::Form;
use super::owner::Owner;

/// Bytes passed on at once: half of what a request of the core protocol holds.
const CHUNK: usize = 128 * 1024;
/// How long a program may take to take a piece before it is given up.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// Transfers at once; past it the one that rests longest is forgotten. A desktop has one or two.
const MOST_SENDINGS: usize = 32;
/// Most targets of one MULTIPLE request that are served.
const MOST_PAIRS: u32 = 32;

/// A form on its way to a program.
pub(super) struct Sending {
    pub(super) requestor: Window,
    property: u32,
    /// Of which content it is.
    serial: u64,
    form: Form,
    /// Bytes handed over; all of them at once where they fit.
    sent: usize,
    since: Instant,
}

impl Owner<'_> {
    /// Answers a request.
    pub(super) fn serve(&mut self, request: &SelectionRequestEvent) -> Outcome<()> {
        // Obsolete programs name no property.
        let property = if request.property == x11rb::NONE { request.target } else { request.property };
        let served = if request.target == self.atoms.MULTIPLE {
            self.serve_many(request, property)?
        } else {
            self.serve_one(request, request.target, property)?
        };
        let answer = SelectionNotifyEvent {
            response_type: x11rb::protocol::xproto::SELECTION_NOTIFY_EVENT,
            sequence: 0,
            time: request.time,
            requestor: request.requestor,
            selection: request.selection,
            target: request.target,
            property: if served { property } else { x11rb::NONE },
        };
        self.link.send_event(false, request.requestor, EventMask::NO_EVENT, answer)?;
        Ok(())
    }

    /// Puts one form where it was asked for; false when there is none.
    fn serve_one(&mut self, request: &SelectionRequestEvent, target: u32, property: u32) -> Outcome<bool> {
        let requestor = request.requestor;
        let Some(owned) = self.owned.iter().find(|owned| owned.selection == request.selection) else {
            return Ok(false);
        };
        if target == self.atoms.TARGETS {
            let meta = [self.atoms.TARGETS, self.atoms.TIMESTAMP, self.atoms.MULTIPLE];
            let all: Vec<u32> = meta.into_iter().chain(owned.forms.iter().map(|form| form.target)).collect();
            self.link.change_property32(PropMode::REPLACE, requestor, property, AtomEnum::ATOM, &all)?;
            return Ok(true);
        }
        if target == self.atoms.TIMESTAMP {
            let (kind, since) = (AtomEnum::INTEGER, [owned.since]);
            self.link.change_property32(PropMode::REPLACE, requestor, property, kind, &since)?;
            return Ok(true);
        }
        let Some(form) = owned.forms.iter().find(|form| form.target == target).cloned() else {
            return Ok(false);
        };
        let serial = owned.serial;
        self.sending.retain(|sending| (sending.requestor, sending.property) != (requestor, property));
        if self.sending.len() >= MOST_SENDINGS {
            let oldest = self.sending.iter().enumerate().min_by_key(|(_, sending)| sending.since);
            if let Some(at) = oldest.map(|(at, _)| at) {
                let forgotten = self.sending.swap_remove(at).requestor;
                self.unwatch(forgotten)?;
            }
        }
        // That the property goes tells that it was read.
        let watch = EventMask::PROPERTY_CHANGE | EventMask::STRUCTURE_NOTIFY;
        self.watch(requestor, watch)?;
        let mut sending = Sending { requestor, property, serial, form, sent: 0, since: Instant::now() };
        if sending.form.bytes.len() <= CHUNK {
            sending.sent = sending.form.bytes.len();
            self.put(&sending, 0)?;
        } else {
            let length = [u32::try_from(sending.form.bytes.len()).unwrap_or(u32::MAX)];
            self.link.change_property32(PropMode::REPLACE, requestor, property, self.atoms.INCR, &length)?;
        }
        self.sending.push(sending);
        Ok(true)
    }

    /// Serves pairs of target and property; those that cannot be served lose their property (ICCCM 2.6.2).
    fn serve_many(&mut self, request: &SelectionRequestEvent, list: u32) -> Outcome<bool> {
        let asked = self.link.get_property(
            false,
            request.requestor,
            list,
            self.atoms.ATOM_PAIR,
            0,
            2 * MOST_PAIRS,
        )?;
        let Some(asked) = optional(asked.reply().map_err(Fault::from))? else { return Ok(false) };
        let mut pairs: Vec<u32> = asked.value32().into_iter().flatten().collect();
        for pair in pairs.chunks_exact_mut(2) {
            if pair[0] == self.atoms.MULTIPLE || !self.serve_one(request, pair[0], pair[1])? {
                pair[1] = x11rb::NONE;
            }
        }
        self.link.change_property32(
            PropMode::REPLACE,
            request.requestor,
            list,
            self.atoms.ATOM_PAIR,
            &pairs,
        )?;
        Ok(!pairs.is_empty())
    }

    /// A program took what was in its property: the next piece goes, or all is done.
    pub(super) fn was_taken(&mut self, requestor: Window, property: u32) -> Outcome<()> {
        let found = |sending: &Sending| (sending.requestor, sending.property) == (requestor, property);
        let Some(at) = self.sending.iter().position(found) else { return Ok(()) };
        let mut sending = self.sending.swap_remove(at);
        let (from, length) = (sending.sent, sending.form.bytes.len());
        let whole = from == length;
        if whole {
            self.was_fetched(sending.serial);
        }
        if length > CHUNK {
            // The last piece is empty: it says that there are no more.
            sending.sent = length.min(from + CHUNK);
            sending.since = Instant::now();
            self.put(&sending, from)?;
            if !whole {
                self.sending.push(sending);
            }
        }
        self.unwatch(requestor)
    }

    fn was_fetched(&self, serial: u64) {
        if let Some(owned) = self.owned.iter().find(|owned| owned.serial == serial) {
            owned.fetches.send_modify(|count| *count += 1);
        }
    }

    fn put(&self, sending: &Sending, from: usize) -> Outcome<()> {
        let Sending { requestor, property, form, sent, .. } = sending;
        let bytes = &form.bytes[from..*sent];
        let items = u32::try_from(bytes.len() / usize::from(form.format / 8)).unwrap_or(0);
        let mode = PropMode::REPLACE;
        self.link.change_property(mode, *requestor, *property, form.kind, form.format, items, bytes)?;
        Ok(())
    }

    /// Forgets transfers that nobody takes any more.
    pub(super) fn give_up_on_late_sends(&mut self) -> Outcome<()> {
        let is_late = |sending: &Sending| sending.since.elapsed() > SEND_TIMEOUT;
        let late: Vec<Window> =
            self.sending.iter().filter(|sending| is_late(sending)).map(|sending| sending.requestor).collect();
        self.sending.retain(|sending| !is_late(sending));
        late.into_iter().try_for_each(|requestor| self.unwatch(requestor))
    }

    fn watch(&self, requestor: Window, mask: EventMask) -> Outcome<()> {
        let watch = ChangeWindowAttributesAux::new().event_mask(mask);
        self.link.change_window_attributes(requestor, &watch)?;
        Ok(())
    }

    fn unwatch(&self, requestor: Window) -> Outcome<()> {
        if self.sending.iter().any(|sending| sending.requestor == requestor) {
            return Ok(());
        }
        self.watch(requestor, EventMask::NO_EVENT)
    }
}

/// An X error about a program's window only means that it has gone.
pub(super) fn optional<T>(reply: Outcome<T>) -> Outcome<Option<T>> {
    match reply {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Refused(_)) => Ok(None),
        Err(fault @ (Fault::Silent | Fault::Broken(_))) => Err(fault),
    }
}
