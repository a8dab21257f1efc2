//! Accessible elements of the programs on a screen (AT-SPI): list, marked screenshot, actions.
//!
//! ```text
//! list: X windows -> programs on this screen -> a tree each (walk::tree) -> walk within limits (walk)
//!       -> best max_nodes (choose) -> their details (bus::details) -> ids (ids)
//! act:  id -> object -> in view, in front (act::locate) -> pointer or call (act) -> read back
//! ```
//! All screens share one accessibility bus; a program belongs to the screens whose X server it is connected
//! to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

mod act;
mod bus;
mod choose;
mod ids;
mod list;
mod marked_screenshot;
mod marks;
mod record;
mod request;
mod walk;
mod windows;

pub use request::ListRequest;

use bus::{Bus, BusFault};
use ids::ElementTable;

use crate::display::{Displays, Screen};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Most concurrent walks. A third would only slow all of them down, because each keeps programs busy.
const MAX_WALKS: usize = 2;
/// How long a walk waits for its turn: the longest time of two others.
const TURN_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a call may take to the program of an element that is used: a busy program answers in tens of
/// milliseconds, a browser on a busy machine in a second.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// Divisor of a list's timeout for one call, which gets at least [`LIST_CALL`]: a program that hangs leaves
/// most of the time to the others.
const CALL_DIVISOR: u32 = 3;
const LIST_CALL: Duration = Duration::from_millis(600);
/// The same for a program that did not answer recently, which gets at least [`SHORT_TIMEOUT`].
const SHORT_DIVISOR: u32 = 30;
const SHORT_TIMEOUT: Duration = Duration::from_millis(60);
/// How long a program counts as silent after a timeout.
const SILENCE_MEMORY: Duration = Duration::from_secs(10);

/// The elements of a computer's screens. Clones share one state.
#[derive(Clone, Debug)]
pub struct Elements {
    shared: Arc<ElementsState>,
}

#[derive(Debug)]
struct ElementsState {
    displays: Displays,
    bus: tokio::sync::Mutex<Option<Arc<Bus>>>,
    table: Mutex<ElementTable>,
    turns: Semaphore,
    /// Bus names of programs that did not answer, and when.
    silent: Mutex<HashMap<String, Instant>>,
}

impl Elements {
    /// Connects to the accessibility bus on the first request.
    pub fn new(displays: Displays) -> Self {
        let shared = ElementsState {
            displays,
            bus: tokio::sync::Mutex::default(),
            table: Mutex::default(),
            turns: Semaphore::new(MAX_WALKS),
            silent: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the screen of an element; `None` for an unknown id.
    pub fn screen(&self, id: &str) -> Option<Arc<Screen>> {
        let key = self.table().find(id)?;
        self.shared.displays.screen(Some(&key.screen)).ok()
    }

    /// Returns the connection to the accessibility bus; opens a new one when the old one is retired.
    async fn bus(&self) -> Result<Arc<Bus>> {
        let mut current = self.shared.bus.lock().await;
        if let Some(bus) = current.as_ref().filter(|bus| !bus.is_retired()) {
            return Ok(Arc::clone(bus));
        }
        // Current users of the old connection keep it open until they are done.
        let bus = Arc::new(Bus::open(&self.shared.displays.session_environment()).await?);
        *current = Some(Arc::clone(&bus));
        Ok(bus)
    }

    fn table(&self) -> MutexGuard<'_, ElementTable> {
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.shared.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Timeout of a program's first answer in a list with this timeout.
    fn first_timeout(&self, name: &str, list: Duration) -> Duration {
        let mut silent = self.silent();
        silent.retain(|_, since| since.elapsed() < SILENCE_MEMORY);
        if silent.contains_key(name) { (list / SHORT_DIVISOR).max(SHORT_TIMEOUT) } else { call_timeout(list) }
    }

    /// Records whether a program answered.
    fn record_answer(&self, name: &str, answers: bool) {
        if answers {
            self.silent().remove(name);
        } else {
            self.silent().insert(name.to_owned(), Instant::now());
        }
    }
}

/// Timeout of one call in a list with this timeout.
fn call_timeout(list: Duration) -> Duration {
    (list / CALL_DIVISOR).max(LIST_CALL)
}

/// Error for a client when an element cannot be used.
fn refusal(fault: &BusFault) -> Error {
    match fault {
        BusFault::Gone | BusFault::Unknown => gone(),
        BusFault::Silent => Error::timed_out("The element's program does not answer"),
        BusFault::Refused(why) => {
            Error::conflict("The element's program refused").code(ErrorCode::ElementRefused).context(why)
        }
        BusFault::Lost(why) => {
            Error::unavailable("The accessibility bus is starting").retry_after(1).context(why)
        }
    }
}

fn gone() -> Error {
    Error::not_found("The element is gone").code(ErrorCode::ElementGone)
}
