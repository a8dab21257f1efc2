//! RTMP stream of a screen: one at a time, started and stopped on request (docs/api/streaming.md).
//!
//! ```text
//! idle -> (starting) -> streaming -> idle        (on request)
//!                                 -> terminated  (its server, screen or encoder ended), until stopped or started
//! ```
//! While the stream runs, only its supervisor task ends it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

mod encoder;
mod ffmpeg_log;
mod supervisor;
mod target_address;

use crate::display::Displays;
use crate::display::desktop::Desktop;
use crate::media::ffmpeg;
use encoder::{StreamEncoder, StreamPlan};
use hotdesk_base::clock;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::stream::{Destination, check_key};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::limits::MAX_STREAM_START_SECONDS;
use hotdesk_wire::desktop::stream::{StreamStarted, StreamStatus, StreamTo};

/// Status without a stream.
const IDLE: &str = "idle";
/// Status of a running stream.
const STREAMING: &str = "streaming";
/// Status of a stream that ended unexpectedly.
const TERMINATED: &str = "terminated";
/// How long a stream may take to end on request: the encoder's timeout, twice when the encoder was being
/// replaced.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// PulseAudio source of the session's virtual speaker.
const SPEAKER: &str = "hotdesk_speaker.monitor";
/// Environment variable in which the session names its sound server.
const SOUND_SERVER: &str = "PULSE_SERVER";

/// Dependencies of the streams.
#[derive(Clone)]
pub struct StreamSetup {
    /// Home folder, for ffmpeg's environment.
    pub home: PathBuf,
    /// The screens.
    pub displays: Displays,
    /// Environment with which the encoder reaches the screens.
    pub desktop: Arc<dyn Desktop>,
    /// Task group.
    pub tasks: Tasks,
    /// Encoder program, looked up in `PATH`.
    pub encoder: PathBuf,
    /// Cancelled by a stop: the start of the template's stream is not repeated.
    pub automatic: CancellationToken,
}

/// The stream, if there is one. Clones share one state.
#[derive(Clone)]
pub struct Streams(Arc<StreamerState>);

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

struct StreamerState {
    setup: StreamSetup,
    last: Mutex<Option<Arc<StreamState>>>,
}

/// One stream.
struct StreamState {
    status: Mutex<StreamStatus>,
    /// Cancelled to end it.
    stop: CancellationToken,
    /// Cancelled when it has ended and its status says so.
    gone: CancellationToken,
}

impl Streams {
    /// Without a stream.
    pub fn new(setup: StreamSetup) -> Self {
        Self(Arc::new(StreamerState { setup, last: Mutex::default() }))
    }

    /// Starts the stream; on return the server has accepted it.
    ///
    /// # Errors
    /// `Invalid` (also `private_address`); `NotFound` for an unknown screen; `Conflict` (`already_streaming`,
    /// `no_encoder`, `stream_stopped`); `Unavailable` (`stream_refused`, `encoder_failed`). There is no
    /// stream then.
    pub async fn start(&self, request: StreamTo) -> Result<StreamStarted> {
        let shared = Arc::clone(&self.0);
        let stream = shared.reserve()?;
        // Ends the reservation also on a panic, unless a supervisor has taken over.
        let gone = stream.gone.clone().drop_guard();
        // In its own task: a client that disconnects does not leave a half-started stream.
        let started = self.0.setup.tasks.spawn("stream start", async move {
            let started = shared.start(request, &stream).await?;
            gone.disarm();
            Ok(started)
        });
        let started = started
            .await
            .map_err(|error| Error::internal(format!("the task that starts a stream failed: {error}")))?;
        started.unwrap_or_else(|| Err(Error::internal("the start of a stream panicked")))
    }

    /// Current status.
    pub fn status(&self) -> StreamStatus {
        let last = self.0.lock().clone();
        last.map_or_else(idle, |stream| stream.lock().clone())
    }

    /// Id of the screen that is being streamed.
    pub fn screen(&self) -> Option<String> {
        let status = self.status();
        status.screen.filter(|_| status.status == STREAMING)
    }

    /// Ends the stream, if there is one, and the start that is repeated after a boot; the status is idle afterwards.
    ///
    /// # Errors
    /// `TimedOut` when it does not end in time.
    pub async fn stop(&self) -> Result<()> {
        self.0.setup.automatic.cancel();
        let Some(stream) = self.0.lock().clone() else { return Ok(()) };
        stream.stop.cancel();
        let ended = tokio::time::timeout(END_TIMEOUT, stream.gone.cancelled()).await;
        ended.map_err(|_| Error::timed_out("The stream did not end in time"))?;
        let mut last = self.0.lock();
        if last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &stream)) {
            *last = None;
        }
        Ok(())
    }
}

impl StreamerState {
    fn reserve(&self) -> Result<Arc<StreamState>> {
        let mut last = self.lock();
        if last.as_ref().is_some_and(|stream| !stream.gone.is_cancelled()) {
            return Err(
                Error::conflict("The computer is streaming already").code(ErrorCode::AlreadyStreaming)
            );
        }
        let stream = Arc::new(StreamState {
            status: Mutex::new(idle()),
            stop: CancellationToken::new(),
            gone: CancellationToken::new(),
        });
        *last = Some(Arc::clone(&stream));
        Ok(stream)
    }

    async fn start(self: &Arc<Self>, request: StreamTo, stream: &Arc<StreamState>) -> Result<StreamStarted> {
        let began = Instant::now();
        let setup = &self.setup;
        let destination = Destination::parse(&request.url)?;
        check_key(request.key.reveal())?;
        let screen = setup.displays.screen(request.screen.as_deref())?;
        let program = ffmpeg::find(&setup.encoder)?;
        // Fails when the screen is not running.
        screen.moment().await?;
        let url = target_address::resolve_url(&destination, request.allow_private).await?;
        let environment = ffmpeg::environment(setup.desktop.as_ref(), &setup.home, &screen)?;
        let sound = environment.iter().any(|(name, _)| name == SOUND_SERVER);
        let start_timeout = Duration::from_secs(MAX_STREAM_START_SECONDS).saturating_sub(began.elapsed());
        let plan =
            StreamPlan { program, environment, url, destination, key: request.key, sound, start_timeout };
        let encoder = StreamEncoder::start(&plan, &screen, &stream.stop, &setup.tasks).await?;
        let pid = encoder.pid();
        *stream.lock() = StreamStatus {
            status: STREAMING.to_owned(),
            start_time: Some(clock::now().iso8601()),
            pid: Some(pid),
            screen: Some(screen.id.clone()),
            sound: Some(encoder.sound),
            ..StreamStatus::default()
        };
        let supervisor = supervisor::StreamSupervisor {
            stream: Arc::clone(stream),
            screen,
            plan,
            tasks: setup.tasks.clone(),
        };
        let _task = setup.tasks.spawn("stream", supervisor.run(encoder));
        Ok(StreamStarted { success: true, status: STREAMING.to_owned(), pid })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<StreamState>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamState {
    fn lock(&self) -> MutexGuard<'_, StreamStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn idle() -> StreamStatus {
    StreamStatus { status: IDLE.to_owned(), ..StreamStatus::default() }
}
