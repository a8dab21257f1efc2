//! Live video of a screen for viewers: H.264 by a WebSocket, without input (docs/channels.md).
//!
//! ```text
//! first viewer -> source: encoder -> frames -> every viewer, each with a bounded queue
//!                           |  ^ screen resized or restarted, viewers late or in time again
//!                           v  |
//!                        another encoder      last viewer left, screen ended, encoder failed -> no source
//! ```
//! A screen has one encoder for all of its viewers, and none without viewers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

mod delivery;
mod encoder;
mod flv;
mod rate;
mod source;
mod unit;
mod viewer_state;

use crate::display::desktop::Desktop;
use crate::display::{Displays, Screen};
use crate::media::ffmpeg;
use delivery::{Deliveries, Delivery};
use hotdesk_base::keyed_semaphore::{KeyedSemaphore, Permit};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::channel::{Channel, Failure, GOING_AWAY, NORMAL};
use hotdesk_domain::error::{Error, Kind};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_http::socket::{CloseReason, PeerMessage, Receiver, Sender};
use hotdesk_wire::desktop::channel::video::VideoClientMessage;
use source::Source;
use unit::VideoFrame;
use viewer_state::{Step, ViewerState};

/// How long to wait for a screen that is starting. A viewer whose connection is refused has VNC.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Concurrent viewers of one screen, as many as of VNC.
const MAX_VIEWERS: usize = 64;
/// Frames that wait for a slow viewer: half a second. Older ones are not worth seeing, so it goes on at the
/// next key frame then.
const MAX_WAITING: usize = 16;
/// Longest message of a viewer that is read, in bytes: a report has about 50.
const MAX_REPORT: usize = 256;

/// Dependencies of the video.
#[derive(Clone)]
pub struct VideoSetup {
    /// Home folder, for ffmpeg's environment.
    pub home: PathBuf,
    /// The screens; `None` when the computer has none.
    pub displays: Option<Displays>,
    /// Environment with which the encoder reaches the screens.
    pub desktop: Arc<dyn Desktop>,
    /// Task group.
    pub tasks: Tasks,
    /// Encoder program, looked up in `PATH`.
    pub encoder: PathBuf,
}

/// Video of the screens. Clones share one state.
#[derive(Clone)]
pub struct Videos(Arc<VideosState>);

impl std::fmt::Debug for Videos {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Videos").finish_non_exhaustive()
    }
}

struct VideosState {
    setup: VideoSetup,
    /// Running sources by the id of their screen.
    sources: Mutex<HashMap<String, Subscribable>>,
    /// Viewers by the id of their screen.
    permits: KeyedSemaphore<String>,
}

/// What viewers share of a source.
#[derive(Clone)]
struct Subscribable {
    frames: broadcast::Sender<Arc<VideoFrame>>,
    deliveries: Arc<Deliveries>,
    /// Set before the frames end.
    end: Arc<OnceLock<SourceEnd>>,
}

/// Why a source ended, for its viewers.
#[derive(Clone, Debug)]
struct SourceEnd {
    code: u16,
    reason: Cow<'static, str>,
}

/// A viewer's part of a source.
struct Subscription {
    frames: broadcast::Receiver<Arc<VideoFrame>>,
    delivery: Arc<Delivery>,
    end: Arc<OnceLock<SourceEnd>>,
    _permit: Permit<String>,
}

impl Subscription {
    /// Joins a source, whose lock the caller holds.
    fn of(source: &Subscribable, permit: Permit<String>) -> Self {
        Self {
            frames: source.frames.subscribe(),
            delivery: source.deliveries.join(),
            end: Arc::clone(&source.end),
            _permit: permit,
        }
    }
}

impl Videos {
    /// Without viewers.
    pub fn new(setup: VideoSetup) -> Self {
        let (sources, permits) = (Mutex::default(), KeyedSemaphore::default());
        Self(Arc::new(VideosState { setup, sources, permits }))
    }

    /// Serves one viewer of a screen (the boot screen for `None`) until it leaves, the video ends or `stop`
    /// is cancelled. Of what the viewer sends, reports of what it received are read.
    pub async fn serve(
        &self,
        screen: Option<&str>,
        sender: Sender,
        receiver: Receiver,
        stop: CancellationToken,
    ) -> CloseReason {
        let joined = tokio::select! {
            joined = self.join(screen) => joined,
            () = stop.cancelled() => return CloseReason::new(GOING_AWAY, "going away"),
        };
        let subscription = match joined {
            Ok(subscription) => subscription,
            Err(closing) => return closing,
        };
        let delivery = Arc::clone(&subscription.delivery);
        tokio::select! {
            closing = send(subscription, &sender) => closing,
            closing = read_reports(receiver, &delivery) => closing,
            () = stop.cancelled() => CloseReason::new(GOING_AWAY, "going away"),
        }
    }

    async fn join(&self, screen: Option<&str>) -> Result<Subscription, CloseReason> {
        let setup = &self.0.setup;
        let displays = setup.displays.as_ref();
        let displays = displays.ok_or_else(|| closed(Failure::Failed, "this computer has no screens"))?;
        let screen = displays.screen(screen).map_err(|error| refused(&error))?;
        let program = ffmpeg::find(&setup.encoder).map_err(|error| refused(&error))?;
        let Some(permit) = self.0.permits.try_acquire(screen.id.clone(), MAX_VIEWERS) else {
            let full = format!("screen {} has {MAX_VIEWERS} viewers; try again when one has left", screen.id);
            return Err(closed(Failure::Failed, full));
        };
        screen.ready(SCREEN_TIMEOUT).await.map_err(|error| refused(&error))?;
        Ok(self.0.subscribe(&screen, program, permit))
    }
}

impl VideosState {
    /// Subscribes to the source of a screen; starts one when there is none.
    fn subscribe(
        self: &Arc<Self>,
        screen: &Arc<Screen>,
        program: PathBuf,
        permit: Permit<String>,
    ) -> Subscription {
        let mut sources = self.lock();
        if let Some(running) = sources.get(&screen.id) {
            return Subscription::of(running, permit);
        }
        let (frames, _none) = broadcast::channel(MAX_WAITING);
        let shared = Subscribable { frames, deliveries: Arc::default(), end: Arc::default() };
        let subscription = Subscription::of(&shared, permit);
        sources.insert(screen.id.clone(), shared.clone());
        drop(sources);
        let source = Source::new(Arc::clone(self), Arc::clone(screen), shared);
        let _task = self.setup.tasks.spawn("video", source.run(program));
        subscription
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Subscribable>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends frames to a viewer until they end.
async fn send(mut subscription: Subscription, sender: &Sender) -> CloseReason {
    let mut viewing = ViewerState::default();
    loop {
        let frame = match subscription.frames.recv().await {
            Ok(frame) => frame,
            Err(RecvError::Lagged(_)) => {
                viewing.miss();
                continue;
            }
            Err(RecvError::Closed) => {
                let end = subscription.end.get().cloned();
                return end.map_or_else(
                    || closed(Failure::Failed, "the video failed"),
                    |SourceEnd { code, reason }| CloseReason::new(code, reason),
                );
            }
        };
        if subscription.delivery.is_too_late(frame.micros) {
            viewing.miss();
            continue;
        }
        let announced = match viewing.step(&frame) {
            Step::Skip => continue,
            Step::Announce => sender.json(&frame.format.started()).await,
            Step::Send => Ok(()),
        };
        subscription.delivery.note_sent(frame.micros);
        let sent = match announced {
            Ok(()) => sender.binary(frame.message.clone()).await,
            gone @ Err(_) => gone,
        };
        if sent.is_err() {
            return CloseReason::new(NORMAL, "the client does not read");
        }
    }
}

/// Reads what a viewer reports until it leaves. Whatever else it sends has no meaning.
async fn read_reports(mut receiver: Receiver, delivery: &Delivery) -> CloseReason {
    while let Some(message) = receiver.receive().await {
        if let PeerMessage::Text(text) = message
            && text.len() <= MAX_REPORT
            && let Ok(VideoClientMessage::Received { micros }) = serde_json::from_str(text.as_str())
        {
            delivery.note_received(micros);
        }
    }
    CloseReason::new(NORMAL, "bye")
}

fn closed(failure: Failure, reason: impl Into<Cow<'static, str>>) -> CloseReason {
    CloseReason::new(Channel::Video.close_code(failure), reason)
}

fn refused(error: &Error) -> CloseReason {
    tracing::info!(error = format_args!("{error:#}"), "no video of a screen");
    let failure = if error.code == Some(ErrorCode::NoEncoder) {
        Failure::NoEncoder
    } else if error.kind == Kind::NotFound {
        Failure::Unknown
    } else {
        Failure::Failed
    };
    closed(failure, error.message.clone())
}
