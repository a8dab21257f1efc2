//! Checks whether this host can run virtual machines, with remedies. Each check tries the real operation.

use std::path::Path;

use crate::driver::checks::{self, finding};
use crate::host::cgroup;
use crate::qemu::QemuSettings;
use crate::qemu::accelerator::{self, boot};
use crate::qemu::hardware::Accelerator;
use crate::state::layout::StateDir;
use crate::{EngineResult, Finding, HostSettings};

/// Checks everything that the engine needs. Blocks for some seconds, and for up to a minute more where KVM
/// hangs.
pub(crate) fn probe(host: &HostSettings, settings: &QemuSettings) -> Vec<Finding> {
    vec![
        checks::root(),
        finding(
            "QEMU",
            settings.version(),
            "install QEMU 7.2 or newer (Debian: apt install qemu-system-x86)",
        ),
        finding(
            "virtual machines",
            processors(settings),
            "run `hotdesk image kernel` (source tree: packaging/vm/build), or set qemu.kernel to its folder",
        ),
        checks::disk_tools(),
        finding(
            "control groups",
            groups(),
            "mount cgroup v2, or the v1 controllers cpu, memory and pids, under /sys/fs/cgroup",
        ),
        checks::guest_image(&host.image),
        finding(
            "guest network",
            checks::packets(),
            "apt install iproute2 nftables; the kernel needs veth, tun, sch_tbf, nf_tables, conntrack and masquerading",
        ),
        finding("free space", space(&host.state_dir), "free some space under the state folder"),
    ]
}

/// The accelerator of guests, and why. Emulation is tried too.
fn processors(settings: &QemuSettings) -> EngineResult<String> {
    let found = accelerator::detect(settings);
    Ok(match found.accelerator {
        Accelerator::Kvm => format!("on this host's processors (KVM): {}", found.reason),
        Accelerator::Tcg => {
            boot(settings, Accelerator::Tcg)?;
            format!("emulated (TCG), some six times slower: {}", found.reason)
        }
    })
}

fn groups() -> EngineResult<String> {
    cgroup::check_controllers(&["cpu", "memory", "pids"])
}

fn space(state_dir: &Path) -> EngineResult<String> {
    StateDir::open(state_dir)?;
    checks::free_space(state_dir)
}
