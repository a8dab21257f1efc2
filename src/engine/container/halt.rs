//! End of a container: SIGTERM, grace, SIGKILL, then release of everything that its boot took.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::container::ContainerEngine;
use crate::container::runtime::{ContainerState, RuntimeKind};
use crate::driver::{GuestDriver, teardown};
use crate::host::{cgroup, freeze, loopdev, process};
use crate::state::layout::Folder;
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

impl ContainerEngine {
    /// Ends a machine's processes and releases what its boot took.
    pub(super) async fn end(&self, folder: &Folder, grace: Duration) -> EngineResult<()> {
        if let Some(pidfd) =
            self.state_of(folder.id).await?.and_then(|state| first_process(folder.id, &state))
        {
            let failed = |error: io::Error| EngineError::failed("end the guest", error);
            let disk = folder.disk();
            let thawed = self.blocking(move |_| {
                freeze::thaw_abandoned(&disk);
                Ok(())
            });
            thawed.await?;
            if !grace.is_zero() {
                send(&pidfd, Signal::TERM)?;
                let waited = pidfd.try_clone().map_err(failed)?;
                let ended = tokio::time::timeout(grace, process::wait_ended(waited)).await;
                ended.unwrap_or(Ok(())).map_err(failed)?;
            }
            // The kernel kills all processes of a pid namespace with its first.
            send(&pidfd, Signal::KILL)?;
            let ended = self.blocking(move |_| {
                process::wait_exit(&pidfd, Instant::now() + teardown::KILL_TIMEOUT).map_err(failed)
            });
            if !ended.await? {
                return Err(EngineError::failed(
                    "end the guest",
                    "its first process does not end after SIGKILL",
                ));
            }
        }
        self.clear(folder).await
    }

    /// Releases what a boot took, complete or not.
    pub(super) async fn clear(&self, folder: &Folder) -> EngineResult<()> {
        let id = folder.id;
        self.blocking(move |engine| engine.inner.runtime.delete(id)).await?;
        cgroup::clear(id).await?;
        loopdev::released(&folder.disk()).await?;
        let folder = folder.clone();
        self.blocking(move |engine| {
            let network = &engine.inner.config.network;
            let listed = network.enabled || engine.inner.runtime.kind() == RuntimeKind::Gvisor;
            teardown::release_boot(&folder, listed.then_some(network))
        })
        .await
    }

    /// Waits until a machine's first process has ended. Returns at once when it does not run.
    pub(super) async fn wait_for_end(&self, id: ComputerId) -> EngineResult<()> {
        let mut state = self.state_of(id).await?;
        if state.as_ref().is_some_and(|state| state.status == "paused") {
            self.unpause_abandoned(id).await?;
            state = self.state_of(id).await?;
        }
        match state.filter(|state| state.status == "running").and_then(|state| first_process(id, &state)) {
            Some(pidfd) => process::wait_ended(pidfd)
                .await
                .map_err(|error| EngineError::failed("wait for the guest's end", error)),
            None => Ok(()),
        }
    }
}

/// A pidfd of the machine's first process, when it has one. It is opened first and checked then: a reused pid
/// belongs to another group.
fn first_process(id: ComputerId, state: &ContainerState) -> Option<OwnedFd> {
    if state.pid == 0 || state.status == "stopped" {
        return None;
    }
    let pidfd = process::open(state.pid).ok().flatten()?;
    cgroup::contains(id, state.pid).then_some(pidfd)
}

fn send(pidfd: &OwnedFd, signal: Signal) -> EngineResult<()> {
    match rustix::process::pidfd_send_signal(pidfd, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(EngineError::failed("signal the guest", error)),
    }
}
