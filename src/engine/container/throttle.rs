//! Speed limit of a guest's disk: the kernel's I/O throttle of its loop device (T22, docs/security.md).
//!
//! Control groups version 2 limit all reads and writes. Version 1 limits reads and direct writes only: kernel
//! threads outside of the machine's group write the page cache back. Reads from the shared image are not
//! throttled.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::host::cgroup::{self, limits};
use crate::host::command::host_error;
use crate::host::loopdev;
use crate::state::layout::Folder;
use crate::{DiskSpeed, EngineError, EngineResult};

const STEP: &str = "limit the speed of the disk";

/// Limits a machine that has its groups and its disk, before its first process runs. Does nothing without
/// a throttle in the kernel; see [`describe_support`].
pub(super) fn limit(folder: &Folder, speed: DiskSpeed) -> EngineResult<()> {
    if speed == DiskSpeed::default() {
        return Ok(());
    }
    let disk = folder.disk();
    let Some(device) = loopdev::showing(&disk).map_err(host_error(STEP, &disk))? else {
        return Err(EngineError::failed(STEP, "it has no loop device"));
    };
    let number = fs::metadata(&device).map_err(host_error(STEP, &device))?.rdev();
    for (file, text) in settings(&cgroup::folders(folder.id), number, speed) {
        fs::write(&file, text).map_err(host_error(STEP, &file))?;
    }
    Ok(())
}

/// The files of a machine's groups with their content; none without a throttle in the kernel.
fn settings(groups: &[PathBuf], device: u64, speed: DiskSpeed) -> Vec<(PathBuf, String)> {
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let (bytes, ops) = (u64::from(speed.mb_per_second) * 1_000_000, u64::from(speed.ops_per_second));
    if let Some(file) = limits::find(groups, "io.max") {
        let format_limit = |limit: u64| if limit == 0 { "max".to_owned() } else { limit.to_string() };
        let (bytes, ops) = (format_limit(bytes), format_limit(ops));
        return vec![(file, format!("{device} rbps={bytes} wbps={bytes} riops={ops} wiops={ops}"))];
    }
    let files = [("read_bps", bytes), ("write_bps", bytes), ("read_iops", ops), ("write_iops", ops)];
    let bounded = files.into_iter().filter(|(_, bound)| *bound > 0);
    let named = bounded.filter_map(|(name, bound)| {
        let file = limits::find(groups, &format!("blkio.throttle.{name}_device"))?;
        Some((file, format!("{device} {bound}")))
    });
    named.collect()
}

/// What this host can limit.
///
/// # Errors
/// `Failed` when the kernel has no throttle.
pub(super) fn describe_support() -> EngineResult<&'static str> {
    let unified = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    if unified.split_whitespace().any(|controller| controller == "io") {
        Ok("all reads and writes (v2)")
    } else if Path::new("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device").exists() {
        Ok("reads and direct writes (v1); writes through the page cache are unlimited")
    } else {
        Err(EngineError::failed(STEP, "the kernel has no throttle"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_for_both_versions() {
        let device = rustix::fs::makedev(7, 3);
        let written = |files: &[&str], mb_per_second, ops_per_second| {
            let group = tempfile::tempdir().unwrap();
            for file in files {
                fs::write(group.path().join(file), "").unwrap();
            }
            let groups = [group.path().join("elsewhere"), group.path().to_owned()];
            let settings = settings(&groups, device, DiskSpeed { mb_per_second, ops_per_second });
            let name = |file: &Path| file.file_name().unwrap().to_string_lossy().into_owned();
            settings.iter().map(|(file, text)| format!("{}: {text}", name(file))).collect::<Vec<_>>()
        };
        assert_eq!(written(&["io.max"], 4, 0), ["io.max: 7:3 rbps=4000000 wbps=4000000 riops=max wiops=max"]);
        let v1 = ["read_bps", "write_bps", "read_iops", "write_iops"]
            .map(|it| format!("blkio.throttle.{it}_device"));
        let v1: Vec<&str> = v1.iter().map(String::as_str).collect();
        assert_eq!(
            written(&v1, 4, 100),
            [
                "blkio.throttle.read_bps_device: 7:3 4000000",
                "blkio.throttle.write_bps_device: 7:3 4000000",
                "blkio.throttle.read_iops_device: 7:3 100",
                "blkio.throttle.write_iops_device: 7:3 100",
            ]
        );
        assert_eq!(written(&v1, 0, 100).len(), 2);
        assert_eq!(written(&[], 4, 100), [""; 0]);
    }
}
