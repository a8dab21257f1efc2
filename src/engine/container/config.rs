//! Settings of the container engine.

use std::path::PathBuf;

use crate::host::addresses::{self, NetworkConfig};
use crate::state::disk::DiskSpeed;

/// Settings of the container engine on this host.
#[derive(Clone, Debug)]
pub struct ContainerConfig {
    /// The folder that holds every machine of this controller. One controller at a time uses it.
    pub state_dir: PathBuf,
    /// The OCI runtime, `runc` or `runsc` (gVisor): a name in the system's usual folders, or a path.
    pub runtime: String,
    /// The guest image: a folder with `rootfs/`.
    pub image: PathBuf,
    /// The executable that becomes the guest's `/usr/bin/hotdesk`.
    pub agent_binary: PathBuf,
    /// Network settings of guests.
    pub network: NetworkConfig,
    /// Speed limit of each guest's disk.
    pub disk_speed: DiskSpeed,
    /// First host user id of machines. It must be the same for all controllers of a host, and no account may
    /// lie above it.
    pub uid_base: u32,
    /// The guest's first process instead of `hotdesk init`, for images with their own. Its agent
    /// answers on descriptor 3, or under gVisor on [`AGENT_PORT`](super::AGENT_PORT).
    pub init_args: Option<Vec<String>>,
}

impl ContainerConfig {
    /// The default settings for a state folder, an image and an agent.
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
