//! Loop devices of disk files. At most one device shows a file: two would be two file systems over the same
//! blocks.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::command::host_error;
use crate::host::syscalls;
use crate::{EngineError, EngineResult, Shortage};
use hotdesk_base::wait;

/// Attempts to configure a free device that another process may take first.
const ATTEMPTS: u32 = 64;
/// For the kernel to write a disk back and free its device after a guest's last process ended: a slow disk
/// with a few gigabytes of dirty data.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(60);

/// A loop device that shows a file, open.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    /// Its device node.
    pub(crate) path: PathBuf,
    /// While this is open, the device does not free itself.
    pub(crate) device: File,
}

/// The device that shows a disk file; `None` without one.
pub(crate) fn showing(file: &Path) -> io::Result<Option<PathBuf>> {
    Ok(all()?.into_iter().find(|(_, backing)| is_path_of(backing, file)).map(|(device, _)| device))
}

/// Every loop device of the host with a file, and the kernel's path of that file.
pub(crate) fn all() -> io::Result<Vec<(PathBuf, String)>> {
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

/// Whether the kernel's path of a device's file is `file`.
///
/// The staging thread opened the file in a mount namespace that is gone, so the kernel's path starts at the
/// root of that mount: the whole path, or the part below the mount point when the state folder is a file
/// system of its own. The path always ends with the machine's id, unique on the host, and the file's name.
fn is_path_of(backing: &str, file: &Path) -> bool {
    let mut parts = file.iter().rev();
    match (parts.next(), parts.next()) {
        (Some(name), Some(machine)) => Path::new(backing).ends_with(Path::new(machine).join(name)),
        _ => false,
    }
}

/// The device that shows a machine's disk now, held open.
pub(crate) fn open_showing(file: &Path) -> io::Result<Option<LoopDevice>> {
    let Some(path) = showing(file)? else { return Ok(None) };
    let device = OpenOptions::new().read(true).write(true).open(&path)?;
    // An open device does not free itself. It could have done so before the open, so look again.
    let unchanged = showing(file)?.as_ref() == Some(&path);
    Ok(unchanged.then_some(LoopDevice { path, device }))
}

/// Attaches `file` to a loop device, or opens the one that shows it already.
///
/// # Errors
/// `NoCapacity` when no loop device is free.
pub(crate) fn attach(file: &Path) -> EngineResult<LoopDevice> {
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
        let number = syscalls::free_loop(&control).map_err(|error| {
            EngineError::NoCapacity(Shortage::LoopDevices, format!("no free loop device: {error}"))
        })?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = open(&path).map_err(|error| {
            EngineError::NoCapacity(Shortage::LoopDevices, format!("loop device {}: {error}", path.display()))
        })?;
        match syscalls::configure_loop(&device, &disk) {
            Ok(()) => return Ok(LoopDevice { path, device }),
            Err(error) if error.raw_os_error() == Some(nix::libc::EBUSY) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(EngineError::NoCapacity(
        Shortage::LoopDevices,
        format!("other processes took each of {ATTEMPTS} free loop devices"),
    ))
}

/// Waits until no device shows `file`: its file system is then unmounted and written back.
pub(crate) async fn released(file: &Path) -> EngineResult<()> {
    const STEP: &str = "wait for the disk's release";
    let gone = wait::until(RELEASE_TIMEOUT, || async {
        match showing(file) {
            Ok(None) => Some(Ok(())),
            Ok(Some(_)) => None,
            Err(error) => Some(Err(host_error(STEP, file)(error))),
        }
    });
    gone.await.unwrap_or_else(|| {
        Err(EngineError::failed(
            STEP,
            format!(
                "a process on the host still uses {}; `lsof` on its loop device names it",
                file.display()
            ),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_recognized_by_its_machine_id_wherever_its_path_begins() {
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
            assert_eq!(is_path_of(backing, disk), same, "{backing}");
        }
    }
}
