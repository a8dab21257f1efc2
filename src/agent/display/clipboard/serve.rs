//! Answering programs that paste (ICCCM 2.2).
//!
//! Data that is longer than [`MAX_WHOLE`] goes in pieces (INCR): the next piece follows when the program
//! deleted the property of the one before.

use std::time::{Duration, Instant};

use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, PropMode, SelectionNotifyEvent,
    SelectionRequestEvent, Window,
};
use x11rb::wrapper::ConnectionExt as _;

use super::thread::ClipboardThread;
use super::transfer::OutgoingTransfer;
use crate::display::fault::{Fault, Outcome};
use hotdesk_wire::desktop::clipboard::MAX_TEXT_BYTES;

/// Longest data in bytes that goes at once: any text, because Xvnc reads no pieces, and its viewers would not
/// get the text. The request needs the extension BIG-REQUESTS, which all X servers have.
const MAX_WHOLE: usize = MAX_TEXT_BYTES;
/// Bytes of one piece: half of what a request of the core protocol holds.
const CHUNK: usize = 128 * 1024;
/// Timeout of a program that does not take the next piece.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// Concurrent transfers; past it the longest idle one is dropped. A desktop has one or two.
const MAX_TRANSFERS: usize = 32;
/// Most targets of one MULTIPLE request that are served.
const MAX_PAIRS: u32 = 32;

impl ClipboardThread<'_> {
    /// Answers a selection request.
    pub(super) fn serve(&mut self, request: &SelectionRequestEvent) -> Outcome<()> {
        // Obsolete clients name no property.
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

    /// Writes one target to the requestor's property; false when there is no such target.
    fn serve_one(&mut self, request: &SelectionRequestEvent, target: u32, property: u32) -> Outcome<bool> {
        let requestor = request.requestor;
        let Some(owned) = self.owned.iter().find(|owned| owned.selection == request.selection) else {
            return Ok(false);
        };
        if target == self.atoms.TARGETS {
            let meta = [self.atoms.TARGETS, self.atoms.TIMESTAMP, self.atoms.MULTIPLE];
            let all: Vec<u32> =
                meta.into_iter().chain(owned.target_data.iter().map(|data| data.target)).collect();
            self.link.change_property32(PropMode::REPLACE, requestor, property, AtomEnum::ATOM, &all)?;
            return Ok(true);
        }
        if target == self.atoms.TIMESTAMP {
            let (kind, since) = (AtomEnum::INTEGER, [owned.since]);
            self.link.change_property32(PropMode::REPLACE, requestor, property, kind, &since)?;
            return Ok(true);
        }
        let Some(data) = owned.target_data.iter().find(|data| data.target == target).cloned() else {
            return Ok(false);
        };
        let serial = owned.serial;
        self.sending.retain(|sending| (sending.requestor, sending.property) != (requestor, property));
        if self.sending.len() >= MAX_TRANSFERS {
            let oldest = self.sending.iter().enumerate().min_by_key(|(_, sending)| sending.since);
            if let Some(at) = oldest.map(|(at, _)| at) {
                let forgotten = self.sending.swap_remove(at).requestor;
                self.unwatch(forgotten)?;
            }
        }
        // The deletion of the property shows that the program read it.
        let watch = EventMask::PROPERTY_CHANGE | EventMask::STRUCTURE_NOTIFY;
        self.watch(requestor, watch)?;
        let mut sending =
            OutgoingTransfer { requestor, property, serial, data, sent: 0, since: Instant::now() };
        if sending.data.bytes.len() <= MAX_WHOLE {
            sending.sent = sending.data.bytes.len();
            self.write_property(&sending, 0)?;
        } else {
            let length = [u32::try_from(sending.data.bytes.len()).unwrap_or(u32::MAX)];
            self.link.change_property32(PropMode::REPLACE, requestor, property, self.atoms.INCR, &length)?;
        }
        self.sending.push(sending);
        Ok(true)
    }

    /// Serves pairs of target and property. A pair that cannot be served gets the property `None` (ICCCM
    /// 2.6.2).
    fn serve_many(&mut self, request: &SelectionRequestEvent, list: u32) -> Outcome<bool> {
        let asked =
            self.link.get_property(false, request.requestor, list, self.atoms.ATOM_PAIR, 0, 2 * MAX_PAIRS)?;
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

    /// Sends the next piece after the program deleted the property, or finishes the transfer.
    pub(super) fn send_next_chunk(&mut self, requestor: Window, property: u32) -> Outcome<()> {
        let found =
            |sending: &OutgoingTransfer| (sending.requestor, sending.property) == (requestor, property);
        let Some(at) = self.sending.iter().position(found) else { return Ok(()) };
        let mut sending = self.sending.swap_remove(at);
        let (from, length) = (sending.sent, sending.data.bytes.len());
        let whole = from == length;
        if whole {
            self.count_fetch(sending.serial);
        }
        if length > MAX_WHOLE {
            // An empty piece marks the end.
            sending.sent = length.min(from + CHUNK);
            sending.since = Instant::now();
            self.write_property(&sending, from)?;
            if !whole {
                self.sending.push(sending);
            }
        }
        self.unwatch(requestor)
    }

    fn count_fetch(&self, serial: u64) {
        if let Some(owned) = self.owned.iter().find(|owned| owned.serial == serial) {
            owned.fetches.send_modify(|count| *count += 1);
        }
    }

    fn write_property(&self, sending: &OutgoingTransfer, from: usize) -> Outcome<()> {
        let OutgoingTransfer { requestor, property, data, sent, .. } = sending;
        let bytes = &data.bytes[from..*sent];
        let items = u32::try_from(bytes.len() / usize::from(data.format / 8)).unwrap_or(0);
        let mode = PropMode::REPLACE;
        self.link.change_property(mode, *requestor, *property, data.kind, data.format, items, bytes)?;
        Ok(())
    }

    /// Drops transfers that programs stopped reading.
    pub(super) fn drop_stale_transfers(&mut self) -> Outcome<()> {
        let is_late = |sending: &OutgoingTransfer| sending.since.elapsed() > SEND_TIMEOUT;
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

/// Turns an X error about a program's window into `None`: the window is gone.
pub(super) fn optional<T>(reply: Outcome<T>) -> Outcome<Option<T>> {
    match reply {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Refused(_)) => Ok(None),
        Err(fault @ (Fault::Silent | Fault::Broken(_))) => Err(fault),
    }
}
