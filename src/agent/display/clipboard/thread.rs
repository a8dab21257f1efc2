//! Event loop of a clipboard thread.
//!
//! ```text
//! X events ----> handle: serve requests, continue transfers, record answers ---+
//! commands ----> Set, Restore: at once                                       +--> poll(X, wakeup)
//!          ----> Get, Snapshot, Copied: one after another; while one waits for the owner,
//!                the loop above continues
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

use super::atoms::ClipboardAtoms;
use super::content::{ClipboardContents, ClipboardItem, CopiedContent, Selection, Snapshot, TargetData};
use super::transfer::OutgoingTransfer;
use crate::display::fault::{Fault, Outcome};
use crate::display::link::{self, Deadline, Link, X_TIMEOUT};
use hotdesk_domain::error::{Error, Result};

/// Longest sleep of the thread, so that stale transfers are noticed.
const WAKE_INTERVAL: Duration = Duration::from_secs(2);

/// What to put on a clipboard.
pub(in crate::display) enum NewContent {
    Item(ClipboardItem),
    Snapshot(Snapshot),
}

/// Serial number of the content, and the count of its fetches.
pub(in crate::display) type SetReceipt = (u64, watch::Receiver<u64>);

/// Command to the thread.
pub(in crate::display) enum Command {
    Get {
        selection: Selection,
        reply: oneshot::Sender<Result<ClipboardContents>>,
    },
    Snapshot {
        selection: Selection,
        reply: oneshot::Sender<Result<Snapshot>>,
    },
    Copied {
        reply: oneshot::Sender<Result<CopiedContent>>,
    },
    Set {
        selection: Selection,
        content: NewContent,
        temporary: bool,
        reply: oneshot::Sender<Result<SetReceipt>>,
    },
    Restore {
        selection: Selection,
        serial: u64,
        previous: Snapshot,
        reply: oneshot::Sender<Result<bool>>,
    },
}

/// A selection that this thread owns.
pub(super) struct OwnedSelection {
    pub(super) selection: u32,
    pub(super) since: Timestamp,
    pub(super) serial: u64,
    pub(super) target_data: Vec<TargetData>,
    pub(super) fetches: watch::Sender<u64>,
    /// Whether the content is temporary or restored: no program copied anything then.
    pub(super) temporary: bool,
}

/// A conversion that the thread waits for.
pub(super) struct PendingConversion {
    pub(super) selection: u32,
    pub(super) target: u32,
    pub(super) inbox: u32,
    pub(super) notified: Option<SelectionNotifyEvent>,
    /// Whether the property changed since the last read.
    pub(super) arrived: bool,
}

/// State of the thread.
pub(super) struct ClipboardThread<'a> {
    pub(super) link: Link,
    pub(super) deadline: Deadline,
    pub(super) atoms: ClipboardAtoms,
    pub(super) window: Window,
    pub(super) owned: Vec<OwnedSelection>,
    pub(super) sending: Vec<OutgoingTransfer>,
    pub(super) awaited: Option<PendingConversion>,
    pub(super) inbox_turn: usize,
    display: String,
    serial: u64,
    backlog: VecDeque<Event>,
    commands: Receiver<Command>,
    /// Reads of other owners' clipboards, which run one after another.
    questions: VecDeque<Command>,
    wakeup: &'a OwnedFd,
    closed: bool,
}

/// Runs the thread until its handle is dropped or its X connection ends.
pub(super) fn run(
    display: u16,
    commands: Receiver<Command>,
    wakeup: &OwnedFd,
    ready: oneshot::Sender<Result<()>>,
) {
    let name = format!(":{display}");
    let mut owner = match ClipboardThread::open(display, commands, wakeup) {
        Ok(owner) => owner,
        Err(fault) => {
            // The receiver is gone when the starter timed out.
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
            tracing::debug!(screen = name, ?fault, "a clipboard event failed");
            if broken {
                return;
            }
        }
    }
}

impl<'a> ClipboardThread<'a> {
    fn open(display: u16, commands: Receiver<Command>, wakeup: &'a OwnedFd) -> Outcome<Self> {
        let (link, deadline) = link::connect(display, X_TIMEOUT)?;
        link.prefetch_maximum_request_bytes();
        let atoms = ClipboardAtoms::new(&link)?.reply()?;
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
            inbox_turn: 0,
            display: format!(":{display}"),
            serial: 0,
            backlog: VecDeque::new(),
            commands,
            questions: VecDeque::new(),
            wakeup,
            closed: false,
        })
    }

    /// Whether the handle was dropped.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Runs the next queued read, or processes events.
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
            Some(Command::Set { .. } | Command::Restore { .. }) | None => {
                self.process_events(Instant::now() + WAKE_INTERVAL)?;
            }
        }
        Ok(())
    }

    /// Sends the outcome. A broken connection also ends the thread.
    fn reply<T>(&self, reply: oneshot::Sender<Result<T>>, outcome: Outcome<T>) -> Outcome<()> {
        let (answer, broken) = match outcome {
            Ok(value) => (Ok(value), None),
            Err(Fault::Broken(why)) => {
                (Err(Fault::Broken(why.clone()).after_start(&self.display)), Some(Fault::Broken(why)))
            }
            Err(fault @ (Fault::Refused(_) | Fault::Silent)) => (Err(fault.after_start(&self.display)), None),
        };
        // The receiver is gone when the request timed out.
        let _ = reply.send(answer);
        broken.map_or(Ok(()), Err)
    }

    /// Processes all pending events and commands; when there are none, waits for one until `until`.
    pub(super) fn process_events(&mut self, until: Instant) -> Outcome<()> {
        let mut progressed = false;
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
            progressed = true;
        }
        self.drop_stale_transfers()?;
        if progressed || self.closed {
            return Ok(());
        }
        self.link.flush()?;
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(std::io::Error::other)?;
        let (x, wakeup) =
            (PollFd::new(self.link.stream(), PollFlags::IN), PollFd::new(self.wakeup, PollFlags::IN));
        match poll(&mut [x, wakeup], Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(std::io::Error::from(error).into()),
        }
        // The count does not matter, and an unreadable eventfd means that there was no wakeup.
        let _ = rustix::io::read(self.wakeup, &mut [0; 8]);
        Ok(())
    }

    fn next_event(&mut self) -> Outcome<Option<Event>> {
        match self.backlog.pop_front() {
            Some(event) => Ok(Some(event)),
            None => Ok(self.link.poll_for_event()?),
        }
    }

    /// Takes pending commands; true when there were any.
    fn take_commands(&mut self) -> Outcome<bool> {
        let mut done = false;
        while !self.closed {
            match self.commands.try_recv() {
                Ok(Command::Set { selection, content, temporary, reply }) => {
                    let receipt = self.set(selection, content, temporary);
                    self.reply(reply, receipt)?;
                }
                Ok(Command::Restore { selection, serial, previous, reply }) => {
                    let restored = self.restore(selection, serial, previous);
                    self.reply(reply, restored)?;
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
            Event::SelectionNotify(answer) => self.record_answer(answer)?,
            Event::PropertyNotify(change) if change.window == self.window => {
                if let Some(awaited) = &mut self.awaited
                    && change.state == Property::NEW_VALUE
                    && change.atom == awaited.inbox
                {
                    awaited.arrived = true;
                }
            }
            Event::PropertyNotify(change) if change.state == Property::DELETE => {
                self.send_next_chunk(change.window, change.atom)?;
            }
            Event::DestroyNotify(gone) => self.sending.retain(|sending| sending.requestor != gone.window),
            // X errors are about windows of other programs that are gone.
            _ => {}
        }
        Ok(())
    }

    fn record_answer(&mut self, answer: SelectionNotifyEvent) -> Outcome<()> {
        match &mut self.awaited {
            Some(awaited)
                if awaited.notified.is_none()
                    && (answer.selection, answer.target) == (awaited.selection, awaited.target)
                    && [awaited.inbox, x11rb::NONE].contains(&answer.property) =>
            {
                awaited.notified = Some(answer);
            }
            // A late answer from an owner that timed out.
            Some(_) | None if answer.property != x11rb::NONE => {
                self.link.delete_property(self.window, answer.property)?;
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    /// The server's time, which claims of and requests for selections need (ICCCM 2.1).
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

    fn set(&mut self, selection: Selection, content: NewContent, temporary: bool) -> Outcome<SetReceipt> {
        let target_data = match content {
            NewContent::Item(content) => content.target_data(&self.atoms),
            NewContent::Snapshot(snapshot) => snapshot.target_data,
        };
        let atom = selection.atom(&self.atoms);
        let since = self.time()?;
        self.link.set_selection_owner(self.window, atom, since)?;
        if self.link.get_selection_owner(atom)?.reply()?.owner != self.window {
            let error = Error::unavailable("Another program took the clipboard at the same time: try again");
            return Err(Fault::Refused(error.retry_after(1)));
        }
        self.owned.retain(|owned| owned.selection != atom);
        self.serial += 1;
        let (fetches, count) = watch::channel(0);
        self.owned.push(OwnedSelection {
            selection: atom,
            since,
            serial: self.serial,
            target_data,
            fetches,
            temporary,
        });
        Ok((self.serial, count))
    }

    fn restore(&mut self, selection: Selection, serial: u64, previous: Snapshot) -> Outcome<bool> {
        let atom = selection.atom(&self.atoms);
        if !self.owned.iter().any(|owned| owned.selection == atom && owned.serial == serial) {
            return Ok(false);
        }
        if previous.is_empty() {
            let now = self.time()?;
            self.link.set_selection_owner(x11rb::NONE, atom, now)?;
            self.owned.retain(|owned| owned.selection != atom);
        } else {
            self.set(selection, NewContent::Snapshot(previous), true)?;
        }
        Ok(true)
    }
}
