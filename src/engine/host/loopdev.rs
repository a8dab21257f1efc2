//! Which loop device shows a disk file? At most one ever does: two would be two file systems over the same blocks.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command::host_error;
use super::kernel;
use crate::{EngineError, EngineResult};
use hotdesk_base::wait;

/// How often a free device may be snatched by somebody else before the host counts as out of them.
const ATTEMPTS: u32 = 64;
/// How long the kernel may take to write a disk back and free its device after the last process of a guest is gone:
/// what a slow disk needs for a few gigabytes of a guest's unwritten data.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(60);

/// A loop device that shows a file, open.
#[derive(Debug)]
pub(super) struct LoopDevice {
    /// Its device node.
    pub(super) path: PathBuf,
    /// Keeps it from freeing itself until the file system is mounted.
    pub(super) device: File,
}

/// The device that shows a machine's disk now.
pub(super) fn showing(file: &Path) -> io::Result<Option<PathBuf>> {
    Ok(all()?.into_iter().find(|(_, backing)| names(backing, file)).map(|(device, _)| device))
}

/// Every device of the host that shows a file, and what the kernel calls that file.
pub(super) fn all() -> io::Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block")? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with("loop") {
            continue;
        }
        // A device without a file has no such entry, and it may go away while being read.
        let Ok(backing) = fs::read_to_string(entry.path().join("loop/backing_file")) else { continue };
        found.push((Path::new("/dev").join(name), backing.trim_end_matches('\n').to_owned()));
    }
    Ok(found)
}

/// Whether what the kernel calls a device's file is this one. The staging thread opened it in a mount namespace that is
/// gone, and the kernel tells the path from the root of that namespace's mount: all of it, or what follows the mount
/// point when the state folder is a file system of its own. The machine's id, which no other machine of the host has,
/// and the file's name are always there.
fn names(backing: &str, file: &Path) -> bool {
    let mut parts = file.iter().rev();
    match (parts.next(), parts.next()) {
        (Some(name), Some(machine)) => Path::new(backing).ends_with(Path::new(machine).join(name)),
        _ => false,
    }
}

/// The device that shows a machine's disk now, held open.
pub(super) fn open_showing(file: &Path) -> io::Result<Option<LoopDevice>> {
    let Some(path) = showing(file)? else { return Ok(None) };
    let device = OpenOptions::new().read(true).write(true).open(&path)?;
    // Now that it is held open it cannot free itself any more; before, it could.
    let still = showing(file)?.as_ref() == Some(&path);
    Ok(still.then_some(LoopDevice { path, device }))
}

/// Shows `file` on a loop device; the one that shows it already is used again.
pub(super) fn attach(file: &Path) -> EngineResult<LoopDevice> {
    const STEP: &str = "attach the disk to a loop device";
    let failed = host_error(STEP, file);
    let open = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
    if let Some(device) = open_showing(file).map_err(&failed)? {
        return Ok(device);
    }
    let disk = open(file).map_err(&failed)?;
    let control =
        open(Path::new("/dev/loop-control")).map_err(host_error(STEP, Path::new("/dev/loop-control")))?;
    for _ in 0..ATTEMPTS {
        let number = kernel::free_loop(&control)
            .map_err(|error| EngineError::NoCapacity(format!("no free loop device: {error}")))?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = open(&path)
            .map_err(|error| EngineError::NoCapacity(format!("loop device {}: {error}", path.display())))?;
        match kernel::configure_loop(&device, &disk) {
            Ok(()) => return Ok(LoopDevice { path, device }),
            Err(error) if error.raw_os_error() == Some(nix::libc::EBUSY) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(EngineError::NoCapacity(format!("every one of {ATTEMPTS} loop devices was taken by somebody else")))
}

/// Waits until no device shows `file` any more: its file system is then unmounted and written back.
pub(super) async fn released(file: &Path) -> EngineResult<()> {
    const STEP: &str = "wait for the disk's release";
    let gone = wait::until(RELEASE_TIMEOUT, || async {
        match showing(file) {
            Ok(None) => Some(Ok(())),
            Ok(Some(_)) => None,
            Err(error) => Some(Err(host_error(STEP, file)(error))),
        }
    });
    gone.await.unwrap_or_else(|| {
        Err(EngineError::failed(STEP, format!("a process on the host still holds {}", file.display())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_known_by_its_machine_wherever_the_kernel_lets_its_path_begin() {
        let disk = Path::new("/var/lib/hotdesk/machines/3f2a/disk.img");
        for (backing, same) in [
            ("/var/lib/hotdesk/machines/3f2a/disk.img", true),
            ("/machines/3f2a/disk.img", true),
            ("/machines/03f2a/disk.img", false),
            ("/machines/3f2a/disk.new", false),
            ("/var/lib/hotdesk/machines/99/disk.img", false),
            ("/disk.img", false),
            ("", false),
        ] {
            assert_eq!(names(backing, disk), same, "{backing}");
        }
    }
}
