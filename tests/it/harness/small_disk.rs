//! Small file system in a loop-mounted file, for tests of full disks and power losses.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Shuts a file system down at once, like a power loss: data that is not on the disk yet is lost
/// (`FS_IOC_SHUTDOWN` of linux/fs.h, without a flush of the journal).
const SHUTDOWN_SCRIPT: &str = "import fcntl, os, struct, sys\n\
    fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))";

/// How long the kernel may take to release what used the file system, while other machines start.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(30);
const RELEASE_POLL: Duration = Duration::from_millis(50);

/// A mounted file system that the drop unmounts.
pub struct SmallDisk {
    image: PathBuf,
    mounted: PathBuf,
}

impl SmallDisk {
    /// Makes a disk file of `mib` MiB in `folder` and mounts it at `at`.
    pub fn mount(folder: &Path, at: &Path, mib: u64) -> Self {
        Self::mount_with(folder, at, mib, &[])
    }

    /// [`Self::mount`] with these options of `mkfs.ext4`.
    pub fn mount_with(folder: &Path, at: &Path, mib: u64, options: &[&str]) -> Self {
        let image = folder.join("disk");
        let file = File::create_new(&image).expect("a disk file");
        file.set_len(mib << 20).expect("its size");
        std::fs::create_dir(at).expect("a folder to mount on");
        let made = Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).args(options).arg(&image).status();
        assert!(made.expect("e2fsprogs").success());
        let disk = Self { image, mounted: at.to_owned() };
        disk.attach();
        disk
    }

    fn attach(&self) {
        let mounted = Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.mounted).status();
        assert!(mounted.expect("mount").success());
    }

    /// Simulates a power loss.
    ///
    /// # Errors
    /// The message of a kernel that does not support the shutdown.
    pub fn cut_power(&self) -> Result<(), String> {
        let cut = Command::new("python3")
            .args(["-c", SHUTDOWN_SCRIPT])
            .arg(&self.mounted)
            .output()
            .expect("python3");
        if cut.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&cut.stderr).into_owned()) }
    }

    /// Mounts the disk again after a power loss. Returns `false` while something still uses it.
    pub fn remount(&self) -> bool {
        self.unmounted(|_| ()).is_some()
    }

    /// Unmounts the disk, looks at its file, and mounts it again; `None` while something still uses it.
    pub fn unmounted<T>(&self, look: impl FnOnce(&Path) -> T) -> Option<T> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        if mounts.contains(&format!(" {} ", self.mounted.display())) {
            let unmounted = Command::new("umount").arg(&self.mounted).stderr(Stdio::null()).status();
            if !unmounted.expect("umount").success() {
                return None;
            }
        }
        // A machine that starts anywhere on this host may hold the mount in its mount namespace for a moment.
        let image = self.image.to_string_lossy().into_owned();
        if super::host::loop_files().iter().any(|file| file.starts_with(&image)) {
            return None;
        }
        let seen = look(&self.image);
        self.attach();
        Some(seen)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The same holds for the disks of machines on it: a copy of their mounts keeps their loop devices a moment longer.
        let end = Instant::now() + RELEASE_TIMEOUT;
        loop {
            let unmounted = Command::new("umount").arg(&self.mounted).output();
            let done = unmounted.as_ref().is_ok_and(|output| output.status.success());
            if done || Instant::now() > end {
                super::check_cleanup(done, || {
                    format!("{} is still mounted: {unmounted:?}", self.mounted.display())
                });
                return;
            }
            std::thread::sleep(RELEASE_POLL);
        }
    }
}
