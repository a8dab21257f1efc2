//! Checks whether this host can run the container engine, with remedies. Each check tries the real operation;
//! only the state folder is left.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};

use crate::container::config::ContainerConfig;
use crate::container::runtime::{Runtime, RuntimeKind};
use crate::container::stage::{self, FileSystemParts};
use crate::container::{gvisor, idmap, throttle};
use crate::host::command::{TIMEOUT, run, run_with, run_with_timeout, tool};
use crate::host::files::private_folder;
use crate::host::{bandwidth, cgroup, network};
use crate::state::disk::DiskSpeed;
use crate::state::layout::{Folder, StateDir};
use crate::state::{disk, trash};
use crate::{EngineError, EngineResult, Finding};
use hotdesk_base::ids::ComputerId;

/// Free bytes below which a host soon cannot make computers.
const COMFORTABLE_SPACE: u64 = 10 << 30;
/// inotify instances of the whole host; below this a few desktops use them up (a desktop has about 20).
const COMFORTABLE_INOTIFY: u64 = 1024;

/// Checks everything that the engine needs, and the other OCI runtime that it could use. Blocks for a second
/// or two.
pub fn probe(config: &ContainerConfig) -> Vec<Finding> {
    let mut findings = vec![finding("root", root(), "run hotdesk serve as root")];
    findings.push(finding(
        "OCI runtime",
        runtime(&config.runtime, config),
        "install runc (Debian: apt install runc) or set the engine's runtime; for runsc: a release from July 2024 on, Linux 4.14 \
         or newer",
    ));
    findings.push(other_runtime(config));
    findings.push(finding("disk tools", disk_tools(), "apt install e2fsprogs (1.47 or newer) util-linux"));
    findings.push(finding(
        "control groups",
        control_groups(),
        "mount cgroup v2, or the v1 controllers cpu, memory, pids and devices, under /sys/fs/cgroup, and boot without \
         cgroup_disable",
    ));
    findings.push(finding(
        "user namespaces",
        idmap::user_namespace(config.uid_base).map(|_| format!("ids from {}", config.uid_base)),
        "set user.max_user_namespaces above 0",
    ));
    findings.push(finding(
        "guest image",
        image(&config.image),
        "build the guest image, or set the engine's image to its folder",
    ));
    findings.push(finding(
        "disk, loop device, mapped overlay",
        whole_file_system(config),
        "Linux 5.19 or newer with ext4, loop and overlay; state folder and image on ext4, XFS or btrfs",
    ));
    if config.network.enabled {
        findings.push(finding(
            "guest network",
            packets(),
            "apt install iproute2 nftables; the kernel needs veth, sch_tbf, nf_tables, conntrack and masquerading",
        ));
    }
    if config.disk_speed != DiskSpeed::default() {
        findings.push(finding(
            "limit of disk speed",
            throttle::describe_support().map(str::to_owned),
            "a kernel with CONFIG_BLK_DEV_THROTTLING and the controller io (cgroup v2) or blkio (v1); or remove the limit: \
             disk_mb_per_second = 0 and disk_ops_per_second = 0 under [limits]",
        ));
    }
    findings.push(finding(
        "free space",
        free_space(&config.state_dir),
        "free some space under the state folder",
    ));
    findings.push(finding(
        "inotify instances",
        inotify(),
        "sysctl fs.inotify.max_user_instances=8192 (all guests and root share them)",
    ));
    findings
}

pub(crate) fn finding(what: &'static str, outcome: EngineResult<String>, remedy: &'static str) -> Finding {
    match outcome {
        Ok(detail) => Finding { what, ok: true, detail, remedy: "" },
        Err(error) => Finding { what, ok: false, detail: error.to_string(), remedy },
    }
}

pub(crate) fn root() -> EngineResult<String> {
    let user = nix::unistd::geteuid();
    if user.is_root() {
        Ok("yes".into())
    } else {
        Err(EngineError::failed("be root", format!("user {user}")))
    }
}

/// What the other runtime would offer: information for the operator, never a failure.
fn other_runtime(config: &ContainerConfig) -> Finding {
    let chosen = Runtime::new(&config.runtime, PathBuf::new()).kind();
    // A configured `runsc` that does not start is recognized by its name.
    let other =
        if chosen == RuntimeKind::Gvisor || config.runtime.ends_with("runsc") { "runc" } else { "runsc" };
    let detail = match runtime(other, config) {
        Ok(given) => format!("not in use: {given}"),
        Err(error) => format!("{other} is not in use, and cannot be used: {error}"),
    };
    Finding { what: "other OCI runtime", ok: true, detail, remedy: "" }
}

/// A runtime's version and what it offers. gVisor is tried, because it needs more of a host than an
/// installation.
fn runtime(program: &str, config: &ContainerConfig) -> EngineResult<String> {
    let runtime = Runtime::new(program, PathBuf::new());
    let version = runtime.version()?;
    Ok(match runtime.kind() {
        RuntimeKind::Shared => {
            format!("{version}: guests share the host's kernel, at native speed; suspend is not available")
        }
        RuntimeKind::Gvisor => {
            let records = StateDir::open(&config.state_dir)?.trash().join(uuid::Uuid::new_v4().to_string());
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

pub(crate) fn disk_tools() -> EngineResult<String> {
    for program in ["e2fsck", "resize2fs", "mkfs.ext4", "fsfreeze"] {
        let mut command = tool(program);
        // The status does not matter: only a missing program is an error here.
        command.arg("-V");
        run_with_timeout("look for the disk tools", &mut command, None, TIMEOUT)?;
    }
    Ok("mkfs.ext4, e2fsck, resize2fs, fsfreeze".into())
}

fn control_groups() -> EngineResult<String> {
    // `devices` is a controller of v1 only; under v2 the runtime loads a BPF program.
    let v1 = ["cpu", "memory", "pids", "devices"];
    cgroup::check_controllers(if cgroup::is_unified() { &v1[..3] } else { &v1 })
}

pub(crate) fn image(image: &Path) -> EngineResult<String> {
    let rootfs = image.join("rootfs");
    if rootfs.join("usr/bin").is_dir() {
        Ok(rootfs.display().to_string())
    } else {
        Err(EngineError::failed("find the guest image", format!("{} has no usr/bin", rootfs.display())))
    }
}

/// Makes a disk and assembles a guest's file system, over the image if there is one.
fn whole_file_system(config: &ContainerConfig) -> EngineResult<String> {
    const STEP: &str = "try a guest's file system";
    let failed = |error: io::Error| EngineError::failed(STEP, error);
    let state = StateDir::open(&config.state_dir)?;
    let folder =
        Folder { id: ComputerId::random(), path: state.trash().join(uuid::Uuid::new_v4().to_string()) };
    let lower = folder.path.join("lower");
    private_folder(&lower).map_err(failed)?;
    let agent = folder.path.join("agent");
    fs::write(&agent, b"").map_err(failed)?;
    let rootfs = config.image.join("rootfs");
    let parts = FileSystemParts {
        image: if rootfs.is_dir() { rootfs } else { lower },
        agent,
        disk: folder.disk(),
        first_id: config.uid_base,
        files: Vec::new(),
    };
    let tried = disk::make(&folder, disk::SMALLEST)
        .and_then(|()| stage::with_file_system(&parts, || owner_of_root(STEP)));
    let removed = trash::remove_tree(&folder.path);
    let owner = tried?;
    removed?;
    if owner == config.uid_base {
        Ok("an id-mapped overlay over a loop device".into())
    } else {
        Err(EngineError::failed(STEP, format!("the root folder belongs to {owner}, not {}", config.uid_base)))
    }
}

fn owner_of_root(step: &'static str) -> EngineResult<u32> {
    let rootfs = stage::path("rootfs")?;
    fs::metadata(&rootfs).map(|root| root.uid()).map_err(|error| EngineError::failed(step, error))
}

/// Loads the packet rules and makes a veth pair in a new network namespace.
pub(crate) fn packets() -> EngineResult<String> {
    const STEP: &str = "try a guest's network";
    let tried = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|error| EngineError::failed(STEP, error))?;
        let mut pair = tool("ip");
        pair.args(["link", "add", "hotdeskffff", "type", "veth", "peer", "name", "eth0"]);
        run(STEP, pair)?;
        let mut limited = tool("tc");
        limited.args(["qdisc", "replace", "dev", "hotdeskffff", "root"]).args(bandwidth::queue(1));
        run(STEP, limited)?;
        let mut nft = tool("nft");
        nft.args(["-f", "-"]);
        run_with(STEP, nft, network::RULES)
    });
    let outcome = tried.join().unwrap_or_else(|_| Err(EngineError::failed(STEP, "the thread panicked")));
    outcome.map(|_| format!("veth and nftables; net.ipv4.ip_forward is {}", network::forwarding()))
}

pub(crate) fn free_space(state: &Path) -> EngineResult<String> {
    let free = disk::free_bytes(state)?;
    let text = format!("{} GiB under {}", free >> 30, state.display());
    if free >= COMFORTABLE_SPACE { Ok(text) } else { Err(EngineError::NoCapacity(text)) }
}

fn inotify() -> EngineResult<String> {
    const PATH: &str = "/proc/sys/fs/inotify/max_user_instances";
    let text = fs::read_to_string(PATH).map_err(|error| EngineError::failed("read a setting", error))?;
    let instances: u64 = text.trim().parse().map_err(|error| EngineError::failed("read a setting", error))?;
    if instances >= COMFORTABLE_INOTIFY {
        Ok(instances.to_string())
    } else {
        Err(EngineError::NoCapacity(format!("{instances} for the whole host")))
    }
}
