//! Settings that every engine has.

use std::path::PathBuf;

use crate::NetworkConfig;
use crate::host::addresses;
use crate::state::disk::DiskSpeed;
use hotdesk_base::time::deadline::SharedDeadline;

/// First host user id of machines by default. It is above the accounts of Debian (login.defs ends at 60000)
/// and the start of its subuid ranges (100000).
const UID_BASE: u32 = 1_000_000;

/// Overcommit of disks by default: computers that store a tenth of their disks on average fill the host.
pub const DISK_OVERCOMMIT: u32 = 10;

/// Settings of an engine on this host, whichever engine it is.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// The folder that holds every machine of this controller. One controller at a time uses it.
    pub state_dir: PathBuf,
    /// The guest image: a folder with `rootfs/`.
    pub image: PathBuf,
    /// The executable that becomes the guest's `/usr/bin/hotdesk`.
    pub agent_binary: PathBuf,
    /// Network settings of guests.
    pub network: NetworkConfig,
    /// Speed limit of each guest's disk.
    pub disk_speed: DiskSpeed,
    /// Largest sum of all disks, as a multiple of the host's file system; 0 is unlimited.
    pub disk_overcommit: u32,
    /// Whether machines are to be encrypted; a check of the host then includes it.
    pub encrypts_machines: bool,
    /// First host user id of machines; each QEMU runs as the first id of its slot. It must be the same for
    /// all controllers of a host, and no account may lie above it.
    pub uid_base: u32,
    /// Command that guests run instead of `hotdesk init`, for images with their own agent. It answers on descriptor
    /// 3, or under gVisor and in virtual machines on [`AGENT_PORT`](crate::AGENT_PORT). In Incus instances without gVisor it
    /// listens on `/run/hotdesk/agent.sock`, and no argument has white space.
    pub init_args: Option<Vec<String>>,
    /// End of the lease of a controller that is one of several. The engine over Incus changes nothing afterwards.
    pub acts_until: SharedDeadline,
}

impl HostSettings {
    /// The default settings for a state folder, an image and an agent.
    pub fn new(
        state_dir: impl Into<PathBuf>,
        image: impl Into<PathBuf>,
        agent_binary: impl Into<PathBuf>,
    ) -> Self {
        Self {
            state_dir: state_dir.into(),
            image: image.into(),
            agent_binary: agent_binary.into(),
            network: NetworkConfig::default(),
            disk_speed: DiskSpeed::default(),
            disk_overcommit: DISK_OVERCOMMIT,
            encrypts_machines: false,
            uid_base: UID_BASE,
            init_args: None,
            acts_until: SharedDeadline::default(),
        }
    }

    /// The first host user id of the machine in a slot.
    pub(crate) fn host_ids(&self, slot: u16) -> u32 {
        addresses::host_ids(self.uid_base, slot)
    }
}
