//! How does a virtual machine end? Asked first, killed then, and everything that its boot took is taken back.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::monitor::Monitor;
use super::{Inner, Machinery, QemuEngine, line};
use crate::layout::Folder;
use crate::{EngineError, EngineResult, cgroup, process, sweep};
use hotdesk_base::ids::ComputerId;

/// How long a guest that was asked to end may go on writing back what it holds, beyond its grace: hundreds of megabytes on a slow
/// disk, and what is not written then is lost.
const WRITE_BACK: Duration = Duration::from_secs(60);
/// A guest that has written nothing for this long writes nothing back.
const UNWRITTEN: Duration = Duration::from_secs(3);
/// How long the guest's first process may take to say that it has heard; its end is waited for apart.
const HEARING: Duration = Duration::from_secs(10);

impl QemuEngine {
    /// Ends a machine's processes and takes back what its boot took.
    pub(super) async fn end(&self, folder: &Folder, grace: Duration) -> EngineResult<()> {
        let plan = folder.clone();
        self.blocking(move |engine| engine.inner.end(&plan, grace)).await?;
        self.clear(folder).await
    }

    /// Takes back what a boot took, in whatever state it is.
    pub(super) async fn clear(&self, folder: &Folder) -> EngineResult<()> {
        cgroup::clear(folder.id).await?;
        let folder = folder.clone();
        self.blocking(move |engine| sweep::boot(&folder, Some(&engine.inner.config.network))).await
    }

    /// Waits until a machine's QEMU has ended; at once when it does not run.
    pub(super) async fn wait_for_end(&self, id: ComputerId) -> EngineResult<()> {
        self.go_on_abandoned(id).await?;
        match self.blocking(move |engine| engine.inner.process(&engine.inner.state.folder(id))).await? {
            Some(pidfd) => process::ended(pidfd)
                .await
                .map_err(|error| EngineError::failed("wait for the machine's end", error)),
            None => Ok(()),
        }
    }
}

/// Waits for the end of a guest for as long as it writes; whether it has ended. `ended` waits until a moment.
fn write_back(folder: &Folder, ended: impl Fn(Instant) -> io::Result<bool>) -> io::Result<bool> {
    let until = Instant::now() + WRITE_BACK;
    let mut before = written(folder);
    while before.is_some() && Instant::now() < until {
        if ended((Instant::now() + UNWRITTEN).min(until))? {
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

/// Bytes that a guest has written to its disks, if its QEMU tells.
fn written(folder: &Folder) -> Option<u64> {
    let mut monitor = Monitor::open_within(&folder.monitor(), UNWRITTEN).ok()?;
    let disks = monitor.ask("query-blockstats", json!({})).ok()?;
    let of = |disk: &Value| disk.pointer("/stats/wr_bytes").and_then(Value::as_u64);
    Some(disks.as_array()?.iter().filter_map(of).sum())
}

impl Inner {
    /// A machine's QEMU, when it runs. Held first and checked then: a number used again belongs elsewhere.
    pub(super) fn process(&self, folder: &Folder) -> EngineResult<Option<OwnedFd>> {
        let Some((_, pid)) = self.running(folder)? else { return Ok(None) };
        let held = process::open(pid)
            .map_err(|error| EngineError::failed("look at the machine's process", error))?;
        Ok(held.filter(|_| cgroup::holds(folder.id, pid)))
    }

    /// Ends a machine's QEMU; the guest first, as far as `grace` goes.
    fn end(&self, folder: &Folder, grace: Duration) -> EngineResult<()> {
        let Some(pidfd) = self.process(folder)? else { return Ok(()) };
        let failed = |error: io::Error| EngineError::failed("end the machine", error);
        let deadline = Instant::now() + grace;
        if !grace.is_zero() {
            match line::ask(folder, "stop", grace.min(HEARING)) {
                Ok(()) => {
                    if process::wait_exit(&pidfd, deadline).map_err(failed)? {
                        return Ok(());
                    }
                    if write_back(folder, |next| process::wait_exit(&pidfd, next)).map_err(failed)? {
                        return Ok(());
                    }
                }
                // It may be a guest that has not come up, or whose root has taken the line.
                Err(error) => tracing::info!(computer = %folder.id, %error, "a guest is ended unasked"),
            }
        }
        match rustix::process::pidfd_send_signal(&pidfd, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(failed(error.into())),
        }
        if process::wait_exit(&pidfd, Instant::now() + sweep::KILL_TIMEOUT).map_err(failed)? {
            Ok(())
        } else {
            Err(EngineError::failed("end the machine", "its process does not die"))
        }
    }
}
