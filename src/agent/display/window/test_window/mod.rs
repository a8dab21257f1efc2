//! Test window of the self-tests: an X client in a thread of its own.
//!
//! The window shows known pixels and records the input that it receives, as any program on the screen would.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::display::fault::restarting;
use crate::display::keyboard_layout::keys::{self, Chord};
use crate::display::screen::Screen;
use hotdesk_domain::desktop::pointer::{Button, Direction};
use hotdesk_domain::desktop::region::Region;
use hotdesk_domain::error::Result;

mod program;

/// Title of the window.
pub const TITLE: &str = "hotdesk self-test";
/// Requested position and size.
const WANTED: Region = Region { x: 120, y: 100, width: 480, height: 320 };
/// Width and height of the painted pattern in the window's corner: it fits one request of the core protocol.
const PATTERN: (u16, u16) = (256, 128);
/// Timeout of the window's start.
const OPEN_TIMEOUT: Duration = Duration::from_secs(4);

/// Input that the window received.
#[derive(Debug, Default)]
struct ReceivedInput {
    /// By button number: count of presses and releases.
    buttons: [(u32, u32); 16],
    /// Pressed keys without modifiers: the chord, and the keysym that it typed.
    keys: Vec<(Chord, u32)>,
    /// Count of keys that are down, modifiers included.
    down: i64,
    pasted: Option<String>,
}

#[derive(Debug, Default)]
struct TestWindowState {
    received: Mutex<ReceivedInput>,
    stop: AtomicBool,
    /// Requests a paste from the thread.
    paste: AtomicBool,
}

impl TestWindowState {
    fn received(&self) -> MutexGuard<'_, ReceivedInput> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A window that records its input. It closes when this is dropped.
#[derive(Debug)]
pub struct TestWindow {
    shared: Arc<TestWindowState>,
    place: Region,
}

impl TestWindow {
    /// Opens the window; on return it is painted and has the keyboard.
    ///
    /// # Errors
    /// `Unavailable` when the screen's X server refuses, or does not show the window in time.
    pub async fn open(screen: &Screen) -> Result<Self> {
        let failed = |why: &dyn std::fmt::Display| restarting(&screen.display_name()).context(why);
        let shared = Arc::<TestWindowState>::default();
        let (ready, opened) = oneshot::channel();
        let (display, theirs) = (screen.display, Arc::clone(&shared));
        let thread = std::thread::Builder::new().name(format!("test window :{display}"));
        let started = thread.spawn(move || program::run(display, &theirs, ready));
        started.map_err(|error| failed(&error))?;
        let mut test_window = Self { shared, place: WANTED };
        match tokio::time::timeout(OPEN_TIMEOUT, opened).await {
            Ok(Ok(Ok(place))) => test_window.place = place,
            Ok(Ok(Err(fault))) => return Err(fault.before_start(&screen.display_name())),
            Ok(Err(_)) => return Err(failed(&"the test window's thread panicked")),
            Err(_) => return Err(failed(&"the window was not shown")),
        }
        Ok(test_window)
    }

    /// Centre of the window in screen pixels.
    pub fn middle(&self) -> (f64, f64) {
        let Region { x, y, width, height } = self.place;
        (f64::from(x + width / 2), f64::from(y + height / 2))
    }

    /// Region of the pattern in screen pixels.
    pub fn pattern(&self) -> Region {
        Region { width: PATTERN.0, height: PATTERN.1, ..self.place }
    }

    /// Colour of the pattern at a pixel: red, green, blue.
    pub fn colour(x: u16, y: u16) -> [u8; 3] {
        // Two large primes: neighbours differ in every channel.
        let mixed = u32::from(x).wrapping_mul(73_856_093) ^ u32::from(y).wrapping_mul(19_349_663);
        let [_, red, green, blue] = (mixed ^ mixed >> 13).to_be_bytes();
        [red, green, blue]
    }

    /// How many times a button was pressed and released.
    pub fn clicks(&self, button: Button) -> (u32, u32) {
        self.shared.received().buttons[usize::from(button.number())]
    }

    /// How many wheel steps arrived.
    pub fn steps(&self, direction: Direction) -> u32 {
        self.shared.received().buttons[usize::from(direction.button_number())].0
    }

    /// Text typed since the last [`TestWindow::forget_keys`]; a key without a character is U+FFFD.
    pub fn text(&self) -> String {
        let received = self.shared.received();
        received.keys.iter().map(|(_, keysym)| keys::to_char(*keysym).unwrap_or('\u{fffd}')).collect()
    }

    /// Keys and chords pressed since then, in order.
    pub fn chords(&self) -> Vec<Chord> {
        self.shared.received().keys.iter().map(|(chord, _)| chord.clone()).collect()
    }

    /// How many keys are down.
    pub fn keys_down(&self) -> i64 {
        self.shared.received().down
    }

    /// Clears the recorded keys.
    pub fn forget_keys(&self) {
        self.shared.received().keys.clear();
    }

    /// Requests that the window pastes the clipboard.
    pub fn paste(&self) {
        self.shared.received().pasted = None;
        self.shared.paste.store(true, Ordering::Relaxed);
    }

    /// The pasted text, once.
    pub fn pasted(&self) -> Option<String> {
        self.shared.received().pasted.take()
    }
}

impl Drop for TestWindow {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}
