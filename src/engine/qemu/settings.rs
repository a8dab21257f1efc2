//! Settings that only the QEMU engine has.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::EngineResult;
use crate::host::command;

/// Settings that only the QEMU engine has; a table of the controller's configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QemuSettings {
    /// QEMU: a name in the system's usual folders, or a path.
    pub program: String,
    /// The folder with the guests' `kernel` and `initrd` (`packaging/vm/build`).
    pub kernel: PathBuf,
    /// Whether guests are always emulated. Without it every process of hotdesk tries KVM once, which takes a
    /// minute where KVM hangs.
    pub emulate: bool,
}

impl Default for QemuSettings {
    fn default() -> Self {
        Self {
            program: "qemu-system-x86_64".to_owned(),
            kernel: PathBuf::from("/var/cache/hotdesk/vm"),
            emulate: false,
        }
    }
}

impl QemuSettings {
    /// The first line of QEMU's `--version`.
    pub(super) fn version(&self) -> EngineResult<String> {
        command::version("read QEMU's version", &self.program)
    }
}
