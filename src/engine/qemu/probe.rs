//! Checks whether this host can run virtual machines, with remedies. Each check tries the real operation.

use std::path::Path;

use crate::driver::checks::{self, Check};
use crate::host::cgroup;
use crate::qemu::QemuSettings;
use crate::qemu::accelerator::{self, boot};
use crate::qemu::hardware::Accelerator;
use crate::state::layout::StateDir;
use crate::{EngineResult, HostSettings};

/// The checks of everything that the engine needs. Together they take some seconds, half a minute where processors are
/// emulated, and up to a minute more where KVM hangs.
pub(crate) fn checks<'a>(host: &'a HostSettings, settings: &'a QemuSettings) -> Vec<Check<'a>> {
    vec![
        checks::root(),
        Check::new("QEMU", "install QEMU 7.2 or newer (Debian: apt install qemu-system-x86)", || {
            settings.version()
        }),
        Check::new(
            "virtual machines",
            "run `hotdesk image kernel` (source tree: packaging/vm/build), or set qemu.kernel to its folder",
            || processors(settings),
        ),
        checks::disk_tools(host.uid_base),
        Check::new(
            "control groups",
            "mount cgroup v2, or the v1 controllers cpu, memory and pids, under /sys/fs/cgroup",
            groups,
        )
        .quick(),
        checks::namespaces(),
        checks::guest_image(&host.image),
        Check::new(
            "guest network",
            "apt install iproute2 nftables; the kernel needs veth, tun, sch_tbf, nf_tables with fib, conntrack and masquerading",
            checks::packets,
        ),
        checks::neighbour_settings(),
        Check::new("free space", "free some space under the state folder", || space(&host.state_dir)),
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
