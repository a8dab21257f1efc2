//! One screen: its state, its readiness and its queue of work.
//!
//! Every call is a job for the screen's worker thread. It fails at once while the screen is not ready.

mod capture;
mod clipboard;
pub(super) mod control;
mod focus_atoms;
pub(super) mod hidden;
pub(super) mod overlay;
mod resize;
mod screenshot;
pub(super) mod session;
pub(super) mod supervise;
pub(super) mod x11_worker;
pub(super) mod xserver;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::clipboard::Clipboard;
use super::fault::{Outcome, RETRY_SECONDS, restarting};
use super::screenshot::cache::ScreenshotCache;
use control::ControlLease;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::{Error, Result};
use hotdesk_pictures::Encoders;
use x11_worker::{CancelCheck, Job, JobStart, SeenSize, X11Worker};

/// How long work may wait in a queue: the longest drag and a little more.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(40);

/// The right to act on a screen; dropping it passes it on. It locks the end of the last turn.
#[derive(Debug)]
pub struct ActionTurn(tokio::sync::OwnedMutexGuard<Instant>);

impl Drop for ActionTurn {
    fn drop(&mut self) {
        *self.0 = Instant::now();
    }
}

/// Lifecycle phase of a screen.
#[derive(Clone, Debug)]
pub(in crate::display) enum Phase {
    /// Starting or restarting.
    Starting,
    /// Ready for jobs.
    Ready(mpsc::Sender<Job>),
    /// Ended for good.
    Ended,
}

/// One screen: an X display with its own pointer, keyboard and windows.
#[derive(Debug)]
pub struct Screen {
    /// `default`, or `screen-100` and so on.
    pub id: String,
    /// X display number.
    pub display: u16,
    /// Whether it is the boot screen.
    pub default: bool,
    pub(in crate::display) size: Arc<SeenSize>,
    /// The size after a restart, in pixels.
    pub(in crate::display) wanted: Mutex<Size>,
    pub(in crate::display) phase: watch::Sender<Phase>,
    /// Cancelled to make the supervisor end the screen.
    pub(in crate::display) stop: CancellationToken,
    /// Cancelled when nothing of the screen runs any more.
    pub(in crate::display) ended: CancellationToken,
    /// Lock of the actions, in the order of the requests, and when the last of them ended.
    turn: Arc<tokio::sync::Mutex<Instant>>,
    /// Whether a task exists that will release input that clients hold.
    pub(in crate::display) release_claimed: AtomicBool,
    /// Screenshots of this screen.
    pub(in crate::display) screenshot_cache: Arc<Mutex<ScreenshotCache>>,
    pub(in crate::display) encoders: Arc<Encoders>,
    pub(in crate::display) clipboard: Clipboard,
    /// Who may act on the screen.
    pub(in crate::display) control: ControlLease,
}

impl Screen {
    pub(in crate::display) fn new(
        id: String,
        display: u16,
        default: bool,
        size: Size,
        stop: CancellationToken,
        encoders: Arc<Encoders>,
        control: ControlLease,
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
            screenshot_cache: Arc::default(),
            encoders,
            turn: Arc::new(tokio::sync::Mutex::new(Instant::now())),
            release_claimed: AtomicBool::new(false),
            clipboard: Clipboard::new(display),
            control,
        }
    }

    /// The value of `DISPLAY` for programs on this screen.
    pub fn display_name(&self) -> String {
        format!(":{}", self.display)
    }

    /// Who may act on the screen.
    pub fn control(&self) -> &ControlLease {
        &self.control
    }

    /// Whether no route finds the screen, because it belongs to a self-test.
    pub(in crate::display) fn is_hidden(&self) -> bool {
        self.id == hidden::ID
    }

    /// The size in pixels as last seen.
    pub fn size(&self) -> Size {
        self.size.get()
    }

    /// Whether the screen accepts jobs.
    pub fn is_ready(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Ready(_))
    }

    /// Whether the screen is being ended or has ended.
    pub fn is_ending(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// The API record (docs/api/screens.md). The VNC server has no TCP port: it listens on a unix socket.
    pub fn record(&self) -> hotdesk_wire::desktop::action::Screen {
        let size = self.size();
        hotdesk_wire::desktop::action::Screen {
            id: self.id.clone(),
            display: self.display_name(),
            width: size.width.into(),
            height: size.height.into(),
            default: self.default,
            vnc_port: None,
            ws_port: None,
        }
    }

    /// Waits until the screen accepts jobs.
    ///
    /// # Errors
    /// `Unavailable` when it does not within `timeout`; `Conflict` when it was deleted meanwhile.
    pub async fn ready(&self, timeout: Duration) -> Result<()> {
        let mut phase = self.phase.subscribe();
        let settled = phase.wait_for(|phase| !matches!(phase, Phase::Starting));
        match tokio::time::timeout(timeout, settled).await {
            Ok(Ok(phase)) if matches!(*phase, Phase::Ready(_)) => Ok(()),
            Ok(Ok(phase)) if matches!(*phase, Phase::Ended) => {
                Err(Error::conflict(format!("Screen {} was deleted while it started", self.id)))
            }
            Ok(Ok(_) | Err(_)) | Err(_) => Err(restarting(&self.display_name())),
        }
    }

    /// Runs a job on the screen's worker.
    pub(in crate::display) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut X11Worker, CancelCheck<'_>) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        self.queue(x11_worker::job(work)).await
    }

    /// Runs a job with another barrier (see [`x11_worker::job_after`]) on the screen's worker.
    pub(in crate::display) async fn run_after<B: 'static, T: Send + 'static>(
        &self,
        barrier: impl FnOnce(&mut X11Worker) -> Outcome<B> + Send + 'static,
        work: impl FnOnce(&mut X11Worker, B, CancelCheck<'_>) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        self.queue(x11_worker::job_after(barrier, work)).await
    }

    /// Queues a job and waits for its result.
    async fn queue<T>(
        &self,
        (job, start, answered): (Job, JobStart, oneshot::Receiver<Result<T>>),
    ) -> Result<T> {
        self.enqueue(job)?;
        self.answer(start, answered).await
    }

    /// Queues a job behind all earlier ones.
    fn enqueue(&self, job: Job) -> Result<()> {
        let down = || restarting(&self.display_name());
        // The sender is dropped on return, because it must not hold the queue open: a worker that ends drops
        // the jobs in it.
        let jobs = match &*self.phase.borrow() {
            Phase::Ready(jobs) => jobs.clone(),
            Phase::Starting | Phase::Ended => return Err(down()),
        };
        jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => self.busy(),
            mpsc::error::TrySendError::Closed(_) => down(),
        })
    }

    /// Waits for the result of a queued job.
    async fn answer<T>(&self, start: JobStart, mut answered: oneshot::Receiver<Result<T>>) -> Result<T> {
        let done = match tokio::time::timeout(QUEUE_TIMEOUT, &mut answered).await {
            Ok(done) => done,
            Err(_) if start.claim() => return Err(self.busy()),
            Err(_) => answered.await,
        };
        done.unwrap_or_else(|_| Err(restarting(&self.display_name())))
    }

    /// Waits for the right to act on the screen. Requests that act run one after another in the order of
    /// arrival, so that none runs between the parts of another. Requests that only look need no turn.
    ///
    /// # Errors
    /// `Unavailable` when the turn does not come in time.
    pub async fn acquire_turn(&self) -> Result<ActionTurn> {
        let turn = Arc::clone(&self.turn).lock_owned();
        let turn = tokio::time::timeout(QUEUE_TIMEOUT, turn).await.map_err(|_| self.busy())?;
        Ok(ActionTurn(turn))
    }

    /// Waits until nobody has had the turn for `timeout`. A list has it from its first action to its end.
    pub async fn wait_until_idle(&self, timeout: Duration) {
        loop {
            let idle = self.turn.lock().await.elapsed();
            if idle >= timeout {
                return;
            }
            tokio::time::sleep(timeout.saturating_sub(idle)).await;
        }
    }

    pub(in crate::display) fn busy(&self) -> Error {
        Error::unavailable(format!("Screen {} is busy: try again", self.display_name()))
            .retry_after(RETRY_SECONDS)
    }

    /// Changes the size of the screen in place; on return the change is done.
    ///
    /// # Errors
    /// `Conflict` when the X server cannot change its size to this; `Unavailable` or `TimedOut` when the
    /// screen is down or stops answering.
    pub async fn resize(&self, size: Size) -> Result<()> {
        self.run(move |worker, _| worker.resize(size)).await?;
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = size;
        Ok(())
    }

    pub(in crate::display) fn wanted(&self) -> Size {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
