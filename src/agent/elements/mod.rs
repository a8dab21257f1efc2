//! What do programs on a screen offer? Their accessibility trees over AT-SPI: listed, marked on a picture, acted on.
//!
//! ```text
//! list: X windows -> programs on this screen -> a tree each (tree) -> walk within bounds (walk) -> visible? (choose)
//!       -> best max_nodes (choose) -> details of those (details) -> ids (ids)
//! act:  id -> object -> in view, in front (reach) -> pointer or call (act) -> read back
//! ```
//! All screens share one accessibility bus; a program belongs to the screens whose X server it is connected to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

mod act;
mod bus;
mod choose;
mod details;
mod ids;
mod list;
mod marks;
mod object;
mod picture;
mod reach;
mod record;
mod request;
mod sight;
mod tree;
mod value;
mod walk;
mod windows;

pub use request::Request;

use bus::{Bus, Fault};
use ids::Table;

use super::display::Displays;
use hotdesk_domain::error::{Error, Result};

/// Walks at once. Each keeps programs busy; a third would only make all of them slower.
const WALKS: usize = 2;
/// How long a walk waits for its turn: the longest two others.
const TURN_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a call may take to the program of an element that is acted on: a busy one answers in tens of milliseconds, a browser on
/// a busy machine in a second.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// The part of a list's time that one call may take, but [`LIST_CALL`] at least: a program that hangs leaves most of it to the others.
const CALL_PART: u32 = 3;
const LIST_CALL: Duration = Duration::from_millis(600);
/// The part that a call may take to a program that lately did not answer, but [`SHORT_TIMEOUT`] at least.
const SHORT_PART: u32 = 30;
const SHORT_TIMEOUT: Duration = Duration::from_millis(60);
/// How long "lately" is.
const GRUDGE: Duration = Duration::from_secs(10);

/// The elements of a computer's screens. Clones are the same.
#[derive(Clone, Debug)]
pub struct Elements {
    room: Arc<Room>,
}

#[derive(Debug)]
struct Room {
    displays: Displays,
    bus: tokio::sync::Mutex<Option<Arc<Bus>>>,
    table: Mutex<Table>,
    turns: Semaphore,
    /// Programs, by bus name, that did not answer, and when.
    silent: Mutex<HashMap<String, Instant>>,
}

impl Elements {
    /// Nothing is connected to before the first question.
    pub fn new(displays: Displays) -> Self {
        let room = Room {
            displays,
            bus: tokio::sync::Mutex::default(),
            table: Mutex::default(),
            turns: Semaphore::new(WALKS),
            silent: Mutex::default(),
        };
        Self { room: Arc::new(room) }
    }

    /// The connection to the accessibility bus; a new one when the old one is of no more use.
    async fn bus(&self) -> Result<Arc<Bus>> {
        let mut kept = self.room.bus.lock().await;
        if let Some(bus) = kept.as_ref().filter(|bus| !bus.is_spent()) {
            return Ok(Arc::clone(bus));
        }
        // Whoever works with the old one keeps it until done.
        let bus = Arc::new(Bus::open(&self.room.displays.session_environment()).await?);
        *kept = Some(Arc::clone(&bus));
        Ok(bus)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.room.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.room.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a program's first answer is waited for in a list that may take so long.
    fn first_patience(&self, name: &str, list: Duration) -> Duration {
        let mut silent = self.silent();
        silent.retain(|_, since| since.elapsed() < GRUDGE);
        if silent.contains_key(name) { (list / SHORT_PART).max(SHORT_TIMEOUT) } else { call_patience(list) }
    }

    /// Remembers whether a program answers.
    fn note(&self, name: &str, answers: bool) {
        if answers {
            self.silent().remove(name);
        } else {
            self.silent().insert(name.to_owned(), Instant::now());
        }
    }
}

/// How long one call may take for a list that may take so long.
fn call_patience(list: Duration) -> Duration {
    (list / CALL_PART).max(LIST_CALL)
}

/// What a client hears when an element cannot be asked.
fn refusal(fault: &Fault) -> Error {
    match fault {
        Fault::Gone | Fault::Unknown => gone(),
        Fault::Silent => Error::timed_out("The element's program does not answer"),
        Fault::Refused(why) => {
            Error::conflict("The element's program refused").code("element_refused").context(why)
        }
        Fault::Lost(why) => {
            Error::unavailable("The accessibility bus is starting").retry_after(1).context(why)
        }
    }
}

fn gone() -> Error {
    Error::not_found("The element is gone").code("element_gone")
}
