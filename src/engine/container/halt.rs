//! End of a container: SIGTERM, grace, SIGKILL, then release of everything that its boot took.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::container::ContainerEngine;
use crate::container::runtime::{ContainerState, RuntimeKind};
use crate::driver::{GuestDriver, GuestShutdown, teardown};
use crate::host::{cgroup, freeze, loopdev, process};
use crate::state::layout::Folder;
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

impl GuestShutdown for ContainerEngine {
    async fn halt(&self, folder: &Folder, grace: Duration) -> EngineResult<()> {
        let id = folder.id;
        teardown::continue_stopped(id);
        let state = self.blocking(move |engine| engine.state_of(id)).await?;
        if let Some(pidfd) = state.and_then(|state| first_process(id, &state)) {
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
        self.sweep(folder).await
    }

    async fn sweep(&self, folder: &Folder) -> EngineResult<()> {
        let id = folder.id;
        let deleted = self.blocking(move |engine| {
            // Otherwise `runc delete` waits for the end of lxcfs, which takes its time.
            cgroup::kill(id)?;
            engine.runtime.delete(id)
        });
        deleted.await?;
        cgroup::clear(id).await?;
        loopdev::released(&folder.disk()).await?;
        let folder = folder.clone();
        self.blocking(move |engine| {
            let network = &engine.host.settings.network;
            let listed = network.enabled || engine.runtime.kind() == RuntimeKind::Gvisor;
            teardown::release_boot(&folder, listed.then_some(network))
        })
        .await
    }

    async fn wait_ended(&self, id: ComputerId) -> EngineResult<()> {
        let mut state = self.blocking(move |engine| engine.state_of(id)).await?;
        if state.as_ref().is_some_and(|state| state.status == "paused") {
            self.unpause_abandoned(id).await?;
            state = self.blocking(move |engine| engine.state_of(id)).await?;
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
