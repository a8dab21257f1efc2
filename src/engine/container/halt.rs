//! How does a machine end? Asked first, killed then, and everything that its boot took is taken back.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::layout::Folder;
use super::runtime::{Kind, State};
use super::{ContainerEngine, Machinery, cgroup, loopdev, process, still, sweep};
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

impl ContainerEngine {
    /// Ends a machine's processes and takes back what its boot took.
    pub(super) async fn end(&self, folder: &Folder, grace: Duration) -> EngineResult<()> {
        if let Some(pidfd) =
            self.state_of(folder.id).await?.and_then(|state| first_process(folder.id, &state))
        {
            let failed = |error: io::Error| EngineError::failed("end the guest", error);
            let disk = folder.disk();
            let thawed = self.blocking(move |_| {
                still::thaw_abandoned(&disk);
                Ok(())
            });
            thawed.await?;
            if !grace.is_zero() {
                send(&pidfd, Signal::TERM)?;
                let waited = pidfd.try_clone().map_err(failed)?;
                let ended = tokio::time::timeout(grace, process::ended(waited)).await;
                ended.unwrap_or(Ok(())).map_err(failed)?;
            }
            // The first process of a pid namespace takes all others along.
            send(&pidfd, Signal::KILL)?;
            let ended = self.blocking(move |_| {
                process::wait_exit(&pidfd, Instant::now() + sweep::KILL_TIMEOUT).map_err(failed)
            });
            if !ended.await? {
                return Err(EngineError::failed("end the guest", "its first process does not die"));
            }
        }
        self.clear(folder).await
    }

    /// Takes back what a boot took, in whatever state it is.
    pub(super) async fn clear(&self, folder: &Folder) -> EngineResult<()> {
        let id = folder.id;
        self.blocking(move |engine| engine.inner.runtime.delete(id)).await?;
        cgroup::clear(id).await?;
        loopdev::released(&folder.disk()).await?;
        let folder = folder.clone();
        self.blocking(move |engine| {
            let network = &engine.inner.config.network;
            let listed = network.enabled || engine.inner.runtime.kind() == Kind::Gvisor;
            sweep::boot(&folder, listed.then_some(network))
        })
        .await
    }

    /// Waits until a machine's first process has ended; at once when it does not run.
    pub(super) async fn wait_for_end(&self, id: ComputerId) -> EngineResult<()> {
        let mut state = self.state_of(id).await?;
        if state.as_ref().is_some_and(|state| state.status == "paused") {
            self.thaw_abandoned(id).await?;
            state = self.state_of(id).await?;
        }
        match state.filter(|state| state.status == "running").and_then(|state| first_process(id, &state)) {
            Some(pidfd) => process::ended(pidfd)
                .await
                .map_err(|error| EngineError::failed("wait for the guest's end", error)),
            None => Ok(()),
        }
    }
}

/// The first process of a machine, when it has one. Held first and checked then: a number used again belongs elsewhere.
fn first_process(id: ComputerId, state: &State) -> Option<OwnedFd> {
    if state.pid == 0 || state.status == "stopped" {
        return None;
    }
    let pidfd = process::open(state.pid).ok().flatten()?;
    cgroup::holds(id, state.pid).then_some(pidfd)
}

fn send(pidfd: &OwnedFd, signal: Signal) -> EngineResult<()> {
    match rustix::process::pidfd_send_signal(pidfd, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(EngineError::failed("signal the guest", error)),
    }
}
