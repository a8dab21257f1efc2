//! Settings of the engines and of streaming.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Container engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Container {
    /// OCI runtime: a name on the path or a file.
    pub runtime: String,
    /// Folder of a guest image (with `rootfs` in it).
    pub image: PathBuf,
    /// Whether computers can reach other networks.
    pub network: bool,
    /// Private range of the computers' addresses.
    pub subnet: String,
    /// Whether computers may reach private networks outside the host.
    pub allow_private_egress: bool,
}

/// Virtual machines, besides their image and network.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Qemu {
    /// QEMU: a name on the path or a file.
    pub program: String,
    /// Folder of the guests' kernel and initial RAM disk.
    pub kernel: PathBuf,
    /// Whether guests are emulated even if the host's processors could run them.
    pub emulate: bool,
}

/// Streaming.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Streaming {
    /// Whether RTMP servers may have addresses that are not public: private, loopback, link-local and
    /// similar. The engine decides whether a computer can reach them (`container.allow_private_egress`).
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
