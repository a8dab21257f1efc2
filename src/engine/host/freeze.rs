//! Freeze of a running machine's file system while its disk is copied: the kernel writes it back and blocks
//! later writes.
//!
//! A separate process, the guard, thaws the file system when its pipe from the controller closes, or after
//! the longest allowed freeze. So a killed controller leaves no frozen guest. If the guard is killed too, the
//! next controller's start thaws the disk, or a stop before that.
//!
//! ```text
//!   writable -- spawn guard, FIFREEZE --> frozen -- copy, FITHAW, close the pipe --> writable
//!                                            |-- pipe closed or timeout: guard thaws --> writable, copy fails
//! ```

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::host::command::{self, host_error, spawn, tool};
use crate::host::fs_handle::FsHandle;
use crate::{EngineError, EngineResult};
use hotdesk_base::filesystem;

const STEP: &str = "freeze the disk";
/// Longest freeze. People tolerate a desktop that hangs this long, and a disk of a few gigabytes is copied in
/// it on a file system without reflinks.
pub(crate) const MAX_FREEZE: Duration = Duration::from_secs(30);
/// The guard: standard input is the controller's pipe, standard output the file system's root. It ignores the
/// signals with which a service manager stops the controller, because it must outlive it.
const GUARD: &str = "trap '' TERM INT HUP; timeout \"$1\" cat; exec fsfreeze --unfreeze /proc/self/fd/1";

/// A frozen file system.
#[derive(Debug)]
struct FrozenFs<'a> {
    mounted: &'a FsHandle,
    guard: Child,
}

/// Calls `copy` with its deadline while nothing writes to `disk`: freezes the file system if the disk is in
/// use. The copy is consistent only if this succeeds. Blocks.
pub(crate) fn with_frozen<T>(
    disk: &Path,
    copy: impl FnOnce(Option<Instant>) -> EngineResult<T>,
) -> EngineResult<T> {
    let Some(mounted) = FsHandle::of(disk)? else { return copy(None) };
    // Writes most dirty data back while the guest may still write, so that the freeze is short.
    rustix::fs::syncfs(&mounted.root).map_err(|error| host_error(STEP, disk)(error.into()))?;
    let frozen = FrozenFs::begin(&mounted, disk)?;
    let copied = copy(Some(Instant::now() + MAX_FREEZE));
    frozen.end(disk).and(copied)
}

/// Thaws a disk that a controller left frozen when it was killed together with its guard. Processes that wait
/// for such a disk cannot even be killed. Needs the machine's lock.
pub(crate) fn thaw_abandoned(disk: &Path) {
    let thawed =
        FsHandle::of(disk).and_then(|mounted| match mounted.map(|it| filesystem::thaw(it.root.as_fd())) {
            Some(Err(error)) if error.kind() != io::ErrorKind::InvalidInput => {
                Err(host_error(STEP, disk)(error))
            }
            Some(Ok(())) => {
                tracing::warn!(disk = %disk.display(), "thawed a disk that an earlier controller left frozen");
                Ok(())
            }
            Some(Err(_)) | None => Ok(()),
        });
    if let Err(error) = thawed {
        tracing::warn!(
            error = format_args!("{error:#}"),
            "could not check whether a disk is frozen; if its guest hangs, stop the computer"
        );
    }
}

impl<'a> FrozenFs<'a> {
    fn begin(mounted: &'a FsHandle, disk: &Path) -> EngineResult<Self> {
        let failed = host_error(STEP, disk);
        let root = File::from(mounted.root.try_clone().map_err(&failed)?);
        let mut guard = tool("sh");
        guard.args(["-c", GUARD, "guard", &MAX_FREEZE.as_secs().to_string()]);
        guard.stdin(Stdio::piped()).stdout(root).stderr(Stdio::null());
        let guard = spawn(STEP, &mut guard)?;
        let frozen = Self { mounted, guard };
        match filesystem::freeze(mounted.root.as_fd()) {
            Ok(()) => Ok(frozen),
            Err(error) => {
                frozen.dismiss();
                Err(failed(error))
            }
        }
    }

    /// Thaws. Fails if the guard thawed before: the copy is then not of one moment.
    fn end(self, disk: &Path) -> EngineResult<()> {
        let thawed = filesystem::thaw(self.mounted.root.as_fd());
        self.dismiss();
        match thawed {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                let most = MAX_FREEZE.as_secs();
                Err(EngineError::failed(STEP, format!("its copy took longer than {most} s")))
            }
            outcome => outcome.map_err(host_error(STEP, disk)),
        }
    }

    /// Closes the guard's pipe and waits for its end.
    fn dismiss(mut self) {
        drop(self.guard.stdin.take());
        if let Err(error) = command::finish(STEP, &mut self.guard, command::TIMEOUT) {
            tracing::warn!(error = format_args!("{error:#}"), "the guard of a frozen disk did not end");
        }
    }
}
