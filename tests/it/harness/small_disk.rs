//! A small file system of a test's own, for what must happen on a disk that is full or a mount of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Unmounted when dropped.
pub struct SmallDisk {
    mounted: PathBuf,
}

impl SmallDisk {
    /// A disk file in `folder`, mounted at `at`.
    pub fn mount(folder: &Path, at: &Path, mib: u64) -> Self {
        let image = folder.join("disk");
        let file = File::create_new(&image).expect("a disk file");
        file.set_len(mib << 20).expect("its size");
        std::fs::create_dir(at).expect("a folder to mount on");
        for command in [
            Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image),
            Command::new("mount").args(["-o", "loop"]).arg(&image).arg(at),
        ] {
            assert!(command.status().expect("e2fsprogs and mount").success(), "{command:?}");
        }
        Self { mounted: at.to_owned() }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.mounted).status();
        let done = unmounted.as_ref().is_ok_and(ExitStatus::success);
        super::insist(done, || format!("{} is still mounted: {unmounted:?}", self.mounted.display()));
    }
}
