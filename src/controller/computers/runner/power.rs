//! How does a computer come up from its disk, and how does it come to rest?

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{Runner, STOP_GRACE, boot, machine, refused, renewal, tell_what_failed};
use crate::files;
use crate::people::streams;
use hotdesk_base::wait;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::lifecycle::Status;
use hotdesk_engine::{EngineResult, Observation};
use hotdesk_guest::Guest;
use hotdesk_store::computers::Computer;

/// How long a computer may take from its start to a usable desktop: an emulated machine takes 20 s, and four that boot at once on
/// two busy cores take their time each.
const BOOT_TIMEOUT: Duration = Duration::from_secs(180);

impl Runner {
    /// Boots it from its disk, whatever runs of it or is saved.
    pub(in super::super) async fn restart_boot(&mut self, what: &str) -> Result<()> {
        self.disk_home().await?;
        match self.clear().await {
            Ok(()) => self.boot().await,
            Err(error) => self.fail(what, &error).await,
        }
    }

    /// Ends what runs and drops what was saved; the disk is kept.
    async fn clear(&self) -> EngineResult<()> {
        self.shared.engine.stop(self.id, STOP_GRACE).await?;
        self.shared.engine.discard_memory(self.id).await
    }

    /// The computer is usable from now on.
    pub(super) async fn go_live(
        &mut self,
        row: &Computer,
        guest: Guest,
        address: Option<IpAddr>,
    ) -> Result<()> {
        if self.shown() != Some(Status::Running) {
            self.conclude(Status::Running).await?;
        }
        // What is used is stamped every minute; a stamp that fails keeps nobody from the computer.
        if let Err(error) = self.shared.store.saw_running(&[self.id]).await {
            tracing::warn!(computer = %self.id, %error, "its use could not be stamped");
        }
        self.show(Status::Running, Some(guest.clone()), address);
        self.end_stream(&guest);
        self.deliver(row, &guest).await;
        Ok(())
    }

    /// Ends a stream whose starter lost the computer while it slept. An agent that does not answer holds up nobody.
    fn end_stream(&self, guest: &Guest) {
        let (shared, id, guest) = (Arc::clone(&self.shared), self.id, guest.clone());
        let ending =
            async move { streams::end_at_wake(&shared.ending_streams, &shared.store, id, &guest).await };
        let _task = self.shared.tasks.spawn("end a stream", ending);
    }

    /// Boots the row as it is now stored and tells the outcome.
    pub(super) async fn boot(&mut self) -> Result<()> {
        let row = self.row().await?;
        match self.bring_up(&row, false).await {
            Ok(guest) => self.arrive(&row, guest).await,
            Err(error) => {
                if let Err(again) = self.shared.engine.stop(self.id, Duration::ZERO).await {
                    tracing::error!(computer = %self.id, error = %again, "clean-up after a failed boot failed");
                }
                self.rest(Status::Error).await?;
                Err(error)
            }
        }
    }

    /// Starts the machine and waits for a usable desktop, which nobody reaches yet. On a disk that is another computer's,
    /// what tells the two apart is made anew before anybody does (threats.md T28).
    pub(super) async fn bring_up(&mut self, row: &Computer, copied: bool) -> Result<Guest> {
        let shared = Arc::clone(&self.shared);
        // Held through the costly part alone; a guest that is slow to take its files holds up itself.
        let _turn = shared.starts.acquire().await.map_err(Error::internal)?;
        let started = shared.engine.start(&machine(row), &boot(row)).await;
        let endpoint = started.map_err(|error| refused("Computer could not be started", &error))?;
        let guest = Guest::new(endpoint, &row.agent_token)?;
        let ready = wait::until(BOOT_TIMEOUT, || async {
            guest.health().await.ok().filter(|health| health.status == "ok")
        });
        let ended = shared.engine.stopped(self.id);
        tokio::select! {
            ready = ready => {
                if ready.is_none() {
                    return Err(Error::internal("the desktop was not ready in time"));
                }
            }
            _ = ended => return Err(Error::internal("the machine ended while it booted")),
        }
        if copied {
            tell_what_failed(row, &guest.renew(&renewal(row)).await?);
        }
        Ok(guest)
    }

    /// A computer that came up is usable from now on, with the files that waited for it. That it runs is stored before
    /// anybody reaches it: what is acknowledged is of this boot then, and no controller that starts again makes another.
    pub(in super::super) async fn arrive(&mut self, row: &Computer, guest: Guest) -> Result<()> {
        self.deliver(row, &guest).await;
        self.conclude(Status::Running).await?;
        let address = self.address().await;
        self.show(Status::Running, Some(guest.clone()), address);
        // What was uploaded meanwhile; what comes from here on is given to the guest at once.
        self.deliver(row, &guest).await;
        Ok(())
    }

    /// Where it is reached in the host's network, if that can be told.
    pub(super) async fn address(&self) -> Option<IpAddr> {
        match self.shared.engine.observe(self.id).await {
            Ok(Observation::Running { address, .. }) => address,
            Ok(Observation::Stopped | Observation::Suspended { .. } | Observation::Absent) | Err(_) => None,
        }
    }

    /// Gives the computer the files that were uploaded while it did not run.
    async fn deliver(&self, row: &Computer, guest: &Guest) {
        if let Err(error) = files::deliver_pending(&self.shared.store, &self.shared.storage, row, guest).await
        {
            tracing::warn!(computer = %self.id, %error, "files are still to be delivered");
        }
    }

    /// Ends what runs and drops what was saved; its disk is kept, and is on the host's own before anybody reads `stopped`.
    pub(in super::super) async fn halt(&mut self) -> Result<()> {
        self.disk_home().await?;
        let cleared = self.clear().await;
        match self.settled(cleared).await {
            Ok(()) => self.rest(Status::Stopped).await,
            Err(error) => self.fail("Computer could not be stopped", &error).await,
        }
    }
}
