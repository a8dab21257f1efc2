//! Checks whether this host can run virtual machines, with remedies. Each check tries the real operation.

use crate::container::probe::{disk_tools, finding, free_space, image, packets, root};
use crate::host::cgroup;
use crate::host::command::{run, tool};
use crate::qemu::QemuConfig;
use crate::qemu::accelerator::{self, boot};
use crate::qemu::hardware::Accelerator;
use crate::state::layout::StateDir;
use crate::{EngineResult, Finding};

/// Checks everything that the engine needs. Blocks for some seconds, and for up to a minute more where KVM
/// hangs.
pub fn probe(config: &QemuConfig) -> Vec<Finding> {
    vec![
        finding("root", root(), "run hotdesk serve as root"),
        finding("QEMU", version(config), "install QEMU 7.2 or newer (Debian: apt install qemu-system-x86)"),
        finding(
            "virtual machines",
            processors(config),
            "build the guests' kernel (packaging/vm/build), or set qemu.kernel to its folder",
        ),
        finding("disk tools", disk_tools(), "apt install e2fsprogs (1.47 or newer) util-linux"),
        finding(
            "control groups",
            groups(),
            "mount cgroup v2, or the v1 controllers cpu, memory and pids, under /sys/fs/cgroup",
        ),
        finding(
            "guest image",
            image(&config.image),
            "build the guest image, or set the engine's image to its folder",
        ),
        finding(
            "guest network",
            packets(),
            "apt install iproute2 nftables; the kernel needs veth, tun, sch_tbf, nf_tables, conntrack and masquerading",
        ),
        finding("free space", space(config), "free some space under the state folder"),
    ]
}

fn version(config: &QemuConfig) -> EngineResult<String> {
    let mut qemu = tool(&config.program);
    qemu.arg("--version");
    run("read QEMU's version", qemu).map(|text| text.lines().next().unwrap_or_default().to_owned())
}

/// The accelerator of guests, and why. Emulation is tried too.
fn processors(config: &QemuConfig) -> EngineResult<String> {
    let found = accelerator::detect(config);
    Ok(match found.accelerator {
        Accelerator::Kvm => format!("on this host's processors (KVM): {}", found.reason),
        Accelerator::Tcg => {
            boot(config, Accelerator::Tcg)?;
            format!("emulated (TCG), some six times slower: {}", found.reason)
        }
    })
}

fn groups() -> EngineResult<String> {
    cgroup::check_controllers(&["cpu", "memory", "pids"])
}

fn space(config: &QemuConfig) -> EngineResult<String> {
    StateDir::open(&config.state_dir)?;
    free_space(&config.state_dir)
}
