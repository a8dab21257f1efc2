//! Choice between KVM and emulation. KVM counts only after a small 64-bit guest has booted with it: a device
//! node proves nothing.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::resource::Resource;

use crate::host::command::{check_status, run_with_timeout, tool};
use crate::host::syscalls;
use crate::qemu::hardware::Accelerator;
use crate::qemu::settings::QemuSettings;
use crate::{EngineError, EngineResult};

/// A guest boots with KVM in a second; one that takes this long hangs. The result holds for the process, and
/// memory that was saved with KVM needs KVM. So the timeout is long enough for a busy host.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Processor time of such a guest, in seconds. One that needs more is no quicker than an emulated one, which takes 3 s. KVM inside of
/// another virtual machine may need minutes, and its processor time does not depend on how busy the host is.
const CPU_SECONDS: u64 = 5;
/// An emulated guest boots in 3 s on an idle host.
const EMULATED_TIMEOUT: Duration = Duration::from_secs(120);
const DEVICE: &str = "/dev/kvm";
/// Output of the initial RAM disk (`packaging/vm/init`).
const BOOT_MESSAGE: &str = "a 64-bit guest runs: x86_64";

/// The accelerator of this host, and why.
#[derive(Clone, Debug)]
pub(super) struct Detection {
    pub(super) accelerator: Accelerator,
    pub(super) reason: String,
}

/// Detects the accelerator of this host, once per process.
pub(super) fn detect(settings: &QemuSettings) -> Detection {
    static DETECTED: OnceLock<Detection> = OnceLock::new();
    DETECTED.get_or_init(|| find(settings)).clone()
}

fn find(settings: &QemuSettings) -> Detection {
    let (accelerator, reason) = if settings.emulate {
        (Accelerator::Tcg, "the configuration requires emulation".to_owned())
    } else if !Path::new(DEVICE).exists() {
        (Accelerator::Tcg, format!("there is no {DEVICE}"))
    } else {
        match boot(settings, Accelerator::Kvm) {
            Ok(()) => (Accelerator::Kvm, "a 64-bit guest booted with it".to_owned()),
            Err(error) => {
                (Accelerator::Tcg, format!("{DEVICE} exists, but a 64-bit guest did not boot: {error:#}"))
            }
        }
    };
    tracing::info!(?accelerator, reason, "detected how virtual machines run");
    Detection { accelerator, reason }
}

/// Boots a small guest that prints [`BOOT_MESSAGE`] and ends.
pub(super) fn boot(settings: &QemuSettings, accelerator: Accelerator) -> EngineResult<()> {
    const STEP: &str = "boot a small guest";
    let (name, timeout) = match accelerator {
        Accelerator::Kvm => ("kvm", TIMEOUT),
        Accelerator::Tcg => ("tcg", EMULATED_TIMEOUT),
    };
    let mut qemu = tool(&settings.program);
    qemu.args([
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-machine",
        "q35",
        "-m",
        "256",
    ]);
    qemu.args(["-cpu", "max", "-accel", name, "-serial", "stdio"]);
    if accelerator == Accelerator::Kvm {
        syscalls::limit(&mut qemu, Resource::RLIMIT_CPU, CPU_SECONDS);
    }
    qemu.arg("-kernel")
        .arg(settings.kernel.join("kernel"))
        .arg("-initrd")
        .arg(settings.kernel.join("initrd"));
    qemu.args(["-append", "console=ttyS0 quiet panic=-1 hotdesk.probe"]);
    let (status, output, complaint) = run_with_timeout(STEP, &mut qemu, None, timeout)?;
    check_status(STEP, status, &complaint)?;
    if output.contains(BOOT_MESSAGE) {
        Ok(())
    } else {
        Err(EngineError::failed(STEP, "it ended without its message"))
    }
}
