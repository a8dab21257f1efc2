//! Do guests get the host's processors? Only where a small 64-bit guest has really come up with them: a device node proves nothing.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use super::config::QemuConfig;
use super::hardware::Accelerator;
use crate::command::{judge, run_patiently, tool};
use crate::{EngineError, EngineResult};

/// A kernel that runs on the host's processors comes up in a second; one that is still not there hangs. Long, because what is found
/// is kept, and memory that was saved with them goes on with them alone: a busy host must not pass for one without.
const TIMEOUT: Duration = Duration::from_secs(60);
/// An emulated one takes 3 s at rest.
const EMULATED_TIMEOUT: Duration = Duration::from_secs(120);
const DEVICE: &str = "/dev/kvm";
/// What the initial RAM disk says (`packaging/vm/init`).
const SIGN: &str = "a 64-bit guest runs: x86_64";

/// What was found, and why.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) accelerator: Accelerator,
    pub(super) reason: String,
}

/// What guests run on; tried once for each process.
pub(super) fn of_this_host(config: &QemuConfig) -> Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(|| find(config)).clone()
}

fn find(config: &QemuConfig) -> Found {
    let (accelerator, reason) = if config.emulate {
        (Accelerator::Tcg, "the configuration asks for it".to_owned())
    } else if !Path::new(DEVICE).exists() {
        (Accelerator::Tcg, format!("there is no {DEVICE}"))
    } else {
        match boot(config, Accelerator::Kvm) {
            Ok(()) => (Accelerator::Kvm, "a 64-bit guest came up with it".to_owned()),
            Err(error) => {
                (Accelerator::Tcg, format!("{DEVICE} is there, but no 64-bit guest came up: {error}"))
            }
        }
    };
    tracing::info!(?accelerator, reason, "virtual machines");
    Found { accelerator, reason }
}

/// Boots a small guest that says that it runs, and ends.
pub(super) fn boot(config: &QemuConfig, accelerator: Accelerator) -> EngineResult<()> {
    const STEP: &str = "boot a small guest";
    let (name, patience) = match accelerator {
        Accelerator::Kvm => ("kvm", TIMEOUT),
        Accelerator::Tcg => ("tcg", EMULATED_TIMEOUT),
    };
    let mut qemu = tool(&config.program);
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
    qemu.arg("-kernel").arg(config.kernel.join("kernel")).arg("-initrd").arg(config.kernel.join("initrd"));
    qemu.args(["-append", "console=ttyS0 quiet panic=-1 hotdesk.probe"]);
    let (status, said, complaint) = run_patiently(STEP, &mut qemu, None, patience)?;
    judge(STEP, status, &complaint)?;
    if said.contains(SIGN) { Ok(()) } else { Err(EngineError::failed(STEP, "it ended without a word")) }
}
