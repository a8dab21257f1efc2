//! What does an operator say to the container engine? Plain data; nothing here touches the host.

use std::path::PathBuf;

use crate::addresses::{self, NetworkConfig};
use crate::disk::DiskSpeed;

/// How the container engine works on this host.
#[derive(Clone, Debug)]
pub struct ContainerConfig {
    /// The folder that holds every machine of this controller. One controller at a time uses it.
    pub state_dir: PathBuf,
    /// The OCI runtime: a name looked up in the system's usual folders, or a path. `runc`, or `runsc` for gVisor.
    pub runtime: String,
    /// The guest image: a folder with `rootfs/`.
    pub image: PathBuf,
    /// The executable that becomes the guest's `/usr/bin/hotdesk`.
    pub agent_binary: PathBuf,
    /// How guests reach the world.
    pub network: NetworkConfig,
    /// How fast each guest may read and write its disk.
    pub disk_speed: DiskSpeed,
    /// First host user id that machines get. The same for every controller of a host; no account may lie above it.
    pub uid_base: u32,
    /// What runs as the guest's first process in place of `hotdesk init`; for images that bring their own. Its agent
    /// answers on descriptor 3, or, where the runtime is gVisor, on [`AGENT_PORT`](super::AGENT_PORT).
    pub init_args: Option<Vec<String>>,
}

impl ContainerConfig {
    /// The usual settings for a state folder, an image and an agent.
    pub fn new(
        state_dir: impl Into<PathBuf>,
        image: impl Into<PathBuf>,
        agent_binary: impl Into<PathBuf>,
    ) -> Self {
        Self {
            state_dir: state_dir.into(),
            runtime: "runc".to_owned(),
            image: image.into(),
            agent_binary: agent_binary.into(),
            network: NetworkConfig::default(),
            disk_speed: DiskSpeed::default(),
            uid_base: 1_000_000,
            init_args: None,
        }
    }

    /// The first host user id of the machine in a slot.
    pub fn host_ids(&self, slot: u16) -> u32 {
        addresses::host_ids(self.uid_base, slot)
    }
}
