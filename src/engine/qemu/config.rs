//! What does an operator say to the engine of virtual machines? Plain data; nothing here touches the host.

use std::path::PathBuf;

use crate::addresses::NetworkConfig;
use crate::disk::DiskSpeed;

/// How the engine works on this host.
#[derive(Clone, Debug)]
pub struct QemuConfig {
    /// The folder that holds every machine of this controller. One controller at a time uses it.
    pub state_dir: PathBuf,
    /// QEMU: a name looked up in the system's usual folders, or a path.
    pub program: String,
    /// The folder with the guests' `kernel` and `initrd` (`packaging/vm/build`).
    pub kernel: PathBuf,
    /// Whether guests are emulated without trying this host's processors: where KVM hangs, each process's try takes 15 s.
    pub emulate: bool,
    /// The guest image: a folder with `rootfs/`.
    pub image: PathBuf,
    /// The executable that becomes the guest's `/usr/bin/hotdesk`.
    pub agent_binary: PathBuf,
    /// How guests reach the world.
    pub network: NetworkConfig,
    /// How fast each guest may read and write its disk.
    pub disk_speed: DiskSpeed,
    /// First host user id that machines get, as for containers: each QEMU runs as the first id of its slot.
    pub uid_base: u32,
    /// What `hotdesk vm-init` runs in place of `hotdesk init`; for images that bring their own agent, which answers on
    /// [`AGENT_PORT`](crate::container::AGENT_PORT).
    pub init_args: Option<Vec<String>>,
}

impl QemuConfig {
    /// The usual settings for a state folder, a kernel, an image and an agent.
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
