//! Supervision of the running stream.
//!
//! It ends on request, with its screen or the agent, and when the server disconnects. A screen that was
//! resized or restarted gets another encoder.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;

use super::encoder::{StreamEncoder, StreamPlan};
use super::{IDLE, StreamState, TERMINATED};
use crate::display::Screen;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::desktop::stream::StreamStatus;

/// Interval between checks of the screen's size and of the sent bytes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the number of sent bytes may stay the same: even an idle desktop needs some kilobytes per second.
const STALL_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a screen may take to restart.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(20);
/// Attempts to start another encoder: a server may need a moment to see that the previous connection is
/// closed.
const ATTEMPTS: usize = 3;
/// Delay between two attempts.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Supervisor of one stream.
pub struct StreamSupervisor {
    pub stream: Arc<StreamState>,
    pub screen: Arc<Screen>,
    pub plan: StreamPlan,
    pub tasks: Tasks,
}

/// Next step after an encoder.
enum NextStep {
    /// Start another one, because the screen has changed.
    Restart,
    /// End as requested.
    Idle,
    /// End for this reason.
    Over(&'static str),
}

impl StreamSupervisor {
    /// Supervises the stream until it has ended.
    pub async fn run(self, mut encoder: StreamEncoder) {
        // Also on a panic.
        let _gone = self.stream.gone.clone().drop_guard();
        let (next, detail) = loop {
            let next = self.wait_for_end(&mut encoder).await;
            let detail = encoder.log().last();
            encoder.end().await;
            if !matches!(next, NextStep::Restart) {
                break (next, detail);
            }
            match self.restart().await {
                Ok(another) => encoder = another,
                Err(over) => break over,
            }
            let mut status = self.stream.lock();
            (status.pid, status.sound) = (Some(encoder.pid()), Some(encoder.sound));
        };
        let mut status = self.stream.lock();
        match next {
            NextStep::Over(reason) => {
                tracing::info!(screen = self.screen.id, reason, detail, "a stream ended unexpectedly");
                TERMINATED.clone_into(&mut status.status);
                status.pid = None;
                status.reason = Some(reason.to_owned());
                status.detail = Some(detail).filter(|detail| !detail.is_empty());
            }
            NextStep::Idle | NextStep::Restart => {
                *status = StreamStatus { status: IDLE.to_owned(), ..StreamStatus::default() };
            }
        }
    }

    async fn wait_for_end(&self, encoder: &mut StreamEncoder) -> NextStep {
        let stopping = self.tasks.stopping();
        let screen = self.screen.ended_token();
        let mut tick = tokio::time::interval(CHECK_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut sent, mut since) = (0, Instant::now());
        loop {
            tokio::select! {
                // A request has priority over its consequences as the reason.
                biased;
                () = stopping.cancelled() => return NextStep::Over("agent_stopped"),
                () = self.stream.stop.cancelled() => return NextStep::Idle,
                () = screen.cancelled() => return NextStep::Over("screen_deleted"),
                () = encoder.ended() => return self.next_step(encoder).await,
                _ = tick.tick() => {
                    if self.has_changed(encoder).await {
                        return NextStep::Restart;
                    }
                    let now = encoder.sent();
                    if now != sent {
                        (sent, since) = (now, Instant::now());
                    } else if since.elapsed() >= STALL_TIMEOUT {
                        return NextStep::Over("server_stalled");
                    }
                }
            }
        }
    }

    /// Returns the next step after an encoder that ended unexpectedly.
    async fn next_step(&self, encoder: &StreamEncoder) -> NextStep {
        if encoder.log().blames_server() {
            return NextStep::Over("server_gone");
        }
        let screen_is_same = match (self.screen.moment().await, encoder.since) {
            (Ok(now), Some(then)) => now.is_same_connection(then) && self.screen.size() == encoder.size,
            (Ok(_), None) | (Err(_), _) => false,
        };
        // The sound server is restarted when it ends, like the screen; silence is sent until then.
        if screen_is_same && !encoder.log().blames_speaker() {
            NextStep::Over("encoder_ended")
        } else {
            NextStep::Restart
        }
    }

    /// Whether the screen's size differs from the encoder's.
    async fn has_changed(&self, encoder: &StreamEncoder) -> bool {
        // The screen's thread updates its size only when it handles a request; a screen that is restarting
        // has no size.
        self.screen.moment().await.is_ok() && self.screen.size() != encoder.size
    }

    /// Starts another encoder, or returns the reason for which there is none.
    async fn restart(&self) -> Result<StreamEncoder, (NextStep, String)> {
        let mut last = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::select! {
                    () = self.stream.stop.cancelled() => break,
                    () = tokio::time::sleep(RETRY_DELAY) => {}
                }
            }
            let ready = tokio::select! {
                () = self.stream.stop.cancelled() => break,
                ready = self.screen.ready(SCREEN_TIMEOUT) => ready,
            };
            if let Err(error) = ready {
                return Err((NextStep::Over("screen_deleted"), error.message));
            }
            match StreamEncoder::start(&self.plan, &self.screen, &self.stream.stop, &self.tasks).await {
                Ok(encoder) => return Ok(encoder),
                Err(error) => last = Some(error),
            }
        }
        if self.stream.stop.is_cancelled() {
            return Err((NextStep::Idle, String::new()));
        }
        let (code, message) = last.map_or((None, String::new()), |error| (error.code, error.message));
        let reason = if code == Some(ErrorCode::StreamRefused) { "server_gone" } else { "encoder_ended" };
        Err((NextStep::Over(reason), message))
    }
}
