//! A small file system of a test's own, for what must happen on a disk that is full or a mount of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Ends all work of a file system at once, as its disk does that has no power any more: what is not on the disk by then
/// never comes there (`FS_IOC_SHUTDOWN` of linux/fs.h, without a flush of the journal).
const CUT: &str = "import fcntl, os, struct, sys\n\
    fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))";

/// Unmounted when dropped.
pub struct SmallDisk {
    image: PathBuf,
    mounted: PathBuf,
}

impl SmallDisk {
    /// A disk file in `folder`, mounted at `at`.
    pub fn mount(folder: &Path, at: &Path, mib: u64) -> Self {
        let image = folder.join("disk");
        let file = File::create_new(&image).expect("a disk file");
        file.set_len(mib << 20).expect("its size");
        std::fs::create_dir(at).expect("a folder to mount on");
        let made = Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image).status();
        assert!(made.expect("e2fsprogs").success());
        let disk = Self { image, mounted: at.to_owned() };
        disk.attach();
        disk
    }

    fn attach(&self) {
        let mounted = Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.mounted).status();
        assert!(mounted.expect("mount").success());
    }

    /// Takes its power away.
    ///
    /// # Errors
    /// What the kernel said that does not do such a thing.
    pub fn cut_power(&self) -> Result<(), String> {
        let cut = Command::new("python3").args(["-c", CUT]).arg(&self.mounted).output().expect("python3");
        if cut.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&cut.stderr).into_owned()) }
    }

    /// Gives it its power back, once nobody uses it any more; whether that is so.
    pub fn comes_back(&self) -> bool {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        if mounts.contains(&format!(" {} ", self.mounted.display())) {
            let gone = Command::new("umount").arg(&self.mounted).stderr(Stdio::null()).status();
            if !gone.expect("umount").success() {
                return false;
            }
        }
        // Who was about to start a machine anywhere on this host may have it in a mount namespace for a moment still.
        let image = self.image.to_string_lossy().into_owned();
        if super::host::loop_files().iter().any(|file| file.starts_with(&image)) {
            return false;
        }
        self.attach();
        true
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.mounted).status();
        let done = unmounted.as_ref().is_ok_and(ExitStatus::success);
        super::insist(done, || format!("{} is still mounted: {unmounted:?}", self.mounted.display()));
    }
}
