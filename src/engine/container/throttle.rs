//! How fast may a guest read and write its disk? The kernel's throttle of the loop device that shows it (threats.md T22).
//!
//! Version 2 of control groups bounds all of it. Version 1 bounds reads and direct writes; what lies in the page cache is
//! written back by threads of the kernel that are in no machine's group. What is read of the image is not on that device.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::command::host_error;
use super::layout::Folder;
use super::{cgroup, loopdev, quota};
use crate::{DiskSpeed, EngineError, EngineResult};

const STEP: &str = "bound the speed of the disk";

/// Bounds a machine that has its groups and its disk, and runs nothing yet. Where the kernel has no throttle, nothing is
/// bounded ([`ability`] tells).
pub(super) fn limit(folder: &Folder, speed: DiskSpeed) -> EngineResult<()> {
    if speed == DiskSpeed::default() {
        return Ok(());
    }
    let disk = folder.disk();
    let Some(device) = loopdev::showing(&disk).map_err(host_error(STEP, &disk))? else {
        return Err(EngineError::failed(STEP, "no device shows it"));
    };
    let number = fs::metadata(&device).map_err(host_error(STEP, &device))?.rdev();
    for (file, text) in settings(&cgroup::folders(folder.id), number, speed) {
        fs::write(&file, text).map_err(host_error(STEP, &file))?;
    }
    Ok(())
}

/// What the files of a machine's groups are to say; none where the kernel has no throttle.
fn settings(groups: &[PathBuf], device: u64, speed: DiskSpeed) -> Vec<(PathBuf, String)> {
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let (bytes, ops) = (u64::from(speed.mb_per_second) * 1_000_000, u64::from(speed.ops_per_second));
    if let Some(file) = quota::find(groups, "io.max") {
        let say = |bound: u64| if bound == 0 { "max".to_owned() } else { bound.to_string() };
        let (bytes, ops) = (say(bytes), say(ops));
        return vec![(file, format!("{device} rbps={bytes} wbps={bytes} riops={ops} wiops={ops}"))];
    }
    let files = [("read_bps", bytes), ("write_bps", bytes), ("read_iops", ops), ("write_iops", ops)];
    let bounded = files.into_iter().filter(|(_, bound)| *bound > 0);
    let named = bounded.filter_map(|(name, bound)| {
        let file = quota::find(groups, &format!("blkio.throttle.{name}_device"))?;
        Some((file, format!("{device} {bound}")))
    });
    named.collect()
}

/// What of a guest's disk this host can bound.
pub(super) fn ability() -> EngineResult<&'static str> {
    let unified = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    if unified.split_whitespace().any(|controller| controller == "io") {
        Ok("all reads and writes (v2)")
    } else if Path::new("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device").exists() {
        Ok("reads and direct writes (v1); what the page cache holds is written back without a bound")
    } else {
        Err(EngineError::failed(STEP, "the kernel has no throttle"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_told_a_device_and_its_bounds() {
        let device = rustix::fs::makedev(7, 3);
        let told = |files: &[&str], mb_per_second, ops_per_second| {
            let group = tempfile::tempdir().unwrap();
            for file in files {
                fs::write(group.path().join(file), "").unwrap();
            }
            let groups = [group.path().join("elsewhere"), group.path().to_owned()];
            let settings = settings(&groups, device, DiskSpeed { mb_per_second, ops_per_second });
            let name = |file: &Path| file.file_name().unwrap().to_string_lossy().into_owned();
            settings.iter().map(|(file, text)| format!("{}: {text}", name(file))).collect::<Vec<_>>()
        };
        assert_eq!(told(&["io.max"], 4, 0), ["io.max: 7:3 rbps=4000000 wbps=4000000 riops=max wiops=max"]);
        let v1 = ["read_bps", "write_bps", "read_iops", "write_iops"]
            .map(|it| format!("blkio.throttle.{it}_device"));
        let v1: Vec<&str> = v1.iter().map(String::as_str).collect();
        assert_eq!(
            told(&v1, 4, 100),
            [
                "blkio.throttle.read_bps_device: 7:3 4000000",
                "blkio.throttle.write_bps_device: 7:3 4000000",
                "blkio.throttle.read_iops_device: 7:3 100",
                "blkio.throttle.write_iops_device: 7:3 100",
            ]
        );
        assert_eq!(told(&v1, 0, 100).len(), 2);
        assert_eq!(told(&[], 4, 100), [""; 0]);
    }
}
