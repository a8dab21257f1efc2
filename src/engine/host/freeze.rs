//! How does a disk hold still while it is copied, though its machine runs? Its file system is frozen: written back, with
//! every later write waiting. Whatever becomes of the controller, the writes go on.
//!
//! A small process of its own, the guard, waits for the end of a pipe whose other end the controller holds, or for the
//! longest time that a guest may be kept waiting, and thaws then. So a controller that is killed leaves no frozen guest; a
//! guard that was killed with it leaves one, which the next controller's start thaws, or a stop before.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::command::{self, host_error, spawn, tool};
use super::mounted::Mounted;
use crate::{EngineError, EngineResult};
use hotdesk_base::filesystem;

const STEP: &str = "hold the disk still";
/// How long a guest's writes may wait: as long as people bear with a desktop that stands, and as a disk of a few
/// gigabytes takes to be copied where the host's file system has no reflinks.
pub(super) const LONGEST_STILL: Duration = Duration::from_secs(30);
/// The guard: standard input is the controller's pipe, standard output the file system's root. A service manager that
/// asks everybody to end does not mean it.
const GUARD: &str = "trap '' TERM INT HUP; timeout \"$1\" cat; exec fsfreeze --unfreeze /proc/self/fd/1";

/// A file system that holds still.
#[derive(Debug)]
struct Still<'a> {
    mounted: &'a Mounted,
    guard: Child,
}

/// Calls `copy` with the time by which it must be done, while nothing writes to `disk`: at once when the disk is not in
/// use, else on its frozen file system. What `copy` made is whole only if this succeeds. Blocks.
pub(super) fn during<T>(
    disk: &Path,
    copy: impl FnOnce(Option<Instant>) -> EngineResult<T>,
) -> EngineResult<T> {
    let Some(mounted) = Mounted::of(disk)? else { return copy(None) };
    // Most of what is unwritten goes out while the guest may still write, so that the freeze is short.
    rustix::fs::syncfs(&mounted.root).map_err(|error| host_error(STEP, disk)(error.into()))?;
    let still = Still::begin(&mounted, disk)?;
    let copied = copy(Some(Instant::now() + LONGEST_STILL));
    still.end(disk).and(copied)
}

/// Thaws what a controller left frozen that was killed together with its guard: what waits for such a disk cannot even be
/// killed. Only for who holds the machine's lock.
pub(super) fn thaw_abandoned(disk: &Path) {
    let thawed =
        Mounted::of(disk).and_then(|mounted| match mounted.map(|it| filesystem::thaw(it.root.as_fd())) {
            Some(Err(error)) if error.kind() != io::ErrorKind::InvalidInput => {
                Err(host_error(STEP, disk)(error))
            }
            Some(Ok(())) => {
                tracing::warn!(disk = %disk.display(), "a disk was frozen that nobody copies");
                Ok(())
            }
            Some(Err(_)) | None => Ok(()),
        });
    if let Err(error) = thawed {
        tracing::warn!(%error, "nobody knows whether a disk is frozen");
    }
}

impl<'a> Still<'a> {
    fn begin(mounted: &'a Mounted, disk: &Path) -> EngineResult<Self> {
        let failed = host_error(STEP, disk);
        let root = File::from(mounted.root.try_clone().map_err(&failed)?);
        let mut guard = tool("sh");
        guard.args(["-c", GUARD, "guard", &LONGEST_STILL.as_secs().to_string()]);
        guard.stdin(Stdio::piped()).stdout(root).stderr(Stdio::null());
        let guard = spawn(STEP, &mut guard)?;
        let still = Self { mounted, guard };
        match filesystem::freeze(mounted.root.as_fd()) {
            Ok(()) => Ok(still),
            Err(error) => {
                still.dismiss();
                Err(failed(error))
            }
        }
    }

    /// Lets writes go on. It fails when they went on before: what was copied since is not of one moment.
    fn end(self, disk: &Path) -> EngineResult<()> {
        let thawed = filesystem::thaw(self.mounted.root.as_fd());
        self.dismiss();
        match thawed {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                let most = LONGEST_STILL.as_secs();
                Err(EngineError::failed(STEP, format!("its copy took longer than {most} s")))
            }
            outcome => outcome.map_err(host_error(STEP, disk)),
        }
    }

    /// Sends the guard away: its pipe ends, and there is nothing left for it to thaw.
    fn dismiss(mut self) {
        drop(self.guard.stdin.take());
        if let Err(error) = command::finish(STEP, &mut self.guard, command::TIMEOUT) {
            tracing::warn!(%error, "the guard of a frozen disk");
        }
    }
}
