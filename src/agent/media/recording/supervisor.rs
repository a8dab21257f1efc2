//! Supervision of a running recording: measures it every second and ends it.
//!
//! It ends on request, at a limit, with its screen, with the agent, or when its encoder has ended.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::encoder::RecordingEncoder;
use super::store::RecordingStore;
use super::timeline::Timeline;
use super::{RecordingState, RecordingsState, rounded};
use crate::display::Screen;
use crate::files::blocking;
use hotdesk_base::clock;
use hotdesk_domain::error::Result;

/// Status of a running recording.
pub const RECORDING: &str = "recording";
/// Status of a recording that was ended.
const STOPPED: &str = "stopped";
/// Status of a recording whose encoder failed.
pub const FAILED: &str = "failed";
/// Interval between measurements; a busy screen produces about a megabyte meanwhile.
const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// Supervisor of one recording.
pub struct RecordingSupervisor {
    pub shared: Arc<RecordingsState>,
    pub recording: Arc<RecordingState>,
    pub screen: Arc<Screen>,
    pub store: Arc<RecordingStore>,
    /// Time after which the recording ends.
    pub max_length: Duration,
}

impl RecordingSupervisor {
    /// Supervises the recording until it has ended and its record says so.
    pub async fn run(
        self,
        mut encoder: RecordingEncoder,
        lines: Option<(Arc<Timeline>, JoinHandle<Option<()>>)>,
    ) {
        let (status, reason) = self.wait_for_end(&mut encoder).await;
        // Actions from now on are not in the video.
        self.shared.lock().running.insert(self.screen.id.clone(), None);
        encoder.end().await;
        let seconds = {
            let mut began = self.recording.began.lock().unwrap_or_else(PoisonError::into_inner);
            began.take().map_or(0.0, |began| rounded(began.elapsed()))
        };
        if let Some((timeline, writing)) = lines {
            self.shared.setup.timelines.complete(&self.screen).await;
            timeline.close();
            if let Err(error) = writing.await {
                tracing::warn!(%error, "the task of a recording's timeline failed");
            }
        }
        // Before clients can see the end: then the screen can be recorded again.
        self.shared.lock().running.remove(&self.screen.id);
        self.recording.change(|record| {
            status.clone_into(&mut record.status);
            record.reason = Some(reason.to_owned());
            record.ended_at = Some(clock::now().iso8601());
            record.seconds = seconds;
        });
        if let Err(error) = self.measure().await {
            tracing::warn!(error = format_args!("{error:#}"), "cannot measure a recording");
        }
        let (store, record) = (Arc::clone(&self.store), self.recording.record());
        if let Err(error) = blocking(move || store.write_record(&record)).await {
            tracing::warn!(error = format_args!("{error:#}"), "cannot store the end of a recording");
        }
        self.recording.gone.cancel();
    }

    async fn wait_for_end(&self, encoder: &mut RecordingEncoder) -> (&'static str, &'static str) {
        let stopping = self.shared.setup.tasks.stopping();
        let screen = self.screen.ended_token();
        let limit = tokio::time::sleep(self.max_length);
        tokio::pin!(limit);
        let mut tick = tokio::time::interval(MEASURE_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // A request has priority over its consequences as the reason.
                biased;
                () = stopping.cancelled() => return (STOPPED, "agent_stopped"),
                () = screen.cancelled() => return (STOPPED, "screen_deleted"),
                () = self.recording.stop.cancelled() => return (STOPPED, "asked"),
                () = &mut limit => return (STOPPED, "max_seconds"),
                how = encoder.ended() => {
                    // The X server ends before its screen, so the encoder's end may be seen first.
                    if self.screen.is_ending() {
                        let agent = stopping.is_cancelled();
                        return (STOPPED, if agent { "agent_stopped" } else { "screen_deleted" });
                    }
                    tracing::warn!(screen = self.screen.id, how, "the encoder of a recording ended unexpectedly");
                    return (FAILED, "encoder_ended");
                }
                _ = tick.tick() => match self.check_limits().await {
                    Ok(None) => {}
                    Ok(Some(reason)) => return (STOPPED, reason),
                    Err(error) => tracing::warn!(error = format_args!("{error:#}"), "cannot measure a recording"),
                },
            }
        }
    }

    /// Measures the recording; returns the reason for which it must end now, if there is one.
    async fn check_limits(&self) -> Result<Option<&'static str>> {
        self.measure().await?;
        let (shared, store) = (Arc::clone(&self.shared), Arc::clone(&self.store));
        blocking(move || {
            if !shared.free_space(0)? {
                return Ok(Some("quota"));
            }
            Ok((store.free()? < shared.setup.limits.min_free).then_some("disk_full"))
        })
        .await
    }

    async fn measure(&self) -> Result<()> {
        let (store, id) = (Arc::clone(&self.store), self.recording.id());
        let size = blocking(move || store.size(&id)).await?;
        self.recording.change(|record| record.size_bytes = size);
        Ok(())
    }
}
