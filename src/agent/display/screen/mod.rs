//! What can be asked of one screen? Every call is a piece of work for its thread, or an answer that it is not ready.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::album::Album;
use super::clipboard::Clipboard;
use super::encode::Encoders;
use super::fault::{Outcome, RETRY_SECONDS, restarting};
use super::seat::{self, Gone, Job, Seat, SeenSize};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::resolution::Size;

/// How long work may wait for its turn: the longest drag and a little more.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(40);

/// The right to act on a screen, given back when dropped.
#[derive(Debug)]
pub struct Turn(#[allow(dead_code)] tokio::sync::OwnedMutexGuard<()>);

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
    /// Whose turn it is to act.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// When the last turn began.
    acted: Mutex<Instant>,
    /// Whether somebody waits to let go of what a client keeps down.
    pub(super) watched: AtomicBool,
    /// The pictures that were taken of it.
    pub(super) album: Arc<Mutex<Album>>,
    pub(super) encoders: Arc<Encoders>,
    pub(super) clipboard: Clipboard,
}

impl Screen {
    pub(super) fn new(
        id: String,
        display: u16,
        default: bool,
        size: Size,
        stop: CancellationToken,
        encoders: Arc<Encoders>,
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
            album: Arc::default(),
            encoders,
            turn: Arc::default(),
            acted: Mutex::new(Instant::now()),
            watched: AtomicBool::new(false),
            clipboard: Clipboard::default(),
        }
    }

    /// The value of `DISPLAY` for its programs.
    pub fn display_name(&self) -> String {
        format!(":{}", self.display)
    }

    /// Whether no route finds it: it is a self-test's own.
    pub(super) fn is_hidden(&self) -> bool {
        self.id == super::hidden::ID
    }

    /// The size as last seen.
    pub fn size(&self) -> Size {
        self.size.get()
    }

    /// Whether it takes work now.
    pub fn is_ready(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Ready(_))
    }

    /// Whether it was asked to end, or has.
    pub fn is_ending(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// The record of wire.md 7. The VNC server has no TCP port: it listens on a unix socket.
    pub fn record(&self) -> hotdesk_wire::action::Screen {
        let size = self.size();
        hotdesk_wire::action::Screen {
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
        match tokio::time::timeout(QUEUE_TIMEOUT, begun).await {
            Ok(Ok(())) => answered.await.unwrap_or_else(|_| Err(down())),
            Ok(Err(_)) => Err(down()),
            Err(_) => Err(self.busy()),
        }
    }

    /// Waits for the right to act on the screen: requests that act come one after another, in the order in which they
    /// asked, so that none comes between the parts of another. Looking needs no turn.
    ///
    /// # Errors
    /// `Unavailable` when the turn does not come in time.
    pub async fn turn(&self) -> Result<Turn> {
        let turn = Arc::clone(&self.turn).lock_owned();
        let turn = tokio::time::timeout(QUEUE_TIMEOUT, turn).await.map_err(|_| self.busy())?;
        *self.acted.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Ok(Turn(turn))
    }

    /// Resolves when nobody has begun to act for a time.
    pub async fn left_alone(&self, patience: Duration) {
        loop {
            let quiet = self.acted.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
            if quiet >= patience {
                return;
            }
            tokio::time::sleep(patience.saturating_sub(quiet)).await;
        }
    }

    pub(super) fn busy(&self) -> Error {
        Error::unavailable(format!("Screen {} is busy", self.display_name())).retry_after(RETRY_SECONDS)
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
