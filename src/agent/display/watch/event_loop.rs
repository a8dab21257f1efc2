//! Event loop of a watch thread: waits for X events, reads what they concern, reports differences.

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

use super::idle::Alarms;
use super::{EventCallback, KnownState, ScreenEvent};
use crate::display::fault::{Fault, Outcome};
use crate::display::link::{self, Deadline, Link, X_TIMEOUT};
use crate::display::window::atoms::EwmhAtoms;
use hotdesk_domain::desktop::event::IDLE_SECONDS;
use hotdesk_domain::desktop::resolution::Size;

/// Pause before a failed read is tried again: the server is grabbed or overloaded.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// A new size counts after this time. A resize that changes both sides may pass through an intermediate size
/// for a round trip, which is some tenths of a second on a busy machine.
const SETTLE_TIME: Duration = Duration::from_millis(250);

/// State of the thread.
pub(super) struct EventLoop<'a> {
    pub(super) link: Link,
    pub(super) deadline: Deadline,
    pub(super) atoms: EwmhAtoms,
    pub(super) root: Window,
    pub(super) known: &'a mut KnownState,
    pub(super) callback: EventCallback,
    /// Whether a window manager publishes the list of windows.
    pub(super) managed: bool,
    /// Since when no window is active.
    pub(super) unfocused: Option<Instant>,
    /// Windows whose title changed since the last read.
    pub(super) retitled: BTreeSet<Window>,
    /// Whether the list of windows changed since the last read.
    stale: bool,
    /// The new size and when it was seen.
    resized: Option<(Size, Instant)>,
    alarms: Option<Alarms>,
    /// When to check again whether the screen is idle.
    due: Option<Instant>,
}

/// Runs the thread until its wakeup; returns why it ended. `ready` receives whether the screen is idle.
pub(super) fn run(
    display: u16,
    known: &mut KnownState,
    callback: EventCallback,
    wakeup: &OwnedFd,
    ready: oneshot::Sender<bool>,
) -> String {
    let opened = EventLoop::open(display, known, callback);
    let outcome = opened.and_then(|(mut event_loop, idle)| match ready.send(idle) {
        Ok(()) => event_loop.watch(wakeup),
        Err(_) => Ok(()),
    });
    match outcome {
        Ok(()) => String::from("the watch was dropped"),
        Err(fault) => format!("{fault:#}"),
    }
}

impl<'a> EventLoop<'a> {
    fn open(display: u16, known: &'a mut KnownState, callback: EventCallback) -> Outcome<(Self, bool)> {
        let (link, deadline) = link::connect(display, X_TIMEOUT)?;
        let screen = link.setup().roots.first();
        let (root, size) = screen
            .map(|it| (it.root, Size { width: it.width_in_pixels, height: it.height_in_pixels }))
            .ok_or_else(|| Fault::Broken(String::from("no X screen")))?;
        let atoms = EwmhAtoms::new(&link)?.reply()?;
        let clipboard = link.intern_atom(false, b"CLIPBOARD")?.reply()?.atom;
        // Subscribes before the first read, so that no event is lost in between.
        let root_events =
            EventMask::PROPERTY_CHANGE | EventMask::STRUCTURE_NOTIFY | EventMask::SUBSTRUCTURE_NOTIFY;
        let look = ChangeWindowAttributesAux::new().event_mask(root_events);
        link.change_window_attributes(root, &look)?.check()?;
        link.xfixes_query_version(5, 0)?.reply()?;
        let mask = xfixes::SelectionEventMask::SET_SELECTION_OWNER;
        link.xfixes_select_selection_input(root, clipboard, mask)?.check()?;
        deadline.allow(X_TIMEOUT);
        let alarms = Alarms::set(&link)?;
        let left = alarms.as_ref().map(|alarms| alarms.time_until_idle(&link)).transpose()?.flatten();
        let server = getsockopt(&link.stream().as_fd(), PeerCredentials).ok().map(|peer| peer.pid());
        let mut event_loop = Self {
            link,
            deadline,
            atoms,
            root,
            known,
            callback,
            managed: false,
            unfocused: None,
            retitled: BTreeSet::new(),
            stale: false,
            resized: None,
            alarms,
            due: left.map(|left| Instant::now() + left),
        };
        if event_loop.known.server != server {
            event_loop.known.close_all(&mut event_loop.callback);
            event_loop.known.server = server;
        }
        let before = event_loop.known.windows.keys().copied().collect::<Vec<_>>();
        for window in before {
            event_loop.observe(window)?;
        }
        event_loop.look()?;
        event_loop.record_size(size);
        event_loop.known.reports_existing = true;
        // A screen without a counter counts as idle, so that it does not make the computer look used.
        Ok((event_loop, left.is_none()))
    }

    /// Watches until the wakeup.
    fn watch(&mut self, wakeup: &OwnedFd) -> Outcome<()> {
        loop {
            self.deadline.allow(X_TIMEOUT);
            self.link.flush()?;
            while let Some(event) = self.link.poll_for_event()? {
                self.handle_event(&event)?;
            }
            if self.stale || !self.retitled.is_empty() {
                self.stale = false;
                match self.look() {
                    // The replies may have brought further events.
                    Ok(()) => {}
                    Err(fault @ Fault::Broken(_)) => return Err(fault),
                    Err(fault @ (Fault::Silent | Fault::Refused(_))) => {
                        tracing::debug!(?fault, "could not read a screen; trying again");
                        self.stale = true;
                        if wait_for_wakeup(&mut [PollFd::new(wakeup, PollFlags::IN)], Some(RETRY_PAUSE))? {
                            return Ok(());
                        }
                    }
                }
                continue;
            }
            let settled = self.resized.map(|(_, since)| SETTLE_TIME.saturating_sub(since.elapsed()));
            if let Some((size, _)) = self.resized.take_if(|_| settled == Some(Duration::ZERO)) {
                self.record_size(size);
                continue;
            }
            if self.due.take_if(|due| *due <= Instant::now()).is_some() {
                self.check_idle()?;
                continue;
            }
            let due = self.due.map(|due| due.saturating_duration_since(Instant::now()));
            let timeout = [settled, due].into_iter().flatten().min();
            let (wakeup, server) =
                (PollFd::new(wakeup, PollFlags::IN), PollFd::new(self.link.stream(), PollFlags::IN));
            if wait_for_wakeup(&mut [wakeup, server], timeout)? {
                return Ok(());
            }
        }
    }

    fn handle_event(&mut self, event: &Event) -> Outcome<()> {
        #[allow(clippy::wildcard_enum_match_arm)] // x11rb's list of events grows with its extensions
        match event {
            Event::PropertyNotify(change) => self.handle_property(change),
            Event::ConfigureNotify(change) if change.window == self.root => {
                let size = Size { width: change.width, height: change.height };
                self.resized = Some((size, Instant::now()));
            }
            Event::DestroyNotify(gone) => self.forget(gone.window),
            Event::MapNotify(_) | Event::UnmapNotify(_) | Event::ReparentNotify(_) => self.stale = true,
            // With a window manager its property counts, which changes later than the X focus.
            Event::FocusIn(_) | Event::FocusOut(_) => self.stale |= !self.managed,
            Event::XfixesSelectionNotify(change)
                if change.subtype == SelectionEvent::SET_SELECTION_OWNER && change.owner != x11rb::NONE =>
            {
                (self.callback)(ScreenEvent::Copied);
            }
            Event::SyncAlarmNotify(notify) => {
                if let Some(alarms) = &mut self.alarms
                    && let Some(event) = alarms.event(&self.link, notify)?
                {
                    let active_again = matches!(event, ScreenEvent::BecameActive);
                    self.due =
                        active_again.then(|| Instant::now() + Duration::from_secs(IDLE_SECONDS.into()));
                    (self.callback)(event);
                }
            }
            // X errors are about windows that are gone.
            _ => {}
        }
        Ok(())
    }

    fn handle_property(&mut self, change: &PropertyNotifyEvent) {
        let atoms = &self.atoms;
        if change.window == self.root {
            let list_atoms =
                [atoms._NET_CLIENT_LIST, atoms._NET_ACTIVE_WINDOW, atoms._NET_SUPPORTING_WM_CHECK];
            self.stale |= list_atoms.contains(&change.atom);
        } else if [atoms._NET_WM_NAME, atoms._NET_WM_VISIBLE_NAME, AtomEnum::WM_NAME.into()]
            .contains(&change.atom)
        {
            self.retitled.insert(change.window);
        }
    }

    /// Reports that the screen is idle, or schedules the next check.
    fn check_idle(&mut self) -> Outcome<()> {
        let Some(alarms) = &self.alarms else { return Ok(()) };
        match alarms.time_until_idle(&self.link)? {
            Some(left) => self.due = Some(Instant::now() + left),
            None => (self.callback)(ScreenEvent::BecameIdle),
        }
        Ok(())
    }

    fn record_size(&mut self, size: Size) {
        let before = self.known.size.replace(size);
        if before.is_some_and(|before| before != size) {
            (self.callback)(ScreenEvent::Resized(size));
        }
    }
}

/// Waits for one of the sources; returns whether the first is ready.
fn wait_for_wakeup(sources: &mut [PollFd<'_>], timeout: Option<Duration>) -> Outcome<bool> {
    let timeout = timeout.map(Timespec::try_from).transpose().map_err(std::io::Error::other)?;
    match poll(sources, timeout.as_ref()) {
        Ok(_) => Ok(sources.first().is_some_and(|wakeup| !wakeup.revents().is_empty())),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(std::io::Error::from(error).into()),
    }
}
