//! What happens while a screen is recorded? Its keeper measures it every second and ends it when it is asked to, at a
//! limit, with its screen, with the agent, or when its encoder has ended by itself.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::encoder::Encoder;
use super::shelf::Shelf;
use super::timeline::Timeline;
use super::{Kept, Room, rounded};
use crate::display::Screen;
use crate::files::blocking;
use hotdesk_base::clock::{iso8601, now_ms};
use hotdesk_domain::error::Result;

/// Status of one that goes on.
pub const RECORDING: &str = "recording";
/// Status of one that was ended.
const STOPPED: &str = "stopped";
/// Status of one that ended by itself.
pub const FAILED: &str = "failed";
/// How often it is measured: a busy screen makes about a megabyte meanwhile.
const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// Keeps one recording.
pub struct Keeper {
    pub room: Arc<Room>,
    pub kept: Arc<Kept>,
    pub screen: Arc<Screen>,
    pub shelf: Arc<Shelf>,
    /// After this long it ends.
    pub most: Duration,
}

impl Keeper {
    /// The whole life of a recording.
    pub async fn keep(self, mut encoder: Encoder, lines: Option<(Arc<Timeline>, JoinHandle<Option<()>>)>) {
        let (status, reason) = self.until_it_ends(&mut encoder).await;
        // What is done from now on is not in the video.
        self.room.lock().running.insert(self.screen.id.clone(), None);
        encoder.end().await;
        let seconds = {
            let mut began = self.kept.began.lock().unwrap_or_else(PoisonError::into_inner);
            began.take().map_or(0.0, |began| rounded(began.elapsed()))
        };
        if let Some((timeline, writing)) = lines {
            timeline.close();
            if let Err(error) = writing.await {
                tracing::warn!(%error, "a timeline broke down");
            }
        }
        // Before anybody reads that it has ended: then the screen can be recorded again.
        self.room.lock().running.remove(&self.screen.id);
        self.kept.change(|record| {
            status.clone_into(&mut record.status);
            record.reason = Some(reason.to_owned());
            record.ended_at = Some(iso8601(now_ms()));
            record.seconds = seconds;
        });
        if let Err(error) = self.measure().await {
            tracing::warn!(%error, "a recording could not be measured");
        }
        let (shelf, record) = (Arc::clone(&self.shelf), self.kept.record());
        if let Err(error) = blocking(move || shelf.note(&record)).await {
            tracing::warn!(%error, "a recording's end could not be noted");
        }
        self.kept.gone.cancel();
    }

    async fn until_it_ends(&self, encoder: &mut Encoder) -> (&'static str, &'static str) {
        let stopping = self.room.setup.tasks.stopping();
        let screen = self.screen.end();
        let limit = tokio::time::sleep(self.most);
        tokio::pin!(limit);
        let mut tick = tokio::time::interval(MEASURE_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // What was asked for is the reason of what follows from it.
                biased;
                () = stopping.cancelled() => return (STOPPED, "agent_stopped"),
                () = screen.cancelled() => return (STOPPED, "screen_deleted"),
                () = self.kept.stop.cancelled() => return (STOPPED, "asked"),
                () = &mut limit => return (STOPPED, "max_seconds"),
                how = encoder.ended() => {
                    // Its X server goes before the screen has ended, so the encoder may be the first that is heard of.
                    if self.screen.is_ending() {
                        let agent = stopping.is_cancelled();
                        return (STOPPED, if agent { "agent_stopped" } else { "screen_deleted" });
                    }
                    tracing::warn!(screen = self.screen.id, how, "a recording's encoder ended");
                    return (FAILED, "encoder_ended");
                }
                _ = tick.tick() => match self.look().await {
                    Ok(None) => {}
                    Ok(Some(reason)) => return (STOPPED, reason),
                    Err(error) => tracing::warn!(%error, "a recording could not be measured"),
                },
            }
        }
    }

    /// Why it must end now, if it must.
    async fn look(&self) -> Result<Option<&'static str>> {
        self.measure().await?;
        let (room, shelf) = (Arc::clone(&self.room), Arc::clone(&self.shelf));
        blocking(move || {
            if !room.make_room(0)? {
                return Ok(Some("quota"));
            }
            Ok((shelf.free()? < room.setup.limits.least_free).then_some("disk_full"))
        })
        .await
    }

    async fn measure(&self) -> Result<()> {
        let (shelf, id) = (Arc::clone(&self.shelf), self.kept.id());
        let size = blocking(move || shelf.size(&id)).await?;
        self.kept.change(|record| record.size_bytes = size);
        Ok(())
    }
}

/// A record's stamp in milliseconds; one that nobody can read is of the beginning.
pub fn stamp(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_millisecond)
}
