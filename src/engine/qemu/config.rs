//! Settings of the QEMU engine.

use std::path::PathBuf;

use crate::host::addresses::NetworkConfig;
use crate::state::disk::DiskSpeed;

/// Settings of the QEMU engine on this host.
#[derive(Clone, Debug)]
pub struct QemuConfig {
    /// The folder that holds every machine of this controller. One controller at a time uses it.
    pub state_dir: PathBuf,
    /// QEMU: a name in the system's usual folders, or a path.
    pub program: String,
    /// The folder with the guests' `kernel` and `initrd` (`packaging/vm/build`).
    pub kernel: PathBuf,
    /// Whether guests are always emulated. Without it every process of hotdesk tries KVM once, which takes a
    /// minute where KVM hangs.
    pub emulate: bool,
    /// The guest image: a folder with `rootfs/`.
    pub image: PathBuf,
    /// The executable that becomes the guest's `/usr/bin/hotdesk`.
    pub agent_binary: PathBuf,
    /// Network settings of guests.
    pub network: NetworkConfig,
    /// Speed limit of each guest's disk.
    pub disk_speed: DiskSpeed,
    /// First host user id of machines, the same as for containers: each QEMU runs as the first id of its
    /// slot.
    pub uid_base: u32,
    /// What `hotdesk vm-init` runs instead of `hotdesk init`, for images with their own agent, which answers
    /// on [`AGENT_PORT`](crate::container::AGENT_PORT).
    pub init_args: Option<Vec<String>>,
}

impl QemuConfig {
    /// The default settings for a state folder, a kernel, an image and an agent.
    pub fn new(
        state_dir: impl Into<PathBuf>,
        kernel: impl Into<PathBuf>,
        image: impl Into<PathBuf>,
        agent_binary: impl Into<PathBuf>,
    ) -> Self {
        Self {
            state_dir: state_dir.into(),
            program: "qemu-system-x86_64".to_owned(),
            kernel: kernel.into(),
            emulate: false,
            image: image.into(),
            agent_binary: agent_binary.into(),
            network: NetworkConfig::default(),
            disk_speed: DiskSpeed::default(),
            uid_base: 1_000_000,
            init_args: None,
        }
    }
}
