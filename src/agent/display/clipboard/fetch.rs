//! Reading another program's clipboard.
//!
//! The thread asks the owner for its targets, then for the best one. Long data comes in pieces (INCR, ICCCM
//! 2.7.2). Meanwhile the thread serves its own selections, and every wait has a timeout.

use std::time::{Duration, Instant};

use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, GetPropertyReply};

use super::content::{
    self, ClipboardContents, ClipboardItem, CopiedContent, Selection, Snapshot, TargetData, owner_silent,
};
use super::serve::optional;
use super::thread::{ClipboardThread, PendingConversion};
use crate::display::fault::{Fault, Outcome};
use crate::display::link::X_TIMEOUT;
use hotdesk_domain::error::{Error, Kind};
use hotdesk_wire::desktop::event::MAX_CONTENT_BYTES;

/// Timeout of each step of the owner.
const STEP_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of all steps together: it ends a transfer from an owner that sends very slowly.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(5);
/// Most targets of a clipboard that are read; office programs offer about 30.
const MAX_TARGETS: usize = 64;
/// Limit in bytes of all representations of a snapshot: the largest image, and text in several encodings.
const MAX_SNAPSHOT: usize = 16 * 1024 * 1024;

/// Bytes of a text that are fetched for an event: the event's limit and one character more, so that a cut
/// text is recognisably too long.
const MAX_EVENT_TEXT: usize = MAX_CONTENT_BYTES + 4;

/// Policy for data that is longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OverLimit {
    /// Fail with `TooLarge`.
    Refused,
    /// Return the beginning.
    Cut,
}

/// Owner of a selection and the targets that it offers.
enum SelectionOffer {
    Nobody,
    Ours(Vec<TargetData>),
    /// `None`: the owner does not list its targets.
    Theirs(Option<Vec<u32>>),
}

fn copied(content: Option<ClipboardItem>) -> CopiedContent {
    match content {
        Some(ClipboardItem::Text(text)) => CopiedContent::Text(text),
        Some(ClipboardItem::Png(_)) | None => CopiedContent::Other,
    }
}

impl ClipboardThread<'_> {
    /// Reads a clipboard: text, else a PNG image.
    pub(super) fn get(&mut self, selection: Selection) -> Outcome<ClipboardContents> {
        let until = Instant::now() + TRANSFER_TIMEOUT;
        match self.offered(selection, until)? {
            SelectionOffer::Nobody => Ok(ClipboardContents::default()),
            SelectionOffer::Ours(target_data) => {
                let targets: Vec<u32> = target_data.iter().map(|data| data.target).collect();
                let best = content::candidates(Some(&targets), &self.atoms).into_iter().next();
                let data = target_data.iter().find(|data| Some(data.target) == best);
                let content = data.and_then(|data| content::read(data, &self.atoms));
                Ok(ClipboardContents { content, targets: self.names(&targets)? })
            }
            SelectionOffer::Theirs(targets) => {
                let names = self.names(targets.as_deref().unwrap_or_default())?;
                for target in content::candidates(targets.as_deref(), &self.atoms) {
                    let limit = content::limit(target, &self.atoms);
                    let data = self.fetch(selection, target, limit, OverLimit::Refused, until)?;
                    if let Some(content) = data.and_then(|data| content::read(&data, &self.atoms)) {
                        return Ok(ClipboardContents { content: Some(content), targets: names });
                    }
                }
                Ok(ClipboardContents { content: None, targets: names })
            }
        }
    }

    /// Reads the text of `CLIPBOARD`.
    pub(super) fn copied(&mut self) -> Outcome<CopiedContent> {
        let until = Instant::now() + TRANSFER_TIMEOUT;
        let selection = Selection::Clipboard;
        let atom = selection.atom(&self.atoms);
        let offered = match self.offered(selection, until)? {
            SelectionOffer::Nobody => return Ok(CopiedContent::Other),
            SelectionOffer::Ours(_) if self.owned.iter().any(|it| it.selection == atom && it.temporary) => {
                return Ok(CopiedContent::Temporary);
            }
            SelectionOffer::Ours(target_data) => {
                let mut texts = target_data.iter().filter(|data| content::is_text(data.target, &self.atoms));
                return Ok(copied(texts.find_map(|data| content::read(data, &self.atoms))));
            }
            SelectionOffer::Theirs(targets) => targets,
        };
        for target in content::candidates(offered.as_deref(), &self.atoms) {
            if !content::is_text(target, &self.atoms) {
                continue;
            }
            let data = self.fetch(selection, target, MAX_EVENT_TEXT, OverLimit::Cut, until)?;
            if let Some(text) = data.and_then(|data| content::read(&data, &self.atoms)) {
                return Ok(copied(Some(text)));
            }
        }
        Ok(CopiedContent::Other)
    }

    /// Reads all representations of a clipboard.
    pub(super) fn snapshot(&mut self, selection: Selection) -> Outcome<Snapshot> {
        let until = Instant::now() + TRANSFER_TIMEOUT;
        let targets = match self.offered(selection, until)? {
            SelectionOffer::Nobody => return Ok(Snapshot::default()),
            SelectionOffer::Ours(target_data) => return Ok(Snapshot { target_data, partial: false }),
            SelectionOffer::Theirs(Some(targets)) => targets,
            SelectionOffer::Theirs(None) => content::candidates(None, &self.atoms),
        };
        let (mut snapshot, mut remaining) = (Snapshot::default(), MAX_SNAPSHOT);
        for target in targets {
            match self.fetch(selection, target, remaining, OverLimit::Refused, until) {
                Ok(Some(data)) => {
                    remaining -= data.bytes.len();
                    snapshot.target_data.push(data);
                }
                Ok(None) => snapshot.partial = true,
                Err(Fault::Refused(error)) if error.kind == Kind::TooLarge => snapshot.partial = true,
                Err(fault) => return Err(fault),
            }
        }
        Ok(snapshot)
    }

    /// Finds the owner of a selection and the targets that it offers.
    fn offered(&mut self, selection: Selection, until: Instant) -> Outcome<SelectionOffer> {
        self.deadline.allow(X_TIMEOUT);
        let atom = selection.atom(&self.atoms);
        let owner = self.link.get_selection_owner(atom)?.reply()?.owner;
        if owner == x11rb::NONE {
            return Ok(SelectionOffer::Nobody);
        }
        if owner == self.window {
            let owned = self.owned.iter().find(|owned| owned.selection == atom);
            return Ok(
                owned.map_or(SelectionOffer::Nobody, |owned| SelectionOffer::Ours(owned.target_data.clone()))
            );
        }
        let most = 4 * 4 * MAX_TARGETS;
        let Some(list) = self.fetch(selection, self.atoms.TARGETS, most, OverLimit::Refused, until)? else {
            return Ok(SelectionOffer::Theirs(None));
        };
        let items = list.bytes.chunks_exact(4).map(|item| item.try_into().map_or(0, u32::from_ne_bytes));
        let mut targets: Vec<u32> = Vec::new();
        for target in items.filter(|target| *target != x11rb::NONE && !self.atoms.is_meta(*target)) {
            if targets.len() < MAX_TARGETS && !targets.contains(&target) {
                targets.push(target);
            }
        }
        Ok(SelectionOffer::Theirs(Some(targets)))
    }

    /// Requests one target; `None` when the owner does not provide it.
    fn fetch(
        &mut self,
        selection: Selection,
        target: u32,
        limit: usize,
        over_limit: OverLimit,
        until: Instant,
    ) -> Outcome<Option<TargetData>> {
        let time = self.time()?;
        self.inbox_turn += 1;
        let (atom, inbox) = (selection.atom(&self.atoms), self.atoms.inbox(self.inbox_turn));
        self.link.delete_property(self.window, inbox)?;
        self.awaited =
            Some(PendingConversion { selection: atom, target, inbox, notified: None, arrived: false });
        self.link.convert_selection(self.window, atom, target, inbox, time)?;
        let data = self.receive(target, inbox, (limit, over_limit), until);
        self.awaited = None;
        data
    }

    fn receive(
        &mut self,
        target: u32,
        inbox: u32,
        (limit, over_limit): (usize, OverLimit),
        until: Instant,
    ) -> Outcome<Option<TargetData>> {
        self.wait(until, |awaited| awaited.notified.is_some())?;
        let answer = self.awaited.as_ref().and_then(|awaited| awaited.notified);
        if answer.is_none_or(|answer| answer.property == x11rb::NONE) {
            return Ok(None);
        }
        let first = self.take(inbox, limit, over_limit)?;
        if first.type_ != self.atoms.INCR {
            let Some(first) = Some(first).filter(|first| first.type_ != x11rb::NONE) else { return Ok(None) };
            let (kind, format) = (first.type_, first.format);
            return Ok(Some(TargetData { target, kind, format, bytes: first.value.into() }));
        }
        // Deleting the announcement (in `take`) starts the transfer.
        let (mut kind, mut format, mut bytes) = (x11rb::NONE, 8, Vec::new());
        loop {
            self.wait(until, |awaited| std::mem::take(&mut awaited.arrived))?;
            let piece = self.take(inbox, limit - bytes.len(), over_limit)?;
            if piece.type_ == x11rb::NONE {
                // The piece was already read together with the one before.
                continue;
            }
            if piece.value.is_empty() {
                let kind = if kind == x11rb::NONE { piece.type_ } else { kind };
                return Ok(Some(TargetData { target, kind, format, bytes: bytes.into() }));
            }
            (kind, format) = (piece.type_, piece.format);
            bytes.extend_from_slice(&piece.value);
            if bytes.len() > limit {
                return Ok(Some(TargetData { target, kind, format, bytes: bytes.into() }));
            }
        }
    }

    /// Reads and deletes a property. With [`OverLimit::Cut`] the value may be longer than the limit.
    fn take(&mut self, inbox: u32, limit: usize, over_limit: OverLimit) -> Outcome<GetPropertyReply> {
        self.deadline.allow(X_TIMEOUT);
        if let Some(awaited) = &mut self.awaited {
            awaited.arrived = false;
        }
        let units = u32::try_from(limit / 4 + 1).unwrap_or(u32::MAX);
        let value = self.link.get_property(true, self.window, inbox, AtomEnum::ANY, 0, units)?.reply()?;
        if value.bytes_after > 0 || value.value.len() > limit {
            // Deletes the remainder. An owner in the middle of a transfer notices that nobody reads its next
            // piece.
            self.link.delete_property(self.window, inbox)?;
            if over_limit == OverLimit::Cut {
                return Ok(value);
            }
            return Err(Fault::Refused(Error::too_large(format!(
                "The clipboard holds more than {limit} bytes"
            ))));
        }
        Ok(value)
    }

    /// Processes events until `come` is true or the time is up.
    fn wait(&mut self, until: Instant, mut come: impl FnMut(&mut PendingConversion) -> bool) -> Outcome<()> {
        let until = until.min(Instant::now() + STEP_TIMEOUT);
        loop {
            if self.awaited.as_mut().is_some_and(&mut come) {
                return Ok(());
            }
            if Instant::now() >= until || self.is_closed() {
                return Err(Fault::Refused(owner_silent()));
            }
            self.process_events(until)?;
        }
    }

    /// Names of target atoms. All requests are sent before the first reply is awaited.
    fn names(&mut self, targets: &[u32]) -> Outcome<Vec<String>> {
        self.deadline.allow(X_TIMEOUT);
        let pending: Vec<_> =
            targets.iter().map(|target| self.link.get_atom_name(*target)).collect::<Result<_, _>>()?;
        let mut names = Vec::with_capacity(pending.len());
        for cookie in pending {
            // An owner can list atoms that do not exist.
            if let Some(name) = optional(cookie.reply().map_err(Fault::from))? {
                names.push(String::from_utf8_lossy(&name.name).into_owned());
            }
        }
        Ok(names)
    }
}
