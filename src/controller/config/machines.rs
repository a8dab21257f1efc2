//! What makes the computers? The engines, and how their screens go out.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The container engine's settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Container {
    /// OCI runtime: a name on the path or a file.
    pub runtime: String,
    /// Folder of a guest image (with `rootfs` in it).
    pub image: PathBuf,
    /// Whether computers reach the outside.
    pub network: bool,
    /// Private range from which computers get their addresses.
    pub subnet: String,
    /// Whether computers may reach private ranges outside the host.
    pub allow_private_egress: bool,
}

/// What virtual machines need beside an image and a network.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Qemu {
    /// QEMU: a name on the path or a file.
    pub program: String,
    /// Folder of the guests' kernel and initial RAM disk.
    pub kernel: PathBuf,
    /// Whether guests are emulated without trying this host's processors.
    pub emulate: bool,
}

/// What streaming may do.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Streaming {
    /// Whether RTMP servers may have addresses that are not public: private, loopback, link-local and the like. Whether a
    /// computer reaches them is the engine's matter (`container.allow_private_egress`).
    pub allow_private: bool,
}

impl Default for Container {
    fn default() -> Self {
        Self {
            runtime: "runc".to_owned(),
            image: PathBuf::from("/var/cache/hotdesk/images/full"),
            network: true,
            subnet: "10.213.0.0/16".to_owned(),
            allow_private_egress: false,
        }
    }
}

impl Default for Qemu {
    fn default() -> Self {
        Self {
            program: "qemu-system-x86_64".to_owned(),
            kernel: PathBuf::from("/var/cache/hotdesk/vm"),
            emulate: false,
        }
    }
}
