//! Task of a screen's timeline: completes its entries with pictures, in their order.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{FinishedEntry, PendingPicture, ScreenTimeline, Timelines, UnfinishedEntry};

/// Delay of the picture after an action, which a program needs to react.
const REACTION: Duration = Duration::from_millis(150);
/// Longest delay when actions follow each other closely. They share the picture.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Message to the task.
pub(super) enum Item {
    /// An action begins; its picture before is that after the earlier ones.
    Begins(PendingPicture),
    /// An action has ended.
    Done(Box<UnfinishedEntry>),
    /// Complete the entries now, and reply.
    Complete(oneshot::Sender<()>),
}

/// Runs until the screen or the agent ends.
pub(super) async fn run(
    timelines: Timelines,
    timeline: Arc<ScreenTimeline>,
    mut items: mpsc::Receiver<Item>,
) {
    let (stopping, ended) = (timelines.0.tasks.stopping(), timeline.screen.ended_token());
    let mut waiting = WaitingEntries::default();
    loop {
        let item = tokio::select! {
            // The time is first, so that many items do not delay the picture.
            biased;
            () = sleep_until(waiting.due()) => {
                let picture = timeline.picture_after().await;
                waiting.finish(&timelines, picture.as_ref()).await;
                continue;
            }
            item = items.recv() => item,
            () = ended.cancelled() => None,
            () = stopping.cancelled() => None,
        };
        match item {
            Some(Item::Begins(picture)) => {
                let picture = picture.await;
                waiting.finish(&timelines, picture.as_ref()).await;
            }
            Some(Item::Done(entry)) if !entry.pictured && waiting.entries.is_empty() => {
                waiting.entries.push(*entry);
                waiting.finish(&timelines, None).await;
            }
            Some(Item::Done(entry)) => waiting.add(*entry),
            Some(Item::Complete(done)) => {
                let is_pictured = waiting.entries.iter().any(|entry| entry.pictured);
                let picture = if is_pictured { timeline.picture_after().await } else { None };
                waiting.finish(&timelines, picture.as_ref()).await;
                // The receiver is gone when it waits no longer.
                let _ = done.send(());
            }
            None => {
                waiting.finish(&timelines, None).await;
                timelines.forget(&timeline);
                return;
            }
        }
    }
}

/// Entries of actions that have ended, in their order, without their pictures after.
#[derive(Default)]
struct WaitingEntries {
    entries: Vec<UnfinishedEntry>,
    /// When the first and the last of them came.
    since: Option<(Instant, Instant)>,
}

impl WaitingEntries {
    fn add(&mut self, entry: UnfinishedEntry) {
        let now = Instant::now();
        self.since = Some((self.since.map_or(now, |(first, _)| first), now));
        self.entries.push(entry);
    }

    /// When the picture is due.
    fn due(&self) -> Option<Instant> {
        self.since.map(|(first, last)| (last + REACTION).min(first + MAX_DELAY))
    }

    /// Finishes all entries with this picture after them.
    async fn finish(&mut self, timelines: &Timelines, after: Option<&Bytes>) {
        self.since = None;
        for entry in self.entries.drain(..) {
            let before = match entry.before {
                Some(picture) => picture.await,
                None => None,
            };
            let finished = Arc::new(FinishedEntry {
                by: entry.by,
                began: entry.began,
                record: entry.record,
                before,
                after: after.filter(|_| entry.pictured).cloned(),
            });
            timelines.ring().push(Arc::clone(&finished));
            if let Some(sink) = &entry.sink {
                sink.add(&finished);
            }
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
