//! Worker thread of a screen, which owns its X connection and runs one job after another.
//!
//! ```text
//! job -> bounded queue -> barrier (does X answer?) -> work -> release what is still pressed -> reply
//! ```
//! The barrier of an action is its first look at the screen. A barrier that times out marks the X server as unresponsive. Until it answers again, each job fails after
//! [`X_UNRESPONSIVE_TIMEOUT`] and sends nothing, so that no input is delivered late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use x11rb::connection::{Connection, RequestConnection, SequenceNumber};
use x11rb::protocol::Event;
use x11rb::protocol::damage::{self, ConnectionExt as _};
use x11rb::protocol::xfixes::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{self, ChangeWindowAttributesAux, ConnectionExt as _, EventMask};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::protocol::{shm, xkb::ConnectionExt as _};

use super::focus_atoms::FocusAtoms;
use crate::display::damage_history::DamageHistory;
use crate::display::fault::{Fault, Outcome};
use crate::display::keyboard_layout::Keyboard;
use crate::display::link::{self, Deadline, Link, X_TIMEOUT};
use crate::display::screenshot::capture_state::CaptureState;
use hotdesk_domain::desktop::area::Area;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::Error;

/// Timeout per job while the X server is unresponsive. It is enough for a server that just came back, and a
/// full queue of [`QUEUE`] jobs fails in under a second.
const X_UNRESPONSIVE_TIMEOUT: Duration = Duration::from_millis(20);
/// Jobs that wait for one screen; further requests fail with `Unavailable`. People and agents send a handful.
pub(in crate::display) const QUEUE: usize = 32;

/// A job for a worker.
pub(in crate::display) type Job = Box<dyn FnOnce(&mut X11Worker) + Send>;

/// The size of a screen as last seen, readable without its worker.
#[derive(Debug)]
pub(in crate::display) struct SeenSize(AtomicU32);

impl SeenSize {
    pub(in crate::display) fn new(size: Size) -> Self {
        Self(AtomicU32::new(pack(size)))
    }

    pub(in crate::display) fn get(&self) -> Size {
        let packed = self.0.load(Ordering::Relaxed);
        Size { width: (packed >> 16) as u16, height: packed as u16 }
    }

    pub(in crate::display) fn set(&self, size: Size) {
        self.0.store(pack(size), Ordering::Relaxed);
    }
}

fn pack(size: Size) -> u32 {
    u32::from(size.width) << 16 | u32::from(size.height)
}

/// Pressed buttons (by number) and keys (by keycode).
#[derive(Debug, Default)]
pub(in crate::display) struct PressedInput {
    pub(in crate::display) buttons: Vec<u8>,
    pub(in crate::display) keys: Vec<u8>,
}

/// The server's damage object, and a region that receives its content.
#[derive(Clone, Copy, Debug)]
pub(in crate::display) struct DamageObject {
    id: damage::Damage,
    parts: xfixes::Region,
}

/// A screen's X connection and its state. Lives on the screen's worker thread.
pub(in crate::display) struct X11Worker {
    pub(in crate::display) link: Link,
    pub(in crate::display) deadline: Deadline,
    pub(in crate::display) display: String,
    pub(in crate::display) root: xproto::Window,
    pub(in crate::display) size: Arc<SeenSize>,
    pub(in crate::display) pressed: PressedInput,
    /// Input that a client holds down between requests.
    pub(in crate::display) held_by_client: PressedInput,
    /// Remainders of wheel steps: to the right, and down.
    pub(in crate::display) scrolled: (f64, f64),
    pub(in crate::display) keyboard: Keyboard,
    /// State between captures.
    pub(in crate::display) capture_state: CaptureState,
    /// Whether the server supports shared memory by file descriptor (MIT-SHM 1.2).
    pub(in crate::display) has_shm: bool,
    /// Whether pixels are four bytes, blue first: the only supported format.
    pub(in crate::display) bgrx: bool,
    /// The damage object, if the server has the extension.
    pub(in crate::display) damage: Option<DamageObject>,
    /// Number of content changes seen.
    pub(in crate::display) frame: u64,
    /// Painted areas of those changes.
    pub(in crate::display) damage_history: DamageHistory,
    /// Atoms for the focused window.
    pub(in crate::display) focus_atoms: FocusAtoms,
    /// The pointer's button mask (core protocol, KEYBUTMASK) before the current action.
    pub(in crate::display) buttons_down: u16,
    /// The focused window after the last action.
    pub(in crate::display) last_active: Option<xproto::Window>,
    silent: Option<(SequenceNumber, Instant)>,
    broken: Option<String>,
}

impl X11Worker {
    /// Connects to the display and initialises the extensions.
    pub(in crate::display) fn open(display: u16, size: Arc<SeenSize>) -> Outcome<Self> {
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
                Some(DamageObject { id, parts })
            }
        };
        let watch = ChangeWindowAttributesAux::new().event_mask(EventMask::STRUCTURE_NOTIFY);
        link.change_window_attributes(root, &watch)?.check()?;
        let has_xkb = match link.extension_information(x11rb::protocol::xkb::X11_EXTENSION_NAME)? {
            None => false,
            Some(_) => link.xkb_use_extension(1, 0)?.reply()?.supported,
        };
        let focus_atoms = FocusAtoms::intern(&link)?;
        let mut worker = Self {
            link,
            deadline,
            display: format!(":{display}"),
            root,
            size,
            pressed: PressedInput::default(),
            held_by_client: PressedInput::default(),
            scrolled: (0.0, 0.0),
            keyboard: Keyboard::new(has_xkb),
            capture_state: CaptureState::new(),
            has_shm,
            bgrx,
            damage,
            frame: 0,
            damage_history: DamageHistory::default(),
            focus_atoms,
            buttons_down: 0,
            last_active: None,
            silent: None,
            broken: None,
        };
        worker.release_abandoned_buttons()?;
        Ok(worker)
    }

    /// Sets the deadline of the next step to one round trip.
    pub(in crate::display) fn rearm(&self) {
        self.deadline.allow(X_TIMEOUT);
    }

    /// A round trip: on return the server has processed everything sent before.
    pub(in crate::display) fn barrier(&self) -> Outcome<()> {
        self.rearm();
        self.link.get_input_focus()?.reply()?;
        Ok(())
    }

    /// Checks that X answers. While it is unresponsive, this waits for the reply to the first request and
    /// sends no further one.
    pub(in crate::display) fn check_responsive(&mut self) -> Outcome<()> {
        let (question, timeout) = match self.silent {
            // Queued jobs share one check; a check each would make the last job wait for all of them.
            Some((_, looked)) if looked.elapsed() < X_UNRESPONSIVE_TIMEOUT => return Err(Fault::Silent),
            Some((question, _)) => (question, X_UNRESPONSIVE_TIMEOUT),
            None => {
                self.deadline.allow(X_TIMEOUT);
                let cookie = self.link.get_input_focus()?;
                let question = cookie.sequence_number();
                // Dropping the cookie would discard the reply; its number is used below instead.
                std::mem::forget(cookie);
                (question, X_TIMEOUT)
            }
        };
        self.deadline.allow(timeout);
        match self.link.wait_for_reply(question).map_err(Fault::from) {
            Ok(_) => {
                self.silent = None;
                self.read_events()
            }
            Err(Fault::Silent) => {
                self.note_silence(question);
                Err(Fault::Silent)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Whether the last barrier timed out.
    pub(in crate::display) fn is_silent(&self) -> bool {
        self.silent.is_some()
    }

    /// Marks the X server as unresponsive until it answers the request with this number.
    pub(in crate::display) fn note_silence(&mut self, question: SequenceNumber) {
        if self.silent.is_none() {
            tracing::warn!(
                screen = self.display,
                "the X server does not answer; input is refused until it does"
            );
        }
        self.silent = Some((question, Instant::now()));
    }

    /// Handles all pending X events.
    pub(in crate::display) fn read_events(&mut self) -> Outcome<()> {
        while let Some(event) = self.link.poll_for_event()? {
            self.handle_event(&event)?;
        }
        Ok(())
    }

    /// Handles one event.
    pub(in crate::display) fn handle_event(&mut self, event: &Event) -> Outcome<()> {
        #[allow(clippy::wildcard_enum_match_arm)] // x11rb's list of events grows with its extensions
        match event {
            // The server sends one event per change after the last subtraction, so at most one is pending.
            Event::DamageNotify(_) => {
                if let Some(DamageObject { id, parts }) = self.damage {
                    self.link.damage_subtract(id, x11rb::NONE, parts)?;
                    let painted = self.link.xfixes_fetch_region(parts)?.reply()?.rectangles;
                    self.frame += 1;
                    self.damage_history.add(self.frame, painted.into_iter().map(to_area));
                }
            }
            Event::ConfigureNotify(change) if change.window == self.root => {
                self.size.set(Size { width: change.width, height: change.height });
                self.frame += 1;
                let (width, height) = (change.width.into(), change.height.into());
                self.damage_history.add(self.frame, [Area { x: 0, y: 0, width, height }]);
            }
            _ => {}
        }
        Ok(())
    }

    /// Runs one job: barrier, work, release.
    fn perform<B, T>(
        &mut self,
        barrier: impl FnOnce(&mut Self) -> Outcome<B>,
        work: impl FnOnce(&mut Self, B) -> Outcome<T>,
    ) -> Result<T, Error> {
        let seen = barrier(self).map_err(|fault| self.record_fault(fault).before_start(&self.display))?;
        self.rearm();
        let outcome = work(self, seen);
        let released = match &outcome {
            // Another wait would fail as well. The server processes these releases when it comes back.
            Err(Fault::Silent | Fault::Broken(_)) => self.send_releases().map(|_| ()),
            Ok(_) | Err(Fault::Refused(_)) => self.release_pressed(),
        };
        match (outcome, released) {
            (Ok(value), Ok(())) => Ok(value),
            (Err(fault), _) | (Ok(_), Err(fault)) => Err(self.record_fault(fault).after_start(&self.display)),
        }
    }

    fn record_fault(&mut self, fault: Fault) -> Fault {
        if let Fault::Broken(why) = &fault {
            self.broken.get_or_insert_with(|| why.clone());
        }
        fault
    }

    /// Releases every key and button that this worker still presses.
    pub(in crate::display) fn release_pressed(&mut self) -> Outcome<()> {
        if self.send_releases()? { self.barrier() } else { Ok(()) }
    }

    /// Releases what a client holds down; returns how many keys and buttons.
    pub(in crate::display) fn release_held_input(&mut self) -> Outcome<usize> {
        let held = std::mem::take(&mut self.held_by_client);
        let count = held.keys.len() + held.buttons.len();
        self.pressed.keys.extend(held.keys);
        self.pressed.buttons.extend(held.buttons);
        self.release_pressed()?;
        Ok(count)
    }

    /// Sends the releases without waiting; false when there were none.
    fn send_releases(&mut self) -> Outcome<bool> {
        let held = std::mem::take(&mut self.pressed);
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

    /// Releases buttons that an agent left down when it died during a drag.
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

fn to_area(part: xproto::Rectangle) -> Area {
    Area { x: part.x.into(), y: part.y.into(), width: part.width.into(), height: part.height.into() }
}

/// Whether the root window's pixels have 32 bits with blue in the lowest byte (depth 24 or 32).
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

/// Returns true when the request was cancelled.
pub(in crate::display) type CancelCheck<'a> = &'a dyn Fn() -> bool;

/// Start of a job, which either its worker or a request that waits no longer can claim.
#[derive(Clone, Debug, Default)]
pub(in crate::display) struct JobStart(Arc<AtomicBool>);

impl JobStart {
    /// True for the first caller.
    pub(in crate::display) fn claim(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }
}

/// Wraps work as a job for a worker. Returns the job, its start and a receiver of its result. A job whose
/// request was cancelled before its start does nothing. Nobody is woken at the start: each wake-up costs more
/// than a request to the X server.
pub(in crate::display) fn job<T: Send + 'static>(
    work: impl FnOnce(&mut X11Worker, CancelCheck<'_>) -> Outcome<T> + Send + 'static,
) -> (Job, JobStart, oneshot::Receiver<Result<T, Error>>) {
    job_after(X11Worker::check_responsive, |worker, (), cancelled| work(worker, cancelled))
}

/// The same with another barrier, which fails with [`Fault::Silent`] when X does not answer. `work` gets its
/// result.
pub(in crate::display) fn job_after<B: 'static, T: Send + 'static>(
    barrier: impl FnOnce(&mut X11Worker) -> Outcome<B> + Send + 'static,
    work: impl FnOnce(&mut X11Worker, B, CancelCheck<'_>) -> Outcome<T> + Send + 'static,
) -> (Job, JobStart, oneshot::Receiver<Result<T, Error>>) {
    let start = JobStart::default();
    let (answer, answered) = oneshot::channel::<Result<T, Error>>();
    let starts = start.clone();
    let job: Job = Box::new(move |worker| {
        if answer.is_closed() || !starts.claim() {
            return;
        }
        let outcome = worker.perform(barrier, |worker, seen| work(worker, seen, &|| answer.is_closed()));
        // The receiver is gone when the request was cancelled.
        let _ = answer.send(outcome);
    });
    (job, start, answered)
}

/// A worker as its supervisor sees it.
pub(in crate::display) struct WorkerHandle {
    /// Queue of the worker's jobs.
    pub(in crate::display) jobs: mpsc::Sender<Job>,
    /// Resolves with the reason when the worker has ended.
    pub(in crate::display) ended: oneshot::Receiver<String>,
}

/// Starts a worker; on return it is connected.
pub(in crate::display) async fn start(display: u16, size: Arc<SeenSize>) -> Outcome<WorkerHandle> {
    let (jobs, queue) = mpsc::channel(QUEUE);
    let (ready, opened) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let started = std::thread::Builder::new().name(format!("screen :{display}")).spawn(move || {
        match X11Worker::open(display, size) {
            Err(fault) => {
                // The receiver is gone when the supervisor gave up.
                let _ = ready.send(Err(fault));
            }
            Ok(worker) => {
                if ready.send(Ok(())).is_ok() {
                    // The receiver is gone when the screen was deleted.
                    let _ = end.send(run_jobs(worker, queue));
                }
            }
        }
    });
    if let Err(error) = started {
        return Err(Fault::Broken(format!("could not start the thread of :{display}: {error}")));
    }
    // Opening takes a few round trips with a timeout each. This timeout covers a connect that blocks in the
    // kernel.
    match tokio::time::timeout(2 * X_TIMEOUT, opened).await {
        Ok(Ok(Ok(()))) => Ok(WorkerHandle { jobs, ended }),
        Ok(Ok(Err(fault))) => Err(fault),
        Ok(Err(_)) => Err(Fault::Broken(String::from("the screen's thread panicked"))),
        Err(_) => Err(Fault::Broken(String::from("the X server does not accept connections"))),
    }
}

fn run_jobs(mut worker: X11Worker, mut queue: mpsc::Receiver<Job>) -> String {
    while let Some(job) = queue.blocking_recv() {
        job(&mut worker);
        if let Some(why) = worker.broken.take() {
            return why;
        }
    }
    String::from("the screen was closed")
}
