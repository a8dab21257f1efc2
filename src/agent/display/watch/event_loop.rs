//! What does a watch's thread do? It waits for notices, looks when one concerns it, and tells what is different.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::oneshot;
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xfixes::{self, ConnectionExt as _, SelectionEvent};
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, PropertyNotifyEvent, Window,
};

use super::super::fault::{Fault, Outcome};
use super::super::link::{self, Deadline, Link};
use super::super::seat::X_TIMEOUT;
use super::super::windows::atoms::Atoms;
use super::idle::Alarms;
use super::{Known, Sign, Teller};
use hotdesk_domain::event::IDLE_SECONDS;
use hotdesk_domain::resolution::Size;

/// Pause before a look that failed is tried again: the server is grabbed or overloaded.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// A screen has another size once it has kept it for this long: one that changes in both directions may pass through a
/// third, a round trip long, which is some tenths of a second on a busy machine.
const SETTLED: Duration = Duration::from_millis(250);

/// The thread's state.
pub(super) struct Eye<'a> {
    pub(super) link: Link,
    pub(super) deadline: Deadline,
    pub(super) atoms: Atoms,
    pub(super) root: Window,
    pub(super) known: &'a mut Known,
    pub(super) tell: Teller,
    /// Whether a window manager tells of the windows.
    pub(super) managed: bool,
    /// Since when no window is active.
    pub(super) unfocused: Option<Instant>,
    /// Windows whose title has changed since the last look.
    pub(super) retitled: BTreeSet<Window>,
    /// Whether the windows have changed since the last look.
    stale: bool,
    /// The size that the screen has had since then, if it stays.
    resized: Option<(Size, Instant)>,
    alarms: Option<Alarms>,
    /// When it is to be asked whether the screen has rested.
    due: Option<Instant>,
}

/// The whole life of the thread; returns why it ended. `ready` is told whether the screen is at rest.
pub(super) fn run(
    display: u16,
    known: &mut Known,
    tell: Teller,
    bell: &OwnedFd,
    ready: oneshot::Sender<bool>,
) -> String {
    let opened = Eye::open(display, known, tell);
    let outcome = opened.and_then(|(mut eye, rested)| match ready.send(rested) {
        Ok(()) => eye.watch(bell),
        Err(_) => Ok(()),
    });
    match outcome {
        Ok(()) => String::from("nobody watches any more"),
        Err(Fault::Refused(error)) => error.to_string(),
        Err(Fault::Silent) => String::from("the X server does not answer"),
        Err(Fault::Broken(why)) => why,
    }
}

impl<'a> Eye<'a> {
    fn open(display: u16, known: &'a mut Known, tell: Teller) -> Outcome<(Self, bool)> {
        let (link, deadline) = link::connect(display, X_TIMEOUT)?;
        let screen = link.setup().roots.first();
        let (root, size) = screen
            .map(|it| (it.root, Size { width: it.width_in_pixels, height: it.height_in_pixels }))
            .ok_or_else(|| Fault::Broken(String::from("no X screen")))?;
        let atoms = Atoms::new(&link)?.reply()?;
        let clipboard = link.intern_atom(false, b"CLIPBOARD")?.reply()?.atom;
        // What the server tells is asked for before the first look, so that nothing falls in between.
        let root_events =
            EventMask::PROPERTY_CHANGE | EventMask::STRUCTURE_NOTIFY | EventMask::SUBSTRUCTURE_NOTIFY;
        let look = ChangeWindowAttributesAux::new().event_mask(root_events);
        link.change_window_attributes(root, &look)?.check()?;
        link.xfixes_query_version(5, 0)?.reply()?;
        let mask = xfixes::SelectionEventMask::SET_SELECTION_OWNER;
        link.xfixes_select_selection_input(root, clipboard, mask)?.check()?;
        deadline.allow(X_TIMEOUT);
        let alarms = Alarms::set(&link)?;
        let left = alarms.as_ref().map(|alarms| alarms.rests_in(&link)).transpose()?.flatten();
        let server = getsockopt(&link.stream().as_fd(), PeerCredentials).ok().map(|peer| peer.pid());
        let mut eye = Self {
            link,
            deadline,
            atoms,
            root,
            known,
            tell,
            managed: false,
            unfocused: None,
            retitled: BTreeSet::new(),
            stale: false,
            resized: None,
            alarms,
            due: left.map(|left| Instant::now() + left),
        };
        if eye.known.server != server {
            eye.known.close_all(&mut eye.tell);
            eye.known.server = server;
        }
        let before = eye.known.windows.keys().copied().collect::<Vec<_>>();
        for window in before {
            eye.observe(window)?;
        }
        eye.look()?;
        eye.note_size(size);
        eye.known.begun = true;
        // One that does not count is at rest for ever: it holds up no other.
        Ok((eye, left.is_none()))
    }

    /// Watches until the bell rings.
    fn watch(&mut self, bell: &OwnedFd) -> Outcome<()> {
        loop {
            self.deadline.allow(X_TIMEOUT);
            self.link.flush()?;
            while let Some(event) = self.link.poll_for_event()? {
                self.take_in(&event)?;
            }
            if self.stale || !self.retitled.is_empty() {
                self.stale = false;
                match self.look() {
                    // The answers may have brought more notices along.
                    Ok(()) => {}
                    Err(fault @ Fault::Broken(_)) => return Err(fault),
                    Err(fault @ (Fault::Silent | Fault::Refused(_))) => {
                        tracing::debug!(?fault, "a look at a screen failed");
                        self.stale = true;
                        if rings(&mut [PollFd::new(bell, PollFlags::IN)], Some(RETRY_PAUSE))? {
                            return Ok(());
                        }
                    }
                }
                continue;
            }
            let settled = self.resized.map(|(_, since)| SETTLED.saturating_sub(since.elapsed()));
            if let Some((size, _)) = self.resized.take_if(|_| settled == Some(Duration::ZERO)) {
                self.note_size(size);
                continue;
            }
            if self.due.take_if(|due| *due <= Instant::now()).is_some() {
                self.ask_for_rest()?;
                continue;
            }
            let due = self.due.map(|due| due.saturating_duration_since(Instant::now()));
            let patience = [settled, due].into_iter().flatten().min();
            let (bell, server) =
                (PollFd::new(bell, PollFlags::IN), PollFd::new(self.link.stream(), PollFlags::IN));
            if rings(&mut [bell, server], patience)? {
                return Ok(());
            }
        }
    }

    fn take_in(&mut self, event: &Event) -> Outcome<()> {
        #[allow(clippy::wildcard_enum_match_arm)] // x11rb's list of events grows with its extensions
        match event {
            Event::PropertyNotify(change) => self.note_property(change),
            Event::ConfigureNotify(change) if change.window == self.root => {
                let size = Size { width: change.width, height: change.height };
                self.resized = Some((size, Instant::now()));
            }
            Event::DestroyNotify(gone) => self.forget(gone.window),
            Event::MapNotify(_) | Event::UnmapNotify(_) | Event::ReparentNotify(_) => self.stale = true,
            // With a window manager its word counts; it tells later than the server does.
            Event::FocusIn(_) | Event::FocusOut(_) => self.stale |= !self.managed,
            Event::XfixesSelectionNotify(change)
                if change.subtype == SelectionEvent::SET_SELECTION_OWNER && change.owner != x11rb::NONE =>
            {
                (self.tell)(Sign::Copied);
            }
            Event::SyncAlarmNotify(told) => {
                if let Some(alarms) = &mut self.alarms
                    && let Some(sign) = alarms.sign(&self.link, told)?
                {
                    let moved = matches!(sign, Sign::Moved);
                    self.due = moved.then(|| Instant::now() + Duration::from_secs(IDLE_SECONDS.into()));
                    (self.tell)(sign);
                }
            }
            // Errors are about windows that have gone.
            _ => {}
        }
        Ok(())
    }

    fn note_property(&mut self, change: &PropertyNotifyEvent) {
        let atoms = &self.atoms;
        if change.window == self.root {
            let told = [atoms._NET_CLIENT_LIST, atoms._NET_ACTIVE_WINDOW, atoms._NET_SUPPORTING_WM_CHECK];
            self.stale |= told.contains(&change.atom);
        } else if [atoms._NET_WM_NAME, atoms._NET_WM_VISIBLE_NAME, AtomEnum::WM_NAME.into()]
            .contains(&change.atom)
        {
            self.retitled.insert(change.window);
        }
    }

    /// The screen should have rested by now: tells so, or asks again when it may have.
    fn ask_for_rest(&mut self) -> Outcome<()> {
        let Some(alarms) = &self.alarms else { return Ok(()) };
        match alarms.rests_in(&self.link)? {
            Some(left) => self.due = Some(Instant::now() + left),
            None => (self.tell)(Sign::Rested),
        }
        Ok(())
    }

    fn note_size(&mut self, size: Size) {
        let before = self.known.size.replace(size);
        if before.is_some_and(|before| before != size) {
            (self.tell)(Sign::Resized(size));
        }
    }
}

/// Waits for one of these; whether it is the first.
fn rings(sources: &mut [PollFd<'_>], patience: Option<Duration>) -> Outcome<bool> {
    let patience = patience.map(Timespec::try_from).transpose().map_err(std::io::Error::other)?;
    match poll(sources, patience.as_ref()) {
        Ok(_) => Ok(sources.first().is_some_and(|bell| !bell.revents().is_empty())),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(std::io::Error::from(error).into()),
    }
}
