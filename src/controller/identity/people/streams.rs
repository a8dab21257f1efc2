//! What becomes of a stream when whoever began it loses the computer? It ends: where it goes to is theirs, and it needs no
//! password to go on. That it is to be ended is stored together with the loss, so that an agent which sleeps or does not
//! answer is told later.

use std::time::Duration;

use axum::http::Method;
use futures_util::{StreamExt, stream};

use crate::computers::fleet::Fleet;
use crate::{App, Shared};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tally::Tally;
use hotdesk_base::wait;
use hotdesk_domain::error::Result;
use hotdesk_guest::{Guest, QUICK};
use hotdesk_store::Store;
use hotdesk_wire::action::Done;

/// How long another order to the same computer is waited for: longer than one takes.
const SEAT_TIMEOUT: Duration = Duration::from_secs(20);
/// Computers that are told at once: as many as are asked for auto-stop, so that one that does not answer holds up no other.
const AT_ONCE: usize = 16;

impl App {
    /// Has computers end their streams, where they have any. It goes on if the caller goes away.
    pub fn end_streams(&self, computers: Vec<ComputerId>) {
        if computers.is_empty() {
            return;
        }
        let (fleet, store) = (self.fleet.clone(), self.store.clone());
        let _task = self.tasks.spawn("end streams", async move { end_all(&fleet, &store, computers).await });
    }
}

/// Tries again to end the streams that are still to be ended.
///
/// # Errors
/// When the store fails.
pub async fn end_the_rest(app: Shared) -> Result<()> {
    let computers = app.store.streams_to_end().await?;
    end_all(&app.fleet, &app.store, computers).await;
    Ok(())
}

/// Ends the stream of a computer that has just come up, if it is to be ended.
pub async fn end_at_wake(ending: &Tally<ComputerId>, store: &Store, computer: ComputerId, guest: &Guest) {
    match store.stream_ends_since(computer).await {
        Ok(None) => {}
        Ok(Some(_)) => end(ending, store, computer, guest).await,
        Err(error) => {
            tracing::warn!(%computer, %error, "whether its stream is to be ended is looked for again");
        }
    }
}

async fn end_all(fleet: &Fleet, store: &Store, computers: Vec<ComputerId>) {
    stream::iter(computers)
        .for_each_concurrent(AT_ONCE, |computer| async move {
            // What does not run streams nothing, until it wakes.
            if let Some(guest) = fleet.running_guest(computer) {
                end(fleet.ending_streams(), store, computer, &guest).await;
            }
        })
        .await;
}

async fn end(ending: &Tally<ComputerId>, store: &Store, computer: ComputerId, guest: &Guest) {
    // Held over the look and the order: the end of another one's stream would follow from an old look.
    let seat = wait::until(SEAT_TIMEOUT, || async { ending.admit(computer, 1) });
    let Some(_seat) = seat.await else {
        tracing::warn!(%computer, "a stream's end is ordered already, and not answered; it is tried again");
        return;
    };
    let ended: Result<()> = async {
        // Looked up before: what is ordered meanwhile may be another one's end. A store that fails ends nothing less.
        let since = store.stream_ends_since(computer).await;
        if matches!(since, Ok(None)) {
            // Somebody who may has begun another one.
            return Ok(());
        }
        let _: Done = guest.call(Method::POST, "/stream/stop", (), None::<&()>, QUICK).await?;
        match since? {
            Some(since) => store.stream_has_ended(computer, since).await,
            None => Ok(()),
        }
    }
    .await;
    if let Err(error) = ended {
        tracing::warn!(%computer, %error, "a stream may go on though whoever began it lost the computer; it is tried again");
    }
}
