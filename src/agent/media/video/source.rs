//! Source of a screen's video: its encoders, one after another, while somebody watches.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;

use super::encoder::{EncoderSetup, VideoEncoder, micros_since};
use super::rate::RateControl;
use super::{SourceEnd, Subscribable, VideosState, closed, refused};
use crate::display::{Moment, Screen};
use crate::media::ffmpeg;
use hotdesk_domain::desktop::channel::{Failure, GOING_AWAY};
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_http::socket::CloseReason;

/// Interval between checks of the viewers and of the encoder, and between notes of the lag.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How long an encoder may be silent: it takes at least 10 pictures a second, and a busy host seconds to
/// begin.
const STALL_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a screen may take to restart.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(20);
/// Encoders that may end early one after another, before the viewers are sent away.
const ATTEMPTS: u32 = 3;
/// How long an encoder must run before its end counts as no early one.
const LONG_ENOUGH: Duration = Duration::from_secs(10);
/// Pause before another encoder, so that a screen that is resized again and again does not cost a process
/// each time.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// The source of one screen.
pub(super) struct Source {
    videos: Arc<VideosState>,
    screen: Arc<Screen>,
    shared: Subscribable,
}

/// How the work with an encoder ended.
#[derive(Debug)]
enum EncoderEnd {
    /// Nobody watches. The source is not registered any more.
    Unwatched,
    /// The screen has another size.
    Resized,
    /// The viewers need another rate.
    OtherRate,
    /// The encoder ended, or does not work.
    Failed(&'static str),
}

impl Source {
    /// The source of a screen, which is registered.
    pub(super) fn new(videos: Arc<VideosState>, screen: Arc<Screen>, shared: Subscribable) -> Self {
        Self { videos, screen, shared }
    }

    /// Encodes until nobody watches, the screen has ended or encoding fails.
    pub(super) async fn run(self, program: PathBuf) {
        let stopping = self.videos.setup.tasks.stopping();
        let ended = self.screen.ended_token();
        let end = tokio::select! {
            biased;
            () = stopping.cancelled() => CloseReason::new(GOING_AWAY, "going away"),
            () = ended.cancelled() => closed(Failure::Failed, "the screen was deleted"),
            end = self.encode(program) => end,
        };
        // Nobody else sets it.
        let _first = self.shared.end.set(SourceEnd { code: end.code, reason: end.reason });
    }

    async fn encode(&self, program: PathBuf) -> CloseReason {
        let videos = &self.videos.setup;
        let environment = ffmpeg::environment(videos.desktop.as_ref(), &videos.home, &self.screen);
        let environment = match environment {
            Ok(environment) => environment,
            Err(error) => return refused(&error),
        };
        let tasks = videos.tasks.clone();
        let setup = EncoderSetup { program, environment, tasks, began: Instant::now() };
        let (mut failures, mut control) = (0, RateControl::default());
        loop {
            let began = Instant::now();
            let mut encoder = match VideoEncoder::start(&setup, &self.screen, control.rate()).await {
                Ok(encoder) => encoder,
                Err(error) => return refused(&error),
            };
            let end = self.pass_on(&mut encoder, &mut control, setup.began).await;
            let (size, since, log) = (encoder.size, encoder.since, encoder.last_log());
            encoder.end().await;
            match end {
                EncoderEnd::Unwatched => return closed(Failure::Failed, "nobody watched"),
                EncoderEnd::Resized => {}
                EncoderEnd::OtherRate => {
                    let rate = control.rate();
                    tracing::debug!(
                        screen = self.screen.id,
                        rate.fps,
                        rate.kbits,
                        "a video changes its rate"
                    );
                }
                EncoderEnd::Failed(why) if self.is_same_screen(size, since).await => {
                    failures = if began.elapsed() < LONG_ENOUGH { failures + 1 } else { 1 };
                    tracing::info!(screen = self.screen.id, why, log, failures, "a video encoder ended");
                    if failures == ATTEMPTS {
                        return closed(Failure::Failed, "the screen's video could not be encoded");
                    }
                }
                // An X server that ended or changed its size ends the encoder as well.
                EncoderEnd::Failed(_) => {}
            }
            tokio::time::sleep(RETRY_DELAY).await;
            if let Err(error) = self.screen.ready(SCREEN_TIMEOUT).await {
                return refused(&error);
            }
        }
    }

    /// Passes frames on to the viewers. Their times are since `began`.
    async fn pass_on(
        &self,
        encoder: &mut VideoEncoder,
        control: &mut RateControl,
        began: Instant,
    ) -> EncoderEnd {
        let resized = self.wait_resized(encoder.size);
        tokio::pin!(resized);
        let mut tick = tokio::time::interval(CHECK_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Instant::now();
        loop {
            tokio::select! {
                frame = encoder.frame() => match frame {
                    Ok(Some(frame)) => {
                        last = Instant::now();
                        // It fails when nobody watches, which the next tick sees.
                        let _unwatched = self.shared.frames.send(Arc::new(frame));
                    }
                    Ok(None) => return EncoderEnd::Failed("it ended"),
                    Err(bad) => return EncoderEnd::Failed(bad.0),
                },
                () = &mut resized => return EncoderEnd::Resized,
                _ = tick.tick() => {
                    if self.leave_unwatched() {
                        return EncoderEnd::Unwatched;
                    }
                    if last.elapsed() >= STALL_TIMEOUT {
                        return EncoderEnd::Failed("it is silent");
                    }
                    if control.note(self.shared.deliveries.least_lag(micros_since(began))) {
                        return EncoderEnd::OtherRate;
                    }
                }
            }
        }
    }

    /// Waits until the screen has another size.
    async fn wait_resized(&self, size: Size) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            // The screen's thread updates its size only when it handles a request; a screen that is
            // restarting has no size.
            if self.screen.moment().await.is_ok() && self.screen.size() != size {
                return;
            }
        }
    }

    /// Whether the screen is the one that the encoder grabbed.
    async fn is_same_screen(&self, size: Size, since: Option<Moment>) -> bool {
        match (self.screen.moment().await, since) {
            (Ok(now), Some(then)) => now.is_same_connection(then) && self.screen.size() == size,
            (Ok(_), None) | (Err(_), _) => false,
        }
    }

    /// Removes the source when nobody watches. Under the lock, so that nobody joins it meanwhile.
    fn leave_unwatched(&self) -> bool {
        let mut sources = self.videos.lock();
        if self.shared.frames.receiver_count() > 0 {
            return false;
        }
        sources.remove(&self.screen.id);
        true
    }
}

/// Removes the source, also after a panic; not another one that began since.
impl Drop for Source {
    fn drop(&mut self) {
        let mut sources = self.videos.lock();
        let registered = sources.get(&self.screen.id);
        if registered.is_some_and(|registered| Arc::ptr_eq(&registered.end, &self.shared.end)) {
            sources.remove(&self.screen.id);
        }
    }
}
