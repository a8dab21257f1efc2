//! End of RTMP streams whose owner lost access to the computer.

use futures_util::{StreamExt, stream};

use crate::computers::fleet::Fleet;
use crate::computers::runner::stream_end;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::Result;
use hotdesk_store::Store;

/// Computers that are stopped concurrently, as many as for auto-stop, so that one that does not respond
/// delays no other.
const AT_ONCE: usize = 16;

/// Ends of streams; cheap to clone.
#[derive(Clone)]
pub struct RtmpStreams {
    store: Store,
    fleet: Fleet,
    tasks: Tasks,
}

impl RtmpStreams {
    /// Creates the service of this fleet.
    pub fn new(store: Store, fleet: Fleet, tasks: Tasks) -> Self {
        Self { store, fleet, tasks }
    }

    /// Stops the streams of computers, where they have any. It continues if the caller disconnects.
    pub fn end(&self, computers: Vec<ComputerId>) {
        if computers.is_empty() {
            return;
        }
        let streams = self.clone();
        let _task = self.tasks.spawn("end streams", async move { streams.end_all(computers).await });
    }

    /// Retries the pending stops.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn retry(&self) -> Result<()> {
        self.end_all(self.store.streams_to_end().await?).await;
        Ok(())
    }

    async fn end_all(&self, computers: Vec<ComputerId>) {
        let stops = stream::iter(computers).for_each_concurrent(AT_ONCE, |computer| async move {
            // A computer that does not run streams nothing until it resumes.
            if let Some(guest) = self.fleet.running_guest(computer) {
                stream_end::end(self.fleet.ending_streams(), &self.store, computer, &guest).await;
            }
        });
        stops.await;
    }
}
