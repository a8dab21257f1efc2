//! Stop of a computer's RTMP stream whose owner lost access.
//!
//! A stream needs no password to continue, so it must be stopped. The pending stop is stored in the
//! transaction of the loss, so that an agent that is suspended or does not respond is stopped later.

use std::time::Duration;

use axum::http::Method;

use hotdesk_base::ids::ComputerId;
use hotdesk_base::keyed_semaphore::KeyedSemaphore;
use hotdesk_base::wait;
use hotdesk_domain::error::Result;
use hotdesk_guest::{Guest, QUICK_TIMEOUT};
use hotdesk_store::Store;
use hotdesk_wire::desktop::action::Acknowledgement;

/// Time to wait for another stop of the same computer: longer than one takes.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Stops the stream of a computer that has just resumed, if a stop is pending.
pub(super) async fn end_at_wake(
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
                error = format_args!("{error:#}"),
                "could not read whether its stream must be stopped; it is retried"
            );
        }
    }
}

/// Stops the stream of a computer, unless an authorized user has started another one. A failure is logged;
/// the pending stop stays stored.
pub(in crate::computers) async fn end(
    ending: &KeyedSemaphore<ComputerId>,
    store: &Store,
    computer: ComputerId,
    guest: &Guest,
) {
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
            error = format_args!("{error:#}"),
            "could not stop the stream of a user who lost access; it is retried"
        );
    }
}
