//! Who owns a screen's X connection? One thread per screen, which does one piece of work after another.
//!
//! ```text
//! work -> bounded queue -> barrier (does X answer?) -> the work -> release what is still held -> reply
//! ```
//! A barrier that times out marks the seat silent: what is asked until X answers again is refused after
//! [`X_UNRESPONSIVE_TIMEOUT`] and nothing of it is sent, so that no input arrives late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use x11rb::connection::{Connection, RequestConnection, SequenceNumber};
use x11rb::protocol::Event;
use x11rb::protocol::damage::{self, ConnectionExt as _};
use x11rb::protocol::xfixes::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{self, ChangeWindowAttributesAux, ConnectionExt as _, EventMask};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::protocol::{shm, xkb::ConnectionExt as _};

use super::capture::Camera;
use super::changes::Changes;
use super::fault::{Fault, Outcome};
use super::keyboard::Keyboard;
use super::link::{self, Deadline, Link};
use super::observe::Names;
use hotdesk_domain::area::Area;
use hotdesk_domain::error::Error;
use hotdesk_domain::resolution::Size;

/// How long one round trip may take (threats.md T17).
pub(super) const X_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a silent server is given per piece of work: enough for one that just came back, and a full queue of
/// [`QUEUE`] is refused in under a second.
const X_UNRESPONSIVE_TIMEOUT: Duration = Duration::from_millis(20);
/// Pieces of work that wait for one screen; past it callers are told to retry. Humans and agents send a handful.
pub(super) const QUEUE: usize = 32;

/// A piece of work for a seat's thread.
pub(super) type Job = Box<dyn FnOnce(&mut Seat) + Send>;

/// The size of a screen as last seen, readable without asking its thread.
#[derive(Debug)]
pub(super) struct SeenSize(AtomicU32);

impl SeenSize {
    pub(super) fn new(size: Size) -> Self {
        Self(AtomicU32::new(pack(size)))
    }

    pub(super) fn get(&self) -> Size {
        let packed = self.0.load(Ordering::Relaxed);
        Size { width: (packed >> 16) as u16, height: packed as u16 }
    }

    pub(super) fn set(&self, size: Size) {
        self.0.store(pack(size), Ordering::Relaxed);
    }
}

fn pack(size: Size) -> u32 {
    u32::from(size.width) << 16 | u32::from(size.height)
}

/// What is pressed by us and must come up again, whatever happens.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) buttons: Vec<u8>,
    pub(super) keys: Vec<u8>,
}

/// The server's record of what was painted, and a region to take it into.
#[derive(Clone, Copy, Debug)]
pub(super) struct Damage {
    id: damage::Damage,
    parts: xfixes::Region,
}

/// A screen's connection and what is known over it. Lives on the screen's own thread.
pub(super) struct Seat {
    pub(super) link: Link,
    pub(super) deadline: Deadline,
    pub(super) display: String,
    pub(super) root: xproto::Window,
    pub(super) size: Arc<SeenSize>,
    pub(super) held: Held,
    /// What a client asked to keep down between requests.
    pub(super) kept: Held,
    /// What scrolling has left over of whole wheel steps: to the right, and down.
    pub(super) scrolled: (f64, f64),
    pub(super) keyboard: Keyboard,
    /// What is kept between captures.
    pub(super) camera: Camera,
    /// Whether the server takes a memory file by its descriptor (MIT-SHM 1.2).
    pub(super) has_shm: bool,
    /// Whether pixels are four bytes, blue first: the only form that is read.
    pub(super) bgrx: bool,
    /// The damage object, where the server has the extension.
    pub(super) damage: Option<Damage>,
    /// Counts the changes of the screen's content that were seen.
    pub(super) frame: u64,
    /// Where they were.
    pub(super) changes: Changes,
    /// Names of properties.
    pub(super) names: Names,
    /// The pointer's button mask (core protocol, KEYBUTMASK) before the action under way.
    pub(super) buttons_down: u16,
    /// Which window had the keyboard after the last action.
    pub(super) last_active: Option<xproto::Window>,
    silent: Option<(SequenceNumber, Instant)>,
    broken: Option<String>,
}

impl Seat {
    /// Connects and sets up what the work needs.
    pub(super) fn open(display: u16, size: Arc<SeenSize>) -> Outcome<Self> {
        let (link, deadline) = link::connect(display, X_TIMEOUT)?;
        let setup = link.setup();
        let screen = setup.roots.first().ok_or_else(|| Fault::Broken(String::from("no X screen")))?;
        let root = screen.root;
        let bgrx = is_bgrx(setup, screen);
        size.set(Size { width: screen.width_in_pixels, height: screen.height_in_pixels });
        if link.extension_information(x11rb::protocol::xtest::X11_EXTENSION_NAME)?.is_none() {
            return Err(Fault::Broken(String::from("the X server lacks XTEST")));
        }
        if link.extension_information(x11rb::protocol::xfixes::X11_EXTENSION_NAME)?.is_none() {
            return Err(Fault::Broken(String::from("the X server lacks XFIXES")));
        }
        link.xfixes_query_version(5, 0)?.reply()?;
        let has_shm = match link.extension_information(shm::X11_EXTENSION_NAME)? {
            None => false,
            Some(_) => {
                let version = shm::ConnectionExt::shm_query_version(&link)?.reply()?;
                (version.major_version, version.minor_version) >= (1, 2)
            }
        };
        let damage = match link.extension_information(damage::X11_EXTENSION_NAME)? {
            None => None,
            Some(_) => {
                link.damage_query_version(1, 1)?.reply()?;
                let (id, parts) = (link.generate_id()?, link.generate_id()?);
                link.xfixes_create_region(parts, &[])?.check()?;
                link.damage_create(id, root, damage::ReportLevel::NON_EMPTY)?.check()?;
                Some(Damage { id, parts })
            }
        };
        let watch = ChangeWindowAttributesAux::new().event_mask(EventMask::STRUCTURE_NOTIFY);
        link.change_window_attributes(root, &watch)?.check()?;
        let has_xkb = match link.extension_information(x11rb::protocol::xkb::X11_EXTENSION_NAME)? {
            None => false,
            Some(_) => link.xkb_use_extension(1, 0)?.reply()?.supported,
        };
        let names = Names::ask(&link)?;
        let mut seat = Self {
            link,
            deadline,
            display: format!(":{display}"),
            root,
            size,
            held: Held::default(),
            kept: Held::default(),
            scrolled: (0.0, 0.0),
            keyboard: Keyboard::new(has_xkb),
            camera: Camera::new(),
            has_shm,
            bgrx,
            damage,
            frame: 0,
            changes: Changes::default(),
            names,
            buttons_down: 0,
            last_active: None,
            silent: None,
            broken: None,
        };
        seat.release_abandoned_buttons()?;
        Ok(seat)
    }

    /// Lets the waits of the next step last as long as one round trip may.
    pub(super) fn rearm(&self) {
        self.deadline.allow(X_TIMEOUT);
    }

    /// A round trip: on return the server has processed everything sent before.
    pub(super) fn barrier(&self) -> Outcome<()> {
        self.rearm();
        self.link.get_input_focus()?.reply()?;
        Ok(())
    }

    /// Asks whether X answers. While it is silent the question asked first stays open and is only looked at.
    fn attend(&mut self) -> Outcome<()> {
        let (question, patience) = match self.silent {
            // Many that waited for their turn share one look: each one's own would make the last wait for all of them.
            Some((_, looked)) if looked.elapsed() < X_UNRESPONSIVE_TIMEOUT => return Err(Fault::Silent),
            Some((question, _)) => (question, X_UNRESPONSIVE_TIMEOUT),
            None => {
                self.deadline.allow(X_TIMEOUT);
                let cookie = self.link.get_input_focus()?;
                let question = cookie.sequence_number();
                // The cookie's drop would discard the reply; it is asked for by number below.
                std::mem::forget(cookie);
                (question, X_TIMEOUT)
            }
        };
        self.deadline.allow(patience);
        match self.link.wait_for_reply(question).map_err(Fault::from) {
            Ok(_) => {
                self.silent = None;
                self.read_events()
            }
            Err(Fault::Silent) => {
                if self.silent.is_none() {
                    tracing::warn!(screen = self.display, "the X server does not answer");
                }
                self.silent = Some((question, Instant::now()));
                Err(Fault::Silent)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Takes in what the server told since the last look.
    pub(super) fn read_events(&mut self) -> Outcome<()> {
        while let Some(event) = self.link.poll_for_event()? {
            self.take_in(&event)?;
        }
        Ok(())
    }

    /// Takes in one event.
    pub(super) fn take_in(&mut self, event: &Event) -> Outcome<()> {
        #[allow(clippy::wildcard_enum_match_arm)] // x11rb's list of events grows with its extensions
        match event {
            // One is sent per change after the last subtraction, so there is at most one to answer.
            Event::DamageNotify(_) => {
                if let Some(Damage { id, parts }) = self.damage {
                    self.link.damage_subtract(id, x11rb::NONE, parts)?;
                    let painted = self.link.xfixes_fetch_region(parts)?.reply()?.rectangles;
                    self.frame += 1;
                    self.changes.note(self.frame, painted.into_iter().map(area));
                }
            }
            Event::ConfigureNotify(change) if change.window == self.root => {
                self.size.set(Size { width: change.width, height: change.height });
                self.frame += 1;
                let (width, height) = (change.width.into(), change.height.into());
                self.changes.note(self.frame, [Area { x: 0, y: 0, width, height }]);
            }
            _ => {}
        }
        Ok(())
    }

    /// Does one piece of work: barrier, work, release.
    fn perform<T>(&mut self, work: impl FnOnce(&mut Self) -> Outcome<T>) -> Result<T, Error> {
        self.attend().map_err(|fault| self.note(fault).before_start(&self.display))?;
        self.rearm();
        let outcome = work(self);
        let released = match &outcome {
            // Another wait would be as vain; what is sent now is done when the server comes back.
            Err(Fault::Silent | Fault::Broken(_)) => self.send_releases().map(|_| ()),
            Ok(_) | Err(Fault::Refused(_)) => self.release_held(),
        };
        match (outcome, released) {
            (Ok(value), Ok(())) => Ok(value),
            (Err(fault), _) | (Ok(_), Err(fault)) => Err(self.note(fault).after_start(&self.display)),
        }
    }

    fn note(&mut self, fault: Fault) -> Fault {
        if let Fault::Broken(why) = &fault {
            self.broken.get_or_insert_with(|| why.clone());
        }
        fault
    }

    /// Lets go of every key and button that is still down by our doing.
    pub(super) fn release_held(&mut self) -> Outcome<()> {
        if self.send_releases()? { self.barrier() } else { Ok(()) }
    }

    /// Lets go of what a client asked to keep down; how much that was.
    pub(super) fn release_kept(&mut self) -> Outcome<usize> {
        let kept = std::mem::take(&mut self.kept);
        let count = kept.keys.len() + kept.buttons.len();
        self.held.keys.extend(kept.keys);
        self.held.buttons.extend(kept.buttons);
        self.release_held()?;
        Ok(count)
    }

    /// Sends the releases without waiting; false when there were none.
    fn send_releases(&mut self) -> Outcome<bool> {
        let held = std::mem::take(&mut self.held);
        if held.buttons.is_empty() && held.keys.is_empty() {
            return Ok(false);
        }
        self.rearm();
        for key in held.keys.into_iter().rev() {
            self.link.xtest_fake_input(xproto::KEY_RELEASE_EVENT, key, 0, self.root, 0, 0, 0)?;
        }
        for button in held.buttons.into_iter().rev() {
            self.link.xtest_fake_input(xproto::BUTTON_RELEASE_EVENT, button, 0, self.root, 0, 0, 0)?;
        }
        self.link.flush()?;
        Ok(true)
    }

    /// An agent that died in the middle of a drag left its button down.
    fn release_abandoned_buttons(&mut self) -> Outcome<()> {
        self.rearm();
        let mask = u16::from(self.link.query_pointer(self.root)?.reply()?.mask);
        for button in 1..=5_u8 {
            if mask & (u16::from(xproto::KeyButMask::BUTTON1) << (button - 1)) != 0 {
                self.link.xtest_fake_input(xproto::BUTTON_RELEASE_EVENT, button, 0, self.root, 0, 0, 0)?;
            }
        }
        self.barrier()
    }
}

fn area(part: xproto::Rectangle) -> Area {
    Area { x: part.x.into(), y: part.y.into(), width: part.width.into(), height: part.height.into() }
}

/// Whether the root's pixels are 32 bits, blue in the lowest byte (depth 24 or 32).
fn is_bgrx(setup: &xproto::Setup, screen: &xproto::Screen) -> bool {
    let four_bytes = setup
        .pixmap_formats
        .iter()
        .any(|format| format.depth == screen.root_depth && format.bits_per_pixel == 32);
    let masks = screen.allowed_depths.iter().flat_map(|depth| &depth.visuals).any(|visual| {
        visual.visual_id == screen.root_visual
            && (visual.red_mask, visual.green_mask, visual.blue_mask) == (0xff_0000, 0xff00, 0xff)
    });
    four_bytes && masks && setup.image_byte_order == xproto::ImageOrder::LSB_FIRST
}

/// Tells whether the one who asked for a piece of work is gone.
pub(super) type Gone<'a> = &'a dyn Fn() -> bool;

/// Wraps work so that a seat's thread can do it and answer. Work whose requester left before its turn is skipped.
pub(super) fn job<T: Send + 'static>(
    work: impl FnOnce(&mut Seat, Gone<'_>) -> Outcome<T> + Send + 'static,
) -> (Job, oneshot::Receiver<()>, oneshot::Receiver<Result<T, Error>>) {
    let (begun, has_begun) = oneshot::channel();
    let (answer, answered) = oneshot::channel::<Result<T, Error>>();
    let job: Job = Box::new(move |seat| {
        if answer.is_closed() || begun.send(()).is_err() {
            return;
        }
        let outcome = seat.perform(|seat| work(seat, &|| answer.is_closed()));
        // A requester that left meanwhile needs no answer.
        let _ = answer.send(outcome);
    });
    (job, has_begun, answered)
}

/// A seat's thread as its supervisor sees it.
pub(super) struct Seated {
    /// Where its work is queued.
    pub(super) jobs: mpsc::Sender<Job>,
    /// Resolves with the reason when the thread has ended.
    pub(super) ended: oneshot::Receiver<String>,
}

/// Starts a seat's thread; on return it is connected.
pub(super) async fn sit(display: u16, size: Arc<SeenSize>) -> Result<Seated, String> {
    let (jobs, queue) = mpsc::channel(QUEUE);
    let (ready, opened) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let started = std::thread::Builder::new().name(format!("screen :{display}")).spawn(move || {
        match Seat::open(display, size) {
            Err(fault) => {
                // Nobody waits any more: the supervisor gave up.
                let _ = ready.send(Err(describe(&fault)));
            }
            Ok(seat) => {
                if ready.send(Ok(())).is_ok() {
                    // Nobody listens any more: the screen was deleted.
                    let _ = end.send(work_through(seat, queue));
                }
            }
        }
    });
    if let Err(error) = started {
        return Err(format!("could not start the thread of :{display}: {error}"));
    }
    // Opening takes a few round trips, each bounded; the limit covers a connect that the kernel holds up.
    match tokio::time::timeout(2 * X_TIMEOUT, opened).await {
        Ok(Ok(Ok(()))) => Ok(Seated { jobs, ended }),
        Ok(Ok(Err(why))) => Err(why),
        Ok(Err(_)) => Err(String::from("the screen's thread panicked")),
        Err(_) => Err(String::from("the X server does not accept connections")),
    }
}

fn describe(fault: &Fault) -> String {
    match fault {
        Fault::Refused(error) => error.to_string(),
        Fault::Silent => String::from("the X server does not answer"),
        Fault::Broken(why) => why.clone(),
    }
}

fn work_through(mut seat: Seat, mut queue: mpsc::Receiver<Job>) -> String {
    while let Some(job) = queue.blocking_recv() {
        job(&mut seat);
        if let Some(why) = seat.broken.take() {
            return why;
        }
    }
    String::from("the screen was closed")
}
