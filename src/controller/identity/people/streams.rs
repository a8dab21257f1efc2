//! End of RTMP streams whose owner lost access to the computer.
//!
//! A stream needs no password to continue, so it must be stopped. The pending stop is stored in the
//! transaction of the loss, so that an agent that is suspended or does not respond is stopped later.

use std::time::Duration;

use axum::http::Method;
use futures_util::{StreamExt, stream};

use crate::computers::fleet::Fleet;
use crate::{App, AppState};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::keyed_semaphore::KeyedSemaphore;
use hotdesk_base::wait;
use hotdesk_domain::error::Result;
use hotdesk_guest::{Guest, QUICK_TIMEOUT};
use hotdesk_store::Store;
use hotdesk_wire::desktop::action::Acknowledgement;

/// Time to wait for another stop of the same computer: longer than one takes.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(20);
/// Computers that are stopped concurrently, as many as for auto-stop, so that one that does not respond
/// delays no other.
const AT_ONCE: usize = 16;

impl App {
    /// Stops the streams of computers, where they have any. It continues if the caller disconnects.
    pub fn end_streams(&self, computers: Vec<ComputerId>) {
        if computers.is_empty() {
            return;
        }
        let (fleet, store) = (self.fleet.clone(), self.store.clone());
        let _task = self.tasks.spawn("end streams", async move { end_all(&fleet, &store, computers).await });
    }
}

/// Retries the pending stops.
///
/// # Errors
/// `Internal` when the database fails.
pub async fn retry_ending(app: AppState) -> Result<()> {
    let computers = app.store.streams_to_end().await?;
    end_all(&app.fleet, &app.store, computers).await;
    Ok(())
}

/// Stops the stream of a computer that has just resumed, if a stop is pending.
pub async fn end_at_wake(
    ending: &KeyedSemaphore<ComputerId>,
    store: &Store,
    computer: ComputerId,
    guest: &Guest,
) {
    match store.stream_end_requested_at(computer).await {
        Ok(None) => {}
        Ok(Some(_)) => end(ending, store, computer, guest).await,
        Err(error) => {
            tracing::warn!(
                %computer,
                %error,
                "could not read whether its stream must be stopped; it is retried"
            );
        }
    }
}

async fn end_all(fleet: &Fleet, store: &Store, computers: Vec<ComputerId>) {
    stream::iter(computers)
        .for_each_concurrent(AT_ONCE, |computer| async move {
            // A computer that does not run streams nothing until it resumes.
            if let Some(guest) = fleet.running_guest(computer) {
                end(fleet.ending_streams(), store, computer, &guest).await;
            }
        })
        .await;
}

async fn end(ending: &KeyedSemaphore<ComputerId>, store: &Store, computer: ComputerId, guest: &Guest) {
    // Held during the look-up and the stop: a stop that follows from an old look-up could hit a new stream.
    let permit = wait::until(PERMIT_TIMEOUT, || async { ending.try_acquire(computer, 1) });
    let Some(_permit) = permit.await else {
        tracing::warn!(%computer, "another stop of the stream is in progress; it is retried");
        return;
    };
    let ended: Result<()> = async {
        // Looked up before the stop, because a stop that is stored meanwhile may be for another stream. A
        // failing database does not prevent the stop.
        let since = store.stream_end_requested_at(computer).await;
        if matches!(since, Ok(None)) {
            // An authorized user has started another stream.
            return Ok(());
        }
        let _: Acknowledgement =
            guest.call(Method::POST, "/stream/stop", (), None::<&()>, QUICK_TIMEOUT).await?;
        match since? {
            Some(since) => store.clear_stream_end(computer, since).await,
            None => Ok(()),
        }
    }
    .await;
    if let Err(error) = ended {
        tracing::warn!(
            %computer,
            %error,
            "could not stop the stream of a user who lost access; it is retried"
        );
    }
}
