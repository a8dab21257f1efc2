//! How is another program's clipboard read? It is asked which forms it offers, then for the best; what is long comes
//! piece by piece (ICCCM 2.7.2). All the while this program's own clipboards are served, and every wait ends.

use std::time::{Duration, Instant};

use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, GetPropertyReply};

use super::super::fault::{Fault, Outcome};
use super::super::seat::X_TIMEOUT;
use super::content::{self, Content, Copied, Form, Seen, Selection, Snapshot, owner_silent};
use super::owner::{Awaited, Owner};
use super::serve::optional;
use hotdesk_domain::error::{Error, Kind};
use hotdesk_wire::event::MAX_CONTENT_BYTES;

/// How long an owner may take over the next step.
const STEP_TIMEOUT: Duration = Duration::from_secs(2);
/// How long all steps together may take: an owner that drips is as good as one that hangs.
const TALK_TIMEOUT: Duration = Duration::from_secs(5);
/// Most forms of a clipboard that are looked at; office programs offer about 30.
const MOST_TARGETS: usize = 64;
/// Bytes of all forms of a snapshot together: the largest image, and text in a few forms.
const MAX_SNAPSHOT: usize = 16 * 1024 * 1024;

/// How much of a text is fetched for those who are told of it: what an event carries, and a character more, so that one
/// that was cut is seen to be longer.
const MAX_TOLD: usize = MAX_CONTENT_BYTES + 4;

/// What becomes of a form that is longer than its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Longer {
    /// It is refused.
    Refused,
    /// Its beginning is taken.
    Cut,
}

/// Who has a clipboard, and in which forms.
enum Offered {
    Nobody,
    Ours(Vec<Form>),
    /// `None`: it does not say.
    Theirs(Option<Vec<u32>>),
}

fn copied(content: Option<Content>) -> Copied {
    match content {
        Some(Content::Text(text)) => Copied::Text(text),
        Some(Content::Png(_)) | None => Copied::Other,
    }
}

impl Owner<'_> {
    /// What is on a clipboard.
    pub(super) fn get(&mut self, selection: Selection) -> Outcome<Seen> {
        let until = Instant::now() + TALK_TIMEOUT;
        match self.offered(selection, until)? {
            Offered::Nobody => Ok(Seen::default()),
            Offered::Ours(forms) => {
                let targets: Vec<u32> = forms.iter().map(|form| form.target).collect();
                let best = content::candidates(Some(&targets), &self.atoms).into_iter().next();
                let form = forms.iter().find(|form| Some(form.target) == best);
                let content = form.and_then(|form| content::read(form, &self.atoms));
                Ok(Seen { content, targets: self.names(&targets)? })
            }
            Offered::Theirs(targets) => {
                let names = self.names(targets.as_deref().unwrap_or_default())?;
                for target in content::candidates(targets.as_deref(), &self.atoms) {
                    let limit = content::limit(target, &self.atoms);
                    let form = self.fetch(selection, target, limit, Longer::Refused, until)?;
                    if let Some(content) = form.and_then(|form| content::read(&form, &self.atoms)) {
                        return Ok(Seen { content: Some(content), targets: names });
                    }
                }
                Ok(Seen { content: None, targets: names })
            }
        }
    }

    /// The text that was put on the clipboard proper.
    pub(super) fn copied(&mut self) -> Outcome<Copied> {
        let until = Instant::now() + TALK_TIMEOUT;
        let selection = Selection::Clipboard;
        let atom = selection.atom(&self.atoms);
        let offered = match self.offered(selection, until)? {
            Offered::Nobody => return Ok(Copied::Other),
            Offered::Ours(_) if self.owned.iter().any(|it| it.selection == atom && it.passing) => {
                return Ok(Copied::Passing);
            }
            Offered::Ours(forms) => {
                let mut texts = forms.iter().filter(|form| content::is_text(form.target, &self.atoms));
                return Ok(copied(texts.find_map(|form| content::read(form, &self.atoms))));
            }
            Offered::Theirs(targets) => targets,
        };
        for target in content::candidates(offered.as_deref(), &self.atoms) {
            if !content::is_text(target, &self.atoms) {
                continue;
            }
            let form = self.fetch(selection, target, MAX_TOLD, Longer::Cut, until)?;
            if let Some(text) = form.and_then(|form| content::read(&form, &self.atoms)) {
                return Ok(copied(Some(text)));
            }
        }
        Ok(Copied::Other)
    }

    /// All that is on a clipboard.
    pub(super) fn snapshot(&mut self, selection: Selection) -> Outcome<Snapshot> {
        let until = Instant::now() + TALK_TIMEOUT;
        let targets = match self.offered(selection, until)? {
            Offered::Nobody => return Ok(Snapshot::default()),
            Offered::Ours(forms) => return Ok(Snapshot { forms, partial: false }),
            Offered::Theirs(Some(targets)) => targets,
            Offered::Theirs(None) => content::candidates(None, &self.atoms),
        };
        let (mut snapshot, mut room) = (Snapshot::default(), MAX_SNAPSHOT);
        for target in targets {
            match self.fetch(selection, target, room, Longer::Refused, until) {
                Ok(Some(form)) => {
                    room -= form.bytes.len();
                    snapshot.forms.push(form);
                }
                Ok(None) => snapshot.partial = true,
                Err(Fault::Refused(error)) if error.kind == Kind::TooLarge => snapshot.partial = true,
                Err(fault) => return Err(fault),
            }
        }
        Ok(snapshot)
    }

    /// Who has a clipboard, and which forms it offers.
    fn offered(&mut self, selection: Selection, until: Instant) -> Outcome<Offered> {
        self.deadline.allow(X_TIMEOUT);
        let atom = selection.atom(&self.atoms);
        let owner = self.link.get_selection_owner(atom)?.reply()?.owner;
        if owner == x11rb::NONE {
            return Ok(Offered::Nobody);
        }
        if owner == self.window {
            let owned = self.owned.iter().find(|owned| owned.selection == atom);
            return Ok(owned.map_or(Offered::Nobody, |owned| Offered::Ours(owned.forms.clone())));
        }
        let most = 4 * 4 * MOST_TARGETS;
        let Some(list) = self.fetch(selection, self.atoms.TARGETS, most, Longer::Refused, until)? else {
            return Ok(Offered::Theirs(None));
        };
        let items = list.bytes.chunks_exact(4).map(|item| item.try_into().map_or(0, u32::from_ne_bytes));
        let mut targets: Vec<u32> = Vec::new();
        for target in items.filter(|target| *target != x11rb::NONE && !self.atoms.is_meta(*target)) {
            if targets.len() < MOST_TARGETS && !targets.contains(&target) {
                targets.push(target);
            }
        }
        Ok(Offered::Theirs(Some(targets)))
    }

    /// Asks for one form; `None` when the owner has it not.
    fn fetch(
        &mut self,
        selection: Selection,
        target: u32,
        limit: usize,
        longer: Longer,
        until: Instant,
    ) -> Outcome<Option<Form>> {
        let time = self.time()?;
        self.turns += 1;
        let (atom, inbox) = (selection.atom(&self.atoms), self.atoms.inbox(self.turns));
        self.link.delete_property(self.window, inbox)?;
        self.awaited = Some(Awaited { selection: atom, target, inbox, notified: None, arrived: false });
        self.link.convert_selection(self.window, atom, target, inbox, time)?;
        let form = self.receive(target, inbox, (limit, longer), until);
        self.awaited = None;
        form
    }

    fn receive(
        &mut self,
        target: u32,
        inbox: u32,
        (limit, longer): (usize, Longer),
        until: Instant,
    ) -> Outcome<Option<Form>> {
        self.wait(until, |awaited| awaited.notified.is_some())?;
        let answer = self.awaited.as_ref().and_then(|awaited| awaited.notified);
        if answer.is_none_or(|answer| answer.property == x11rb::NONE) {
            return Ok(None);
        }
        let first = self.take(inbox, limit, longer)?;
        if first.type_ != self.atoms.INCR {
            let Some(first) = Some(first).filter(|first| first.type_ != x11rb::NONE) else { return Ok(None) };
            let (kind, format) = (first.type_, first.format);
            return Ok(Some(Form { target, kind, format, bytes: first.value.into() }));
        }
        // Having taken the announcement starts the transfer.
        let (mut kind, mut format, mut bytes) = (x11rb::NONE, 8, Vec::new());
        loop {
            self.wait(until, |awaited| std::mem::take(&mut awaited.arrived))?;
            let piece = self.take(inbox, limit - bytes.len(), longer)?;
            if piece.type_ == x11rb::NONE {
                // Its own arrival was already taken with the one before.
                continue;
            }
            if piece.value.is_empty() {
                let kind = if kind == x11rb::NONE { piece.type_ } else { kind };
                return Ok(Some(Form { target, kind, format, bytes: bytes.into() }));
            }
            (kind, format) = (piece.type_, piece.format);
            bytes.extend_from_slice(&piece.value);
            if bytes.len() > limit {
                return Ok(Some(Form { target, kind, format, bytes: bytes.into() }));
            }
        }
    }

    /// Takes what is in a property out of it. A beginning that was taken is longer than the limit.
    fn take(&mut self, inbox: u32, limit: usize, longer: Longer) -> Outcome<GetPropertyReply> {
        self.deadline.allow(X_TIMEOUT);
        if let Some(awaited) = &mut self.awaited {
            awaited.arrived = false;
        }
        let units = u32::try_from(limit / 4 + 1).unwrap_or(u32::MAX);
        let taken = self.link.get_property(true, self.window, inbox, AtomEnum::ANY, 0, units)?.reply()?;
        if taken.bytes_after > 0 || taken.value.len() > limit {
            // What is left is removed; an owner in the middle of a transfer notices that nobody takes its next piece.
            self.link.delete_property(self.window, inbox)?;
            if longer == Longer::Cut {
                return Ok(taken);
            }
            return Err(Fault::Refused(Error::too_large(format!(
                "The clipboard holds more than {limit} bytes"
            ))));
        }
        Ok(taken)
    }

    /// Serves others until what is waited for has come.
    fn wait(&mut self, until: Instant, mut come: impl FnMut(&mut Awaited) -> bool) -> Outcome<()> {
        let until = until.min(Instant::now() + STEP_TIMEOUT);
        loop {
            if self.awaited.as_mut().is_some_and(&mut come) {
                return Ok(());
            }
            if Instant::now() >= until || self.is_closed() {
                return Err(Fault::Refused(owner_silent()));
            }
            self.turn(until)?;
        }
    }

    /// The names of targets; all are asked for before the first is waited for.
    fn names(&mut self, targets: &[u32]) -> Outcome<Vec<String>> {
        self.deadline.allow(X_TIMEOUT);
        let asked: Vec<_> =
            targets.iter().map(|target| self.link.get_atom_name(*target)).collect::<Result<_, _>>()?;
        let mut names = Vec::with_capacity(asked.len());
        for cookie in asked {
            // An owner can name atoms that do not exist.
            if let Some(name) = optional(cookie.reply().map_err(Fault::from))? {
                names.push(String::from_utf8_lossy(&name.name).into_owned());
            }
        }
        Ok(names)
    }
}
