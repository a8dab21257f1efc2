//! Is the computer streamed to an RTMP server? One stream at a time, started and ended on request (wire.md 8).
//!
//! ```text
//! idle -> (starting) -> streaming -> idle        (asked)
//!                                 -> terminated  (its server, screen or encoder is gone), until stopped or started
//! ```
//! While it goes on a keeper task has the encoder, and alone ends it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

mod encoder;
mod keeper;
mod reach;
mod words;

use super::desktop::Desktop;
use super::display::Displays;
use super::ffmpeg;
use encoder::{Encoder, Plan};
use hotdesk_base::clock::{iso8601, now_ms};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::limits::MAX_STREAM_START_SECONDS;
use hotdesk_domain::stream::{Destination, check_key};
use hotdesk_wire::stream::{StreamStarted, StreamStatus, StreamTo};

/// Status while nothing is streamed.
const IDLE: &str = "idle";
/// Status while the server takes the stream.
const STREAMING: &str = "streaming";
/// Status of one that ended by itself.
const TERMINATED: &str = "terminated";
/// How long it may take to end when it is asked to: its encoder's time, twice where it was just being replaced.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// Where the session tells which sound server there is.
const SOUND_SERVER: &str = "PULSE_SERVER";

/// What streams stand on.
#[derive(Clone)]
pub struct Setup {
    /// The home folder, for ffmpeg's environment.
    pub home: PathBuf,
    /// The screens.
    pub displays: Displays,
    /// How the encoder reaches them.
    pub desktop: Arc<dyn Desktop>,
    /// What carries them out.
    pub tasks: Tasks,
    /// The encoder's program, looked for on `PATH`.
    pub encoder: PathBuf,
}

/// The stream, if there is one. Clones are the same.
#[derive(Clone)]
pub struct Streams(Arc<Room>);

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

struct Room {
    setup: Setup,
    last: Mutex<Option<Arc<Kept>>>,
}

/// One stream.
struct Kept {
    status: Mutex<StreamStatus>,
    /// Asks it to end.
    stop: CancellationToken,
    /// It has ended, and its status says so.
    gone: CancellationToken,
}

impl Streams {
    /// Nothing is streamed.
    pub fn new(setup: Setup) -> Self {
        Self(Arc::new(Room { setup, last: Mutex::default() }))
    }

    /// Begins to stream; on return the server has taken it.
    ///
    /// # Errors
    /// `Invalid`, also `private_address`; `NotFound` for the screen; `Conflict` with the code `already_streaming`,
    /// `no_encoder` or `stream_stopped`; `Unavailable` with the code `stream_refused` or `encoder_failed`.
    pub async fn start(&self, request: StreamTo) -> Result<StreamStarted> {
        let room = Arc::clone(&self.0);
        // A client that hangs up does not leave half a stream.
        let started = self.0.setup.tasks.spawn("stream start", async move {
            let kept = room.take_place()?;
            // However this ends, panics included, the place is free again unless a keeper has it.
            let gone = kept.gone.clone().drop_guard();
            let started = room.start(request, &kept).await?;
            gone.disarm();
            Ok(started)
        });
        let started = started.await.map_err(|error| Error::internal(format!("a stream: {error}")))?;
        started.unwrap_or_else(|| Err(Error::internal("the start of a stream panicked")))
    }

    /// How it is.
    pub fn status(&self) -> StreamStatus {
        let last = self.0.lock().clone();
        last.map_or_else(idle, |kept| kept.lock().clone())
    }

    /// The screen that is streamed.
    pub fn screen(&self) -> Option<String> {
        let status = self.status();
        status.screen.filter(|_| status.status == STREAMING)
    }

    /// Ends it; nothing is streamed afterwards.
    ///
    /// # Errors
    /// `TimedOut`.
    pub async fn stop(&self) -> Result<()> {
        let Some(kept) = self.0.lock().clone() else { return Ok(()) };
        kept.stop.cancel();
        let ended = tokio::time::timeout(END_TIMEOUT, kept.gone.cancelled()).await;
        ended.map_err(|_| Error::timed_out("The stream did not end in time"))?;
        let mut last = self.0.lock();
        if last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &kept)) {
            *last = None;
        }
        Ok(())
    }
}

impl Room {
    fn take_place(&self) -> Result<Arc<Kept>> {
        let mut last = self.lock();
        if last.as_ref().is_some_and(|kept| !kept.gone.is_cancelled()) {
            return Err(Error::conflict("The computer is streaming already").code("already_streaming"));
        }
        let kept = Arc::new(Kept {
            status: Mutex::new(idle()),
            stop: CancellationToken::new(),
            gone: CancellationToken::new(),
        });
        *last = Some(Arc::clone(&kept));
        Ok(kept)
    }

    async fn start(self: &Arc<Self>, request: StreamTo, kept: &Arc<Kept>) -> Result<StreamStarted> {
        let began = Instant::now();
        let setup = &self.setup;
        let destination = Destination::parse(&request.url)?;
        check_key(request.key.reveal())?;
        let screen = setup.displays.screen(request.screen.as_deref())?;
        let program = ffmpeg::find(&setup.encoder)?;
        // One that is not up says so.
        screen.moment().await?;
        let url = reach::checked(&destination, request.allow_private).await?;
        let environment = ffmpeg::environment(setup.desktop.as_ref(), &setup.home, &screen)?;
        let sound = environment.iter().any(|(name, _)| name == SOUND_SERVER);
        let patience = Duration::from_secs(MAX_STREAM_START_SECONDS).saturating_sub(began.elapsed());
        let plan = Plan { program, environment, url, destination, key: request.key, sound, patience };
        let encoder = Encoder::start(&plan, &screen, &kept.stop, &setup.tasks).await?;
        let pid = encoder.pid();
        *kept.lock() = StreamStatus {
            status: STREAMING.to_owned(),
            start_time: Some(iso8601(now_ms())),
            pid: Some(pid),
            screen: Some(screen.id.clone()),
            sound: Some(encoder.sound),
            ..StreamStatus::default()
        };
        let keeper = keeper::Keeper { kept: Arc::clone(kept), screen, plan, tasks: setup.tasks.clone() };
        let _keeper = setup.tasks.spawn("stream", keeper.keep(encoder));
        Ok(StreamStarted { success: true, status: STREAMING.to_owned(), pid })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Kept>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, StreamStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn idle() -> StreamStatus {
    StreamStatus { status: IDLE.to_owned(), ..StreamStatus::default() }
}
