//! Agents that answer nothing: repeated health checks, and notice of each change.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use super::Runner;
use super::registry::FleetState;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::time::UnixMillis;
use hotdesk_guest::Guest;

/// Pause between two questions to an agent that does not answer.
const AGENT_RETRY_PAUSE: Duration = Duration::from_secs(2);

impl Runner {
    /// Returns a future that asks an unresponsive agent again and again, so that its record shows soon that it
    /// answers. It never ends.
    pub(super) fn watch_agent(&self) -> impl Future<Output = Infallible> + Send + use<> {
        let (id, guest) = (self.id, self.presence.borrow().guest.clone());
        let shared = Arc::clone(&self.shared);
        async move {
            let Some(guest) = guest else { return pending().await };
            let mut since = guest.unresponsive_since();
            loop {
                // The sender lives in the guest, so the channel is open.
                if since.wait_for(Option::is_some).await.is_err() {
                    return pending().await;
                }
                shared.note_live_change(id);
                tracing::warn!(computer = %id, "the agent does not answer; a restart of the computer is the remedy");
                while since.borrow().is_some() {
                    tokio::time::sleep(AGENT_RETRY_PAUSE).await;
                    // An answer of any kind clears the mark.
                    let _answer = guest.health().await;
                }
                shared.note_live_change(id);
                tracing::info!(computer = %id, "the agent answers again");
            }
        }
    }
}

impl FleetState {
    /// See `Fleet::agent_change`.
    pub(in crate::computers) async fn agent_change(
        &self,
        id: ComputerId,
        known: Option<UnixMillis>,
    ) -> Option<UnixMillis> {
        let Some(mut presence) = self.presence(id) else { return pending().await };
        loop {
            let guest = presence.borrow_and_update().guest.clone();
            let mut since = guest.as_ref().map(Guest::unresponsive_since);
            let now = since.as_mut().and_then(|since| *since.borrow_and_update());
            if now != known {
                return now;
            }
            let changed = async {
                match since.as_mut() {
                    // The guest holds the sender, so this ends only by a change.
                    Some(since) => since.changed().await.unwrap_or(()),
                    None => pending().await,
                }
            };
            tokio::select! {
                () = changed => {}
                runs = presence.changed() => if runs.is_err() { return pending().await },
            }
        }
    }
}
