//! Checks whether this host can run the container engine, with remedies. Each check tries the real operation;
//! only the state folder is left.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::container::runtime::{Runtime, RuntimeKind};
use crate::container::stage::{self, FileSystemParts};
use crate::container::{ContainerSettings, gvisor, idmap, lxcfs, throttle};
use crate::driver::checks::{self, Check};
use crate::host::cgroup;
use crate::host::command::host_error;
use crate::host::files::{private_folder, remove_if_there};
use crate::state::disk::DiskSpeed;
use crate::state::layout::{Folder, StateDir};
use crate::state::{disk, trash};
use crate::{EngineError, EngineResult, HostSettings, Shortage};
use hotdesk_base::ids::ComputerId;

/// inotify instances of one busy desktop. Measured with the full image: two at rest (D-Bus, desktop icons), five with a
/// browser; the agent's watcher of file events is the sixth.
const INOTIFY_OF_A_DESKTOP: u64 = 6;
/// Desktops for which the inotify instances of the whole host must suffice: with 4 GB each, they fill a host of 64 GB. The
/// default limit of Debian 12 is 128 instances.
const INOTIFY_DESKTOPS: u64 = 16;

/// The checks of everything that the engine needs.
/// Together they take a second or two.
pub(crate) fn checks<'a>(host: &'a HostSettings, settings: &'a ContainerSettings) -> Vec<Check<'a>> {
    let runtime_remedy = "install runc (Debian: apt install runc) or set the engine's runtime; for runsc: a release from July \
                          2024 on, Linux 4.14 or newer";
    let mut checks = vec![
        checks::root(),
        Check::new("OCI runtime", runtime_remedy, || runtime(&settings.runtime, host)),
        checks::disk_tools(host.uid_base),
        Check::new(
            "control groups",
            "mount cgroup v2, or the v1 controllers cpu, memory, pids and devices, under /sys/fs/cgroup, and boot without \
             cgroup_disable",
            control_groups,
        )
        .quick(),
        checks::namespaces(),
        Check::new("user namespaces", "set user.max_user_namespaces above 0", || {
            idmap::user_namespace(host.uid_base).map(|_| format!("ids from {}", host.uid_base))
        }),
        checks::guest_image(&host.image),
        Check::new(
            "disk, loop device, mapped overlay",
            "Linux 5.19 or newer with ext4, loop and overlay; state folder and image on ext4, XFS or btrfs",
            || whole_file_system(host),
        ),
    ];
    match Runtime::new(&settings.runtime, PathBuf::new()).kind() {
        RuntimeKind::Shared => {
            let remedy = "apt install lxcfs, and a kernel with FUSE (/dev/fuse)";
            checks.push(Check::new("size shown in guests", remedy, || resource_files(host)).optional());
        }
        RuntimeKind::Gvisor => {
            let remedy = "a kernel with CONFIG_INET_DIAG, CONFIG_INET_TCP_DIAG and \
                          CONFIG_INET_DIAG_DESTROY; without them, suspends, forks and snapshots with \
                          memory fail";
            checks.push(Check::new("end of connections", remedy, gvisor::try_connections).optional());
        }
    }
    if host.network.enabled {
        checks.push(Check::new(
            "guest network",
            "apt install iproute2 nftables; the kernel needs veth, sch_tbf, nf_tables with fib, conntrack and masquerading",
            checks::packets,
        ));
        checks.push(checks::neighbour_settings());
    }
    if host.disk_speed != DiskSpeed::default() {
        checks.push(Check::new(
            "limit of disk speed",
            "a kernel with CONFIG_BLK_DEV_THROTTLING and the controller io (cgroup v2) or blkio (v1); or remove the limit: \
             disk_mb_per_second = 0 and disk_ops_per_second = 0 under [limits]",
            || throttle::describe_support().map(str::to_owned),
        ));
    }
    checks.push(Check::new("free space", "free some space under the state folder", || {
        checks::free_space(&host.state_dir)
    }));
    checks.push(checks::open_files());
    checks.push(Check::new(
        "inotify instances",
        "sysctl fs.inotify.max_user_instances=8192 (all guests and root share them)",
        inotify,
    ));
    checks
}

/// A runtime's version and what it offers. gVisor is tried, because it needs more of a host than an
/// installation.
fn runtime(program: &str, host: &HostSettings) -> EngineResult<String> {
    let runtime = Runtime::new(program, PathBuf::new());
    let version = runtime.version()?;
    Ok(match runtime.kind() {
        RuntimeKind::Shared => {
            format!("{version}: guests share the host's kernel, at native speed; suspend is not available")
        }
        RuntimeKind::Gvisor => {
            let records = StateDir::open(&host.state_dir)?.trash().join(uuid::Uuid::new_v4().to_string());
            let tried = gvisor::try_boot(&Runtime::new(program, records.clone()));
            let removed = trash::remove_tree(&records);
            tried?;
            removed?;
            format!(
                "{version}: each guest has its own kernel, with slower system calls; suspend is available"
            )
        }
    })
}

fn control_groups() -> EngineResult<String> {
    // `devices` is a controller of v1 only; under v2 the runtime loads a BPF program.
    let v1 = ["cpu", "memory", "pids", "devices"];
    cgroup::check_controllers(if cgroup::is_unified() { &v1[..3] } else { &v1 })
}

/// Makes a disk and assembles a guest's file system, over a layer and the image if there is one.
fn whole_file_system(host: &HostSettings) -> EngineResult<String> {
    const STEP: &str = "try a guest's file system";
    let failed = |error: io::Error| EngineError::failed(STEP, error);
    let state = StateDir::open(&host.state_dir)?;
    let folder =
        Folder { id: ComputerId::random(), path: state.trash().join(uuid::Uuid::new_v4().to_string()) };
    let lower = folder.path.join("lower");
    private_folder(&lower).map_err(failed)?;
    let agent = folder.path.join("agent");
    fs::write(&agent, b"").map_err(failed)?;
    let rootfs = host.image.join("rootfs");
    let (image, layers) = if rootfs.is_dir() { (rootfs, vec![lower]) } else { (lower, Vec::new()) };
    let parts = FileSystemParts {
        image,
        layers,
        agent,
        disk: folder.disk(),
        first_id: host.uid_base,
        files: Vec::new(),
        resource_files: None,
    };
    let tried = disk::make(&folder, disk::SMALLEST)
        .and_then(|()| stage::with_file_system(&parts, || owner_of_root(STEP)));
    let removed = trash::remove_tree(&folder.path);
    let owner = tried?;
    removed?;
    if owner == host.uid_base {
        Ok("an id-mapped overlay over a loop device".into())
    } else {
        Err(EngineError::failed(STEP, format!("the root folder belongs to {owner}, not {}", host.uid_base)))
    }
}

/// Starts lxcfs and reads from it.
fn resource_files(host: &HostSettings) -> EngineResult<String> {
    let pid_file = StateDir::open(&host.state_dir)?.trash().join(uuid::Uuid::new_v4().to_string());
    let tried = lxcfs::try_once(&pid_file);
    // lxcfs removes the file itself, when it notices that its mount is gone.
    remove_if_there(&pid_file).map_err(host_error("try lxcfs", &pid_file))?;
    tried
}

fn owner_of_root(step: &'static str) -> EngineResult<u32> {
    let rootfs = stage::path("rootfs")?;
    fs::metadata(&rootfs).map(|root| root.uid()).map_err(|error| EngineError::failed(step, error))
}

fn inotify() -> EngineResult<String> {
    const PATH: &str = "/proc/sys/fs/inotify/max_user_instances";
    let text = fs::read_to_string(PATH).map_err(|error| EngineError::failed("read a setting", error))?;
    let instances: u64 = text.trim().parse().map_err(|error| EngineError::failed("read a setting", error))?;
    judge_inotify(instances)
}

/// Whether that many instances suffice, with the number of desktops that they allow.
fn judge_inotify(instances: u64) -> EngineResult<String> {
    let desktops = instances / INOTIFY_OF_A_DESKTOP;
    let text = format!("{instances} for the whole host, enough for {desktops} busy desktops");
    if desktops >= INOTIFY_DESKTOPS {
        Ok(text)
    } else {
        Err(EngineError::NoCapacity(Shortage::InotifyInstances, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_inotify_limit_of_debian_12_suffices() {
        for (instances, sufficient) in [(8192, true), (128, true), (95, false), (0, false)] {
            assert_eq!(judge_inotify(instances).is_ok(), sufficient, "{instances}");
        }
    }
}
