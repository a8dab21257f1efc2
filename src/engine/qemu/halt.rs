//! End of a virtual machine: a shutdown request, grace, SIGKILL, then release of everything that its boot
//! took.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::driver::{GuestDriver, GuestShutdown, teardown};
use crate::host::{cgroup, process};
use crate::qemu::monitor::Monitor;
use crate::qemu::{QemuEngine, control_port};
use crate::state::layout::Folder;
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

/// For a guest that is shutting down to write back its dirty data after its grace: hundreds of megabytes on a
/// slow disk. What is not written by then is lost.
const WRITE_BACK: Duration = Duration::from_secs(60);
/// A guest that has written nothing for this long has no more dirty data.
const WRITE_IDLE: Duration = Duration::from_secs(3);
/// For the guest's first process to acknowledge the request; its end has another timeout.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(10);

impl GuestShutdown for QemuEngine {
    async fn halt(&self, folder: &Folder, grace: Duration) -> EngineResult<()> {
        let plan = folder.clone();
        self.blocking(move |engine| engine.end(&plan, grace)).await?;
        self.sweep(folder).await
    }

    async fn sweep(&self, folder: &Folder) -> EngineResult<()> {
        cgroup::clear(folder.id).await?;
        let folder = folder.clone();
        self.blocking(move |engine| teardown::release_boot(&folder, Some(&engine.host.settings.network)))
            .await
    }

    async fn wait_ended(&self, id: ComputerId) -> EngineResult<()> {
        self.unpause_abandoned(id).await?;
        match self.blocking(move |engine| engine.process(&engine.host.state.folder(id))).await? {
            Some(pidfd) => process::wait_ended(pidfd)
                .await
                .map_err(|error| EngineError::failed("wait for the machine's end", error)),
            None => Ok(()),
        }
    }
}

/// Waits for the end of a guest while it still writes. Returns whether it has ended. `ended` waits until an
/// instant.
fn write_back(folder: &Folder, ended: impl Fn(Instant) -> io::Result<bool>) -> io::Result<bool> {
    let until = Instant::now() + WRITE_BACK;
    let mut before = written(folder);
    while before.is_some() && Instant::now() < until {
        if ended((Instant::now() + WRITE_IDLE).min(until))? {
            return Ok(true);
        }
        let now = written(folder);
        if now == before {
            break;
        }
        before = now;
    }
    Ok(false)
}

/// Bytes that a guest has written to its disks; `None` if QEMU does not answer.
fn written(folder: &Folder) -> Option<u64> {
    let mut monitor = Monitor::open_within(&folder.monitor(), WRITE_IDLE).ok()?;
    let disks = monitor.ask("query-blockstats", json!({})).ok()?;
    let of = |disk: &Value| disk.pointer("/stats/wr_bytes").and_then(Value::as_u64);
    Some(disks.as_array()?.iter().filter_map(of).sum())
}

impl QemuEngine {
    /// A pidfd of the machine's QEMU, when it runs. It is opened first and checked then: a reused pid belongs
    /// to another group.
    fn process(&self, folder: &Folder) -> EngineResult<Option<OwnedFd>> {
        let Some((_, pid)) = self.running(folder)? else { return Ok(None) };
        let pidfd = process::open(pid)
            .map_err(|error| EngineError::failed("look at the machine's process", error))?;
        // Its own entry in `/proc` names another group already while it still ends.
        let members = cgroup::processes(folder.id)?;
        Ok(pidfd.filter(|_| members.contains(&pid)))
    }

    /// Ends a machine's QEMU; the guest gets `grace` to shut down first.
    fn end(&self, folder: &Folder, grace: Duration) -> EngineResult<()> {
        let Some(pidfd) = self.process(folder)? else { return Ok(()) };
        teardown::continue_stopped(folder.id);
        let failed = |error: io::Error| EngineError::failed("end the machine", error);
        let deadline = Instant::now() + grace;
        if !grace.is_zero() {
            match control_port::ask(folder, "stop", grace.min(ACKNOWLEDGE_TIMEOUT)) {
                Ok(()) => {
                    if process::wait_exit(&pidfd, deadline).map_err(failed)? {
                        return Ok(());
                    }
                    if write_back(folder, |next| process::wait_exit(&pidfd, next)).map_err(failed)? {
                        return Ok(());
                    }
                }
                // The guest has not booted yet, or its root has taken the control port.
                Err(error) => {
                    tracing::info!(computer = %folder.id, error = format_args!("{error:#}"), "a guest did not acknowledge the shutdown request and is killed")
                }
            }
        }
        match rustix::process::pidfd_send_signal(&pidfd, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(failed(error.into())),
        }
        if process::wait_exit(&pidfd, Instant::now() + teardown::KILL_TIMEOUT).map_err(failed)? {
            Ok(())
        } else {
            Err(EngineError::failed("end the machine", "its process does not end after SIGKILL"))
        }
    }
}
