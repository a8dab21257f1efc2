//! What happens while a computer streams? Its keeper ends the stream when it is asked to, with its screen or the agent,
//! and when the server is gone; a screen that changed its size or was started again gets another encoder.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;

use super::encoder::{Encoder, Plan};
use super::{IDLE, Kept, TERMINATED};
use crate::display::Screen;
use hotdesk_base::tasks::Tasks;
use hotdesk_wire::stream::StreamStatus;

/// How often the screen's size and what was sent are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the server may take nothing: pictures and sound go on whatever there is to see and to hear, some kilobytes a
/// second at the least.
const STALL_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a screen may take to come back.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(20);
/// Encoders that are tried in its place: a server may need a moment to see that the one before has gone.
const TRIES: usize = 3;
/// The time between two of them.
const TRY_PAUSE: Duration = Duration::from_secs(1);

/// Keeps one stream.
pub struct Keeper {
    pub kept: Arc<Kept>,
    pub screen: Arc<Screen>,
    pub plan: Plan,
    pub tasks: Tasks,
}

/// What comes after an encoder.
enum Next {
    /// Another one: the screen is not what it was.
    Again,
    /// Nothing, because it was asked for.
    Idle,
    /// Nothing, for this reason.
    Over(&'static str),
}

impl Keeper {
    /// The whole life of a stream.
    pub async fn keep(self, mut encoder: Encoder) {
        // Also when this panics.
        let _gone = self.kept.gone.clone().drop_guard();
        let (next, detail) = loop {
            let next = self.until_it_ends(&mut encoder).await;
            let detail = encoder.words().last();
            encoder.end().await;
            if !matches!(next, Next::Again) {
                break (next, detail);
            }
            match self.again().await {
                Ok(another) => encoder = another,
                Err(over) => break over,
            }
            let mut status = self.kept.lock();
            (status.pid, status.sound) = (Some(encoder.pid()), Some(encoder.sound));
        };
        let mut status = self.kept.lock();
        match next {
            Next::Over(reason) => {
                tracing::info!(screen = self.screen.id, reason, detail, "a stream was terminated");
                TERMINATED.clone_into(&mut status.status);
                status.pid = None;
                status.reason = Some(reason.to_owned());
                status.detail = Some(detail).filter(|detail| !detail.is_empty());
            }
            Next::Idle | Next::Again => {
                *status = StreamStatus { status: IDLE.to_owned(), ..StreamStatus::default() };
            }
        }
    }

    async fn until_it_ends(&self, encoder: &mut Encoder) -> Next {
        let stopping = self.tasks.stopping();
        let screen = self.screen.end();
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut sent, mut since) = (0, Instant::now());
        loop {
            tokio::select! {
                // What was asked for is the reason of what follows from it.
                biased;
                () = stopping.cancelled() => return Next::Over("agent_stopped"),
                () = self.kept.stop.cancelled() => return Next::Idle,
                () = screen.cancelled() => return Next::Over("screen_deleted"),
                () = encoder.ended() => return self.after(encoder).await,
                _ = tick.tick() => {
                    if self.has_changed(encoder).await {
                        return Next::Again;
                    }
                    let now = encoder.sent();
                    if now != sent {
                        (sent, since) = (now, Instant::now());
                    } else if since.elapsed() >= STALL_TIMEOUT {
                        return Next::Over("server_stalled");
                    }
                }
            }
        }
    }

    /// What comes after an encoder that ended by itself.
    async fn after(&self, encoder: &Encoder) -> Next {
        if encoder.words().blame_the_server() {
            return Next::Over("server_gone");
        }
        let screen_is_same = match (self.screen.moment().await, encoder.since) {
            (Ok(now), Some(then)) => now.shares_its_screen_with(then) && self.screen.size() == encoder.size,
            (Ok(_), None) | (Err(_), _) => false,
        };
        // The sound server is started again when it ends, as the screen is; silence is sent until then.
        if screen_is_same && !encoder.words().blame_the_speaker() {
            Next::Over("encoder_ended")
        } else {
            Next::Again
        }
    }

    /// Whether the screen has another size than the encoder's.
    async fn has_changed(&self, encoder: &Encoder) -> bool {
        // The screen's thread learns of its size when it does something; one that is starting again has none.
        self.screen.moment().await.is_ok() && self.screen.size() != encoder.size
    }

    /// Another encoder, or why there is none.
    async fn again(&self) -> Result<Encoder, (Next, String)> {
        let mut last = None;
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::select! {
                    () = self.kept.stop.cancelled() => break,
                    () = tokio::time::sleep(TRY_PAUSE) => {}
                }
            }
            let ready = tokio::select! {
                () = self.kept.stop.cancelled() => break,
                ready = self.screen.ready(SCREEN_TIMEOUT) => ready,
            };
            if let Err(error) = ready {
                return Err((Next::Over("screen_deleted"), error.message));
            }
            match Encoder::start(&self.plan, &self.screen, &self.kept.stop, &self.tasks).await {
                Ok(encoder) => return Ok(encoder),
                Err(error) => last = Some(error),
            }
        }
        if self.kept.stop.is_cancelled() {
            return Err((Next::Idle, String::new()));
        }
        let (code, message) = last.map_or((None, String::new()), |error| (error.code, error.message));
        let reason = if code == Some("stream_refused") { "server_gone" } else { "encoder_ended" };
        Err((Next::Over(reason), message))
    }
}
