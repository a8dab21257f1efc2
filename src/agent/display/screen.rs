//! What can be asked of one screen? Every call is a piece of work for its thread, or an answer that it is not ready.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::cache::{Cache, Picture};
use super::capture::Look;
use super::encode::{self, Form};
use super::fault::{Outcome, RETRY_SECONDS, restarting};
use super::seat::{self, Gone, Job, Seat, SeenSize};
use super::{keyboard, keys};
use crate::domain::error::{Error, Result};
use crate::domain::pointer::{Button, Direction, Point};
use crate::domain::resolution::Size;
use crate::wire;

/// How long work may wait for its turn: the longest drag and a little more.
const QUEUE_PATIENCE: Duration = Duration::from_secs(40);
/// How long a picture may wait for an encoder; each takes milliseconds.
pub(super) const ENCODER_PATIENCE: Duration = Duration::from_secs(10);

/// Where a screen is in its life.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// Being started, or started again.
    Starting,
    /// Work is taken.
    Ready(mpsc::Sender<Job>),
    /// It ended for good.
    Ended,
}

/// One screen: an X display with its own pointer, keyboard and windows.
#[derive(Debug)]
pub struct Screen {
    /// `default`, or `screen-100` and so on.
    pub id: String,
    /// The number of its X display.
    pub display: u16,
    /// Whether it is the boot screen.
    pub default: bool,
    pub(super) size: Arc<SeenSize>,
    /// The size that a restart brings back.
    pub(super) wanted: Mutex<Size>,
    pub(super) phase: watch::Sender<Phase>,
    /// Asks the supervisor to end the screen.
    pub(super) stop: CancellationToken,
    /// Set when nothing of the screen runs any more.
    pub(super) ended: CancellationToken,
    cache: Arc<Mutex<Cache>>,
    pub(super) encoders: Arc<Semaphore>,
}

impl Screen {
    pub(super) fn new(
        id: String,
        display: u16,
        default: bool,
        size: Size,
        stop: CancellationToken,
        encoders: Arc<Semaphore>,
    ) -> Self {
        Self {
            id,
            display,
            default,
            size: Arc::new(SeenSize::new(size)),
            wanted: Mutex::new(size),
            phase: watch::Sender::new(Phase::Starting),
            stop,
            ended: CancellationToken::new(),
            cache: Arc::default(),
            encoders,
        }
    }

    /// The value of `DISPLAY` for its programs.
    pub fn display_name(&self) -> String {
        format!(":{}", self.display)
    }

    /// The size as last seen.
    pub fn size(&self) -> Size {
        self.size.get()
    }

    /// Whether it takes work now.
    pub fn is_ready(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Ready(_))
    }

    /// The record of wire.md 7. The VNC server has no TCP port: it listens on a unix socket.
    pub fn record(&self) -> wire::action::Screen {
        let size = self.size();
        wire::action::Screen {
            id: self.id.clone(),
            display: self.display_name(),
            width: size.width.into(),
            height: size.height.into(),
            default: self.default,
            vnc_port: None,
            ws_port: None,
        }
    }

    /// Waits until it takes work.
    ///
    /// # Errors
    /// `Unavailable` when it does not within `patience`, or has ended.
    pub async fn ready(&self, patience: Duration) -> Result<()> {
        let mut phase = self.phase.subscribe();
        let settled = phase.wait_for(|phase| !matches!(phase, Phase::Starting));
        match tokio::time::timeout(patience, settled).await {
            Ok(Ok(phase)) if matches!(*phase, Phase::Ready(_)) => Ok(()),
            Ok(Ok(phase)) if matches!(*phase, Phase::Ended) => {
                Err(Error::conflict(format!("Screen {} was deleted while it started", self.id)))
            }
            Ok(Ok(_) | Err(_)) | Err(_) => Err(restarting(&self.display_name())),
        }
    }

    /// Has a piece of work done in its turn.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Seat, Gone<'_>) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        let down = || restarting(&self.display_name());
        let jobs = match &*self.phase.borrow() {
            Phase::Ready(jobs) => jobs.clone(),
            Phase::Starting | Phase::Ended => return Err(down()),
        };
        let (job, begun, answered) = seat::job(work);
        jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => self.busy(),
            mpsc::error::TrySendError::Closed(_) => down(),
        })?;
        // The queue is not held: a thread that ends drops what waits in it.
        drop(jobs);
        match tokio::time::timeout(QUEUE_PATIENCE, begun).await {
            Ok(Ok(())) => answered.await.unwrap_or_else(|_| Err(down())),
            Ok(Err(_)) => Err(down()),
            Err(_) => Err(self.busy()),
        }
    }

    pub(super) fn busy(&self) -> Error {
        Error::unavailable(format!("Screen {} is busy", self.display_name())).retry_after(RETRY_SECONDS)
    }

    /// A picture of the screen with its pointer.
    ///
    /// # Errors
    /// `Unavailable` or `TimedOut` when the screen cannot be read now; `Internal` when an encoder fails.
    pub async fn screenshot(&self, form: Form) -> Result<Picture> {
        // First only ask whether it changed; a new picture waits for its encoder before it takes memory.
        let cache = Arc::clone(&self.cache);
        let known = move |stamp| lock(&cache).get(stamp, form);
        let asked = known.clone();
        if let Some(picture) = self.run(move |seat, _| seat.known_picture(asked)).await? {
            return Ok(picture);
        }
        let encoders = Arc::clone(&self.encoders).acquire_owned();
        let permit = tokio::time::timeout(ENCODER_PATIENCE, encoders).await;
        let Ok(Ok(permit)) = permit else { return Err(self.busy()) };
        let (stamp, frame) = match self.run(move |seat, _| seat.look(known)).await? {
            Look::Known(picture) => return Ok(picture),
            Look::New(stamp, frame) => (stamp, frame),
        };
        let encoded = tokio::task::spawn_blocking(move || {
            let picture = encode::encode(&frame, form);
            drop(permit);
            picture
        });
        let picture = encoded.await.map_err(|error| Error::internal(format!("encoder: {error}")))??;
        lock(&self.cache).put(stamp, form, picture.clone());
        Ok(picture)
    }

    /// Moves the pointer. Here and below: `Invalid` when a point is outside the screen.
    ///
    /// # Errors
    /// As [`Screen::screenshot`] and [`Point::parse`].
    pub async fn move_to(&self, x: f64, y: f64) -> Result<Point> {
        self.run(move |seat, _| seat.move_to(x, y)).await
    }

    /// Clicks, or double-clicks.
    ///
    /// # Errors
    /// As [`Screen::move_to`].
    pub async fn click(&self, x: f64, y: f64, button: Button, double: bool) -> Result<Point> {
        self.run(move |seat, _| seat.click(x, y, button, double)).await
    }

    /// Drags; on return the button is up.
    ///
    /// # Errors
    /// As [`Screen::move_to`].
    pub async fn drag(
        &self,
        from: (f64, f64),
        to: (f64, f64),
        button: Button,
        duration: Duration,
    ) -> Result<(Point, Point)> {
        self.run(move |seat, _| seat.drag(from, to, button, duration)).await
    }

    /// Turns the wheel at a place, or where the pointer is.
    ///
    /// # Errors
    /// As [`Screen::move_to`].
    pub async fn scroll(
        &self,
        direction: Direction,
        amount: u32,
        x: Option<f64>,
        y: Option<f64>,
    ) -> Result<Point> {
        self.run(move |seat, _| seat.scroll(direction, amount, x, y)).await
    }

    /// Types text; returns how many keys that took.
    ///
    /// # Errors
    /// `Invalid` for control characters, `TooLarge` past [`keyboard::MAX_TEXT_CHARS`].
    pub async fn type_text(&self, text: &str) -> Result<usize> {
        let keysyms = keyboard::keysyms(text)?;
        let count = keysyms.len();
        self.run(move |seat, gone| seat.type_text(&keysyms, gone)).await?;
        Ok(count)
    }

    /// Presses a key or a chord.
    ///
    /// # Errors
    /// `Invalid` for a name that is not known.
    pub async fn press(&self, key: &str) -> Result<()> {
        let chord = keys::parse(key)?;
        self.run(move |seat, _| seat.press_chord(&chord)).await
    }

    /// Gives the screen another size in place; on return it has it.
    ///
    /// # Errors
    /// `Conflict` when its X server cannot change its size.
    pub async fn resize(&self, size: Size) -> Result<()> {
        self.run(move |seat, _| seat.resize(size)).await?;
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = size;
        Ok(())
    }

    pub(super) fn wanted(&self) -> Size {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock(cache: &Mutex<Cache>) -> std::sync::MutexGuard<'_, Cache> {
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}
