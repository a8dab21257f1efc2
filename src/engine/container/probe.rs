//! Checks whether this host can run the container engine, with remedies. Each check tries the real operation;
//! only the state folder is left.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::container::runtime::{Runtime, RuntimeKind};
use crate::container::stage::{self, FileSystemParts};
use crate::container::{ContainerSettings, gvisor, idmap, throttle};
use crate::driver::checks::{self, finding};
use crate::host::cgroup;
use crate::host::files::private_folder;
use crate::state::disk::DiskSpeed;
use crate::state::layout::{Folder, StateDir};
use crate::state::{disk, trash};
use crate::{EngineError, EngineResult, Finding, HostSettings, Shortage};
use hotdesk_base::ids::ComputerId;

/// inotify instances of the whole host; below this a few desktops use them up (a desktop has about 20).
const COMFORTABLE_INOTIFY: u64 = 1024;

/// Checks everything that the engine needs, and the other OCI runtime that it could use. Blocks for a second
/// or two.
pub(crate) fn probe(host: &HostSettings, settings: &ContainerSettings) -> Vec<Finding> {
    let mut findings = vec![checks::root()];
    findings.push(finding(
        "OCI runtime",
        runtime(&settings.runtime, host),
        "install runc (Debian: apt install runc) or set the engine's runtime; for runsc: a release from July 2024 on, Linux 4.14 \
         or newer",
    ));
    findings.push(other_runtime(host, settings));
    findings.push(checks::disk_tools());
    findings.push(finding(
        "control groups",
        control_groups(),
        "mount cgroup v2, or the v1 controllers cpu, memory, pids and devices, under /sys/fs/cgroup, and boot without \
         cgroup_disable",
    ));
    findings.push(finding(
        "user namespaces",
        idmap::user_namespace(host.uid_base).map(|_| format!("ids from {}", host.uid_base)),
        "set user.max_user_namespaces above 0",
    ));
    findings.push(checks::guest_image(&host.image));
    findings.push(finding(
        "disk, loop device, mapped overlay",
        whole_file_system(host),
        "Linux 5.19 or newer with ext4, loop and overlay; state folder and image on ext4, XFS or btrfs",
    ));
    if host.network.enabled {
        findings.push(finding(
            "guest network",
            checks::packets(),
            "apt install iproute2 nftables; the kernel needs veth, sch_tbf, nf_tables, conntrack and masquerading",
        ));
    }
    if host.disk_speed != DiskSpeed::default() {
        findings.push(finding(
            "limit of disk speed",
            throttle::describe_support().map(str::to_owned),
            "a kernel with CONFIG_BLK_DEV_THROTTLING and the controller io (cgroup v2) or blkio (v1); or remove the limit: \
             disk_mb_per_second = 0 and disk_ops_per_second = 0 under [limits]",
        ));
    }
    findings.push(finding(
        "free space",
        checks::free_space(&host.state_dir),
        "free some space under the state folder",
    ));
    findings.push(finding(
        "inotify instances",
        inotify(),
        "sysctl fs.inotify.max_user_instances=8192 (all guests and root share them)",
    ));
    findings
}

/// What the other runtime would offer: information for the operator, never a failure.
fn other_runtime(host: &HostSettings, settings: &ContainerSettings) -> Finding {
    let chosen = Runtime::new(&settings.runtime, PathBuf::new()).kind();
    // A configured `runsc` that does not start is recognized by its name.
    let other =
        if chosen == RuntimeKind::Gvisor || settings.runtime.ends_with("runsc") { "runc" } else { "runsc" };
    let detail = match runtime(other, host) {
        Ok(given) => format!("not in use: {given}"),
        Err(error) => format!("{other} is not in use, and cannot be used: {error:#}"),
    };
    Finding { what: "other OCI runtime", ok: true, detail, remedy: "" }
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

/// Makes a disk and assembles a guest's file system, over the image if there is one.
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
    let parts = FileSystemParts {
        image: if rootfs.is_dir() { rootfs } else { lower },
        agent,
        disk: folder.disk(),
        first_id: host.uid_base,
        files: Vec::new(),
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

fn owner_of_root(step: &'static str) -> EngineResult<u32> {
    let rootfs = stage::path("rootfs")?;
    fs::metadata(&rootfs).map(|root| root.uid()).map_err(|error| EngineError::failed(step, error))
}

fn inotify() -> EngineResult<String> {
    const PATH: &str = "/proc/sys/fs/inotify/max_user_instances";
    let text = fs::read_to_string(PATH).map_err(|error| EngineError::failed("read a setting", error))?;
    let instances: u64 = text.trim().parse().map_err(|error| EngineError::failed("read a setting", error))?;
    if instances >= COMFORTABLE_INOTIFY {
        Ok(instances.to_string())
    } else {
        Err(EngineError::NoCapacity(Shortage::InotifyInstances, format!("{instances} for the whole host")))
    }
}
