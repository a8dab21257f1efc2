//! What does a clipboard's thread do? It answers programs that paste, and the commands of this program.
//!
//! ```text
//! X events ----> handle: serve requests, feed transfers, note answers ---+
//! commands ----> Set, GiveBack: at once                                  +--> poll(X, bell)
//!          ----> Get, Snapshot: one after another, each a talk with the owner during which all the above goes on
//! ```

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::{oneshot, watch};
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    AtomEnum, ConnectionExt as _, CreateWindowAux, EventMask, PropMode, Property, SelectionNotifyEvent,
    Timestamp, Window, WindowClass,
};
use x11rb::wrapper::ConnectionExt as _;

use super::super::fault::{Fault, Outcome};
use super::super::link::{self, Deadline, Link};
use super::super::seat::X_TIMEOUT;
use super::atoms::Atoms;
use super::content::{Content, Copied, Form, Seen, Selection, Snapshot};
use super::serve::Sending;
use hotdesk_domain::error::{Error, Result};

/// How long the thread sleeps at most, so that transfers nobody fetches are noticed.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What is to be put on a clipboard.
pub(super) enum Outfit {
    Content(Content),
    Snapshot(Snapshot),
}

/// A serial number of what was put, and how often it was fetched since.
pub(super) type Put = (u64, watch::Receiver<u64>);

/// What the thread is asked to do.
pub(super) enum Command {
    Get { selection: Selection, reply: oneshot::Sender<Result<Seen>> },
    Snapshot { selection: Selection, reply: oneshot::Sender<Result<Snapshot>> },
    Copied { reply: oneshot::Sender<Result<Copied>> },
    Set { selection: Selection, outfit: Outfit, passing: bool, reply: oneshot::Sender<Result<Put>> },
    GiveBack { selection: Selection, serial: u64, former: Snapshot, reply: oneshot::Sender<Result<bool>> },
}

/// A clipboard that is ours.
pub(super) struct Owned {
    pub(super) selection: u32,
    pub(super) since: Timestamp,
    pub(super) serial: u64,
    pub(super) forms: Vec<Form>,
    pub(super) fetches: watch::Sender<u64>,
    /// Whether it was put there only for a while, or put back after that: nobody has copied anything.
    pub(super) passing: bool,
}

/// An answer that is waited for.
pub(super) struct Awaited {
    pub(super) selection: u32,
    pub(super) target: u32,
    pub(super) inbox: u32,
    pub(super) notified: Option<SelectionNotifyEvent>,
    /// The property has changed since the last look.
    pub(super) arrived: bool,
}

/// The thread's state.
pub(super) struct Owner<'a> {
    pub(super) link: Link,
    pub(super) deadline: Deadline,
    pub(super) atoms: Atoms,
    pub(super) window: Window,
    pub(super) owned: Vec<Owned>,
    pub(super) sending: Vec<Sending>,
    pub(super) awaited: Option<Awaited>,
    pub(super) turns: usize,
    display: String,
    serial: u64,
    backlog: VecDeque<Event>,
    commands: Receiver<Command>,
    /// Questions to other owners, which are asked one after another.
    questions: VecDeque<Command>,
    bell: &'a OwnedFd,
    closed: bool,
}

/// The whole life of the thread.
pub(super) fn run(
    display: u16,
    commands: Receiver<Command>,
    bell: &OwnedFd,
    ready: oneshot::Sender<Result<()>>,
) {
    let name = format!(":{display}");
    let mut owner = match Owner::open(display, commands, bell) {
        Ok(owner) => owner,
        Err(fault) => {
            // Nobody waits any more.
            let _ = ready.send(Err(fault.before_start(&name)));
            return;
        }
    };
    if ready.send(Ok(())).is_err() {
        return;
    }
    while !owner.closed {
        if let Err(fault) = owner.step() {
            let broken = matches!(fault, Fault::Broken(_));
            tracing::debug!(screen = name, ?fault, "clipboard");
            if broken {
                return;
            }
        }
    }
}

impl<'a> Owner<'a> {
    fn open(display: u16, commands: Receiver<Command>, bell: &'a OwnedFd) -> Outcome<Self> {
        let (link, deadline) = link::connect(display, X_TIMEOUT)?;
        link.prefetch_maximum_request_bytes();
        let atoms = Atoms::new(&link)?.reply()?;
        let root = link.setup().roots.first().map(|screen| screen.root);
        let root = root.ok_or_else(|| Fault::Broken(String::from("no X screen")))?;
        let window = link.generate_id()?;
        let look = CreateWindowAux::new().event_mask(EventMask::PROPERTY_CHANGE).override_redirect(1);
        let class = WindowClass::INPUT_ONLY;
        link.create_window(0, window, root, -1, -1, 1, 1, 0, class, x11rb::COPY_FROM_PARENT, &look)?
            .check()?;
        Ok(Self {
            link,
            deadline,
            atoms,
            window,
            owned: Vec::new(),
            sending: Vec::new(),
            awaited: None,
            turns: 0,
            display: format!(":{display}"),
            serial: 0,
            backlog: VecDeque::new(),
            commands,
            questions: VecDeque::new(),
            bell,
            closed: false,
        })
    }

    /// Whether nobody can ask any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Answers the next question, or waits for something to do.
    fn step(&mut self) -> Outcome<()> {
        match self.questions.pop_front() {
            Some(Command::Get { selection, reply }) => {
                if !reply.is_closed() {
                    let seen = self.get(selection);
                    self.reply(reply, seen)?;
                }
            }
            Some(Command::Snapshot { selection, reply }) => {
                if !reply.is_closed() {
                    let snapshot = self.snapshot(selection);
                    self.reply(reply, snapshot)?;
                }
            }
            Some(Command::Copied { reply }) => {
                if !reply.is_closed() {
                    let copied = self.copied();
                    self.reply(reply, copied)?;
                }
            }
            Some(Command::Set { .. } | Command::GiveBack { .. }) | None => {
                self.turn(Instant::now() + LOOK_EVERY)?;
            }
        }
        Ok(())
    }

    /// Answers; a broken connection is also the thread's own matter.
    fn reply<T>(&self, reply: oneshot::Sender<Result<T>>, outcome: Outcome<T>) -> Outcome<()> {
        let (answer, broken) = match outcome {
            Ok(value) => (Ok(value), None),
            Err(Fault::Broken(why)) => {
                (Err(Fault::Broken(why.clone()).after_start(&self.display)), Some(Fault::Broken(why)))
            }
            Err(fault @ (Fault::Refused(_) | Fault::Silent)) => (Err(fault.after_start(&self.display)), None),
        };
        // Whoever asked may have left.
        let _ = reply.send(answer);
        broken.map_or(Ok(()), Err)
    }

    /// Handles all that has come; when that is nothing, waits for something until then.
    pub(super) fn turn(&mut self, until: Instant) -> Outcome<()> {
        let mut came = false;
        loop {
            self.deadline.allow(X_TIMEOUT);
            self.link.flush()?;
            let mut idle = true;
            while let Some(event) = self.next_event()? {
                self.handle(event)?;
                idle = false;
            }
            if self.take_commands()? {
                idle = false;
            }
            if idle {
                break;
            }
            came = true;
        }
        self.give_up_on_late_sends()?;
        if came || self.closed {
            return Ok(());
        }
        self.link.flush()?;
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(std::io::Error::other)?;
        let (x, bell) =
            (PollFd::new(self.link.stream(), PollFlags::IN), PollFd::new(self.bell, PollFlags::IN));
        match poll(&mut [x, bell], Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(std::io::Error::from(error).into()),
        }
        // Its count does not matter; that it cannot be read means that nobody rang.
        let _ = rustix::io::read(self.bell, &mut [0; 8]);
        Ok(())
    }

    fn next_event(&mut self) -> Outcome<Option<Event>> {
        match self.backlog.pop_front() {
            Some(event) => Ok(Some(event)),
            None => Ok(self.link.poll_for_event()?),
        }
    }

    /// Takes what was asked; true when something was done.
    fn take_commands(&mut self) -> Outcome<bool> {
        let mut done = false;
        while !self.closed {
            match self.commands.try_recv() {
                Ok(Command::Set { selection, outfit, passing, reply }) => {
                    let put = self.set(selection, outfit, passing);
                    self.reply(reply, put)?;
                }
                Ok(Command::GiveBack { selection, serial, former, reply }) => {
                    let given = self.give_back(selection, serial, former);
                    self.reply(reply, given)?;
                }
                Ok(question @ (Command::Get { .. } | Command::Copied { .. } | Command::Snapshot { .. })) => {
                    if self.questions.len() < super::QUEUE {
                        self.questions.push_back(question);
                    } // else dropped, which its asker sees at once
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.closed = true,
            }
            done = true;
        }
        Ok(done)
    }

    fn handle(&mut self, event: Event) -> Outcome<()> {
        #[allow(clippy::wildcard_enum_match_arm)] // x11rb's list of events grows with its extensions
        match event {
            Event::SelectionRequest(request) => self.serve(&request)?,
            Event::SelectionClear(lost) => self.owned.retain(|owned| owned.selection != lost.selection),
            Event::SelectionNotify(answer) => self.note_answer(answer)?,
            Event::PropertyNotify(change) if change.window == self.window => {
                if let Some(awaited) = &mut self.awaited
                    && change.state == Property::NEW_VALUE
                    && change.atom == awaited.inbox
                {
                    awaited.arrived = true;
                }
            }
            Event::PropertyNotify(change) if change.state == Property::DELETE => {
                self.was_taken(change.window, change.atom)?;
            }
            Event::DestroyNotify(gone) => self.sending.retain(|sending| sending.requestor != gone.window),
            // Errors are about windows of others that have gone.
            _ => {}
        }
        Ok(())
    }

    fn note_answer(&mut self, answer: SelectionNotifyEvent) -> Outcome<()> {
        match &mut self.awaited {
            Some(awaited)
                if awaited.notified.is_none()
                    && (answer.selection, answer.target) == (awaited.selection, awaited.target)
                    && [awaited.inbox, x11rb::NONE].contains(&answer.property) =>
            {
                awaited.notified = Some(answer);
            }
            // From an owner that had been given up.
            Some(_) | None if answer.property != x11rb::NONE => {
                self.link.delete_property(self.window, answer.property)?;
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    /// The server's time, which selections are owned and asked for with (ICCCM 2.1).
    pub(super) fn time(&mut self) -> Outcome<Timestamp> {
        self.deadline.allow(X_TIMEOUT);
        let (clock, kind) = (self.atoms.CLOCK, AtomEnum::STRING);
        self.link.change_property8(PropMode::APPEND, self.window, clock, kind, &[])?;
        self.link.flush()?;
        loop {
            let event = self.link.wait_for_event()?;
            if let Event::PropertyNotify(tick) = &event
                && (tick.window, tick.atom) == (self.window, clock)
            {
                return Ok(tick.time);
            }
            self.backlog.push_back(event);
        }
    }

    fn set(&mut self, selection: Selection, outfit: Outfit, passing: bool) -> Outcome<Put> {
        let forms = match outfit {
            Outfit::Content(content) => content.forms(&self.atoms),
            Outfit::Snapshot(snapshot) => snapshot.forms,
        };
        let atom = selection.atom(&self.atoms);
        let since = self.time()?;
        self.link.set_selection_owner(self.window, atom, since)?;
        if self.link.get_selection_owner(atom)?.reply()?.owner != self.window {
            let error = Error::unavailable("Another program took the clipboard at the same moment");
            return Err(Fault::Refused(error.retry_after(1)));
        }
        self.owned.retain(|owned| owned.selection != atom);
        self.serial += 1;
        let (fetches, count) = watch::channel(0);
        self.owned.push(Owned { selection: atom, since, serial: self.serial, forms, fetches, passing });
        Ok((self.serial, count))
    }

    fn give_back(&mut self, selection: Selection, serial: u64, former: Snapshot) -> Outcome<bool> {
        let atom = selection.atom(&self.atoms);
        if !self.owned.iter().any(|owned| owned.selection == atom && owned.serial == serial) {
            return Ok(false);
        }
        if former.is_empty() {
            let now = self.time()?;
            self.link.set_selection_owner(x11rb::NONE, atom, now)?;
            self.owned.retain(|owned| owned.selection != atom);
        } else {
            self.set(selection, Outfit::Snapshot(former), true)?;
        }
        Ok(true)
    }
}
