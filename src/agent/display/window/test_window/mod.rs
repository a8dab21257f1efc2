//! Who receives what a self-test does? A plain X program in a thread of its own: a window that shows known pixels and
//! notes what comes to it, as any program on the screen would.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::fault::restarting;
use super::keys::{self, Chord};
use super::screen::Screen;
use hotdesk_domain::error::Result;
use hotdesk_domain::pointer::{Button, Direction};
use hotdesk_domain::region::Region;

mod program;

/// Its window's title.
pub const TITLE: &str = "hotdesk self-test";
/// Where the window is to be, and how large.
const WANTED: Region = Region { x: 120, y: 100, width: 480, height: 320 };
/// Width and height of the painted pattern, in the window's corner: in one request of the core protocol.
const PATTERN: (u16, u16) = (256, 128);
/// How long the window may take until it is usable.
const OPEN_TIMEOUT: Duration = Duration::from_secs(4);

/// What the window received.
#[derive(Debug, Default)]
struct Heard {
    /// By button's number: pressed, released.
    buttons: [(u32, u32); 16],
    /// Pressed keys, those for holding left out: what was pressed, and what that typed.
    keys: Vec<(Chord, u32)>,
    /// Keys that are down, those for holding included.
    down: i64,
    pasted: Option<String>,
}

#[derive(Debug, Default)]
struct Shared {
    heard: Mutex<Heard>,
    stop: AtomicBool,
    /// Asks the thread to paste.
    paste: AtomicBool,
}

impl Shared {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A window that notes what comes to it. It closes when this is dropped.
#[derive(Debug)]
pub struct Receiver {
    shared: Arc<Shared>,
    place: Region,
}

impl Receiver {
    /// Opens the window; on return it is painted and has the keyboard.
    ///
    /// # Errors
    /// `Unavailable` when the screen's X server does not let it.
    pub async fn open(screen: &Screen) -> Result<Self> {
        let failed = |why: &dyn std::fmt::Display| restarting(&screen.display_name()).context(why);
        let shared = Arc::<Shared>::default();
        let (ready, opened) = oneshot::channel();
        let (display, theirs) = (screen.display, Arc::clone(&shared));
        let thread = std::thread::Builder::new().name(format!("receiver :{display}"));
        let started = thread.spawn(move || program::run(display, &theirs, ready));
        started.map_err(|error| failed(&error))?;
        let mut receiver = Self { shared, place: WANTED };
        match tokio::time::timeout(OPEN_TIMEOUT, opened).await {
            Ok(Ok(Ok(place))) => receiver.place = place,
            Ok(Ok(Err(fault))) => return Err(fault.before_start(&screen.display_name())),
            Ok(Err(_)) => return Err(failed(&"the receiver's thread panicked")),
            Err(_) => return Err(failed(&"the window was not shown")),
        }
        Ok(receiver)
    }

    /// The window's middle, on the screen.
    pub fn middle(&self) -> (f64, f64) {
        let Region { x, y, width, height } = self.place;
        (f64::from(x + width / 2), f64::from(y + height / 2))
    }

    /// Where its pattern is, on the screen.
    pub fn pattern(&self) -> Region {
        Region { width: PATTERN.0, height: PATTERN.1, ..self.place }
    }

    /// The pattern's colour at a place in it: red, green, blue.
    pub fn colour(x: u16, y: u16) -> [u8; 3] {
        // Two large primes: neighbours differ in every channel.
        let mixed = u32::from(x).wrapping_mul(73_856_093) ^ u32::from(y).wrapping_mul(19_349_663);
        let [_, red, green, blue] = (mixed ^ mixed >> 13).to_be_bytes();
        [red, green, blue]
    }

    /// How often a button was pressed and released.
    pub fn clicks(&self, button: Button) -> (u32, u32) {
        self.shared.heard().buttons[usize::from(button.number())]
    }

    /// How many wheel steps came.
    pub fn steps(&self, direction: Direction) -> u32 {
        self.shared.heard().buttons[usize::from(direction.button_number())].0
    }

    /// What the keys typed since the last [`Receiver::forget_keys`]; what types nothing is U+FFFD.
    pub fn text(&self) -> String {
        let heard = self.shared.heard();
        heard.keys.iter().map(|(_, keysym)| keys::to_char(*keysym).unwrap_or('\u{fffd}')).collect()
    }

    /// The keys and chords that were pressed since then.
    pub fn chords(&self) -> Vec<Chord> {
        self.shared.heard().keys.iter().map(|(chord, _)| chord.clone()).collect()
    }

    /// How many keys are down.
    pub fn keys_down(&self) -> i64 {
        self.shared.heard().down
    }

    /// Forgets the keys so far.
    pub fn forget_keys(&self) {
        self.shared.heard().keys.clear();
    }

    /// Asks the window to paste the clipboard.
    pub fn paste(&self) {
        self.shared.heard().pasted = None;
        self.shared.paste.store(true, Ordering::Relaxed);
    }

    /// What it pasted.
    pub fn pasted(&self) -> Option<String> {
        self.shared.heard().pasted.take()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}
