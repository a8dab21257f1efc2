//! What does an operator say to the container engine? Plain data; nothing here touches the host.

use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Largest number of machines that can run on one host at once: the user-id ranges of 16384 machines end below 2^31,
/// where some programs stop believing in user ids, and a /16 holds as many networks of four addresses.
pub const MAX_SLOTS: u16 = 16384;

/// User and group ids of one machine, in the guest numbered from 0.
pub const IDS_PER_MACHINE: u32 = 65536;

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

/// A bound on what a guest reads from its disk, and the same on what it writes there; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSpeed {
    /// Megabytes (10^6 bytes) a second; 0 is without a bound.
    pub mb_per_second: u32,
    /// Operations a second; 0 is without a bound.
    pub ops_per_second: u32,
}

/// How guests reach the world.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// Whether a guest has more than its own loopback.
    pub enabled: bool,
    /// Where the guests' addresses come from, four per machine.
    pub subnet: Subnet,
    /// Whether guests may reach private, link-local and other special addresses beyond this host.
    pub allow_private_egress: bool,
    /// The name servers that guests are told of; empty takes the host's own that are not loopback.
    pub resolvers: Vec<Ipv4Addr>,
}

/// An IPv4 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Its first address.
    pub base: Ipv4Addr,
    /// How many leading bits are fixed.
    pub prefix: u8,
}

impl std::str::FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not an IPv4 network such as 10.213.0.0/16, of /8 to /30");
        let (base, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let base: Ipv4Addr = base.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
        if !(8..=30).contains(&prefix) || base.to_bits() << prefix != 0 {
            return Err(wrong());
        }
        Ok(Self { base, prefix })
    }
}

/// The two ends of one machine's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The host's end: the guest's gateway.
    pub host: Ipv4Addr,
    /// The guest's end.
    pub guest: Ipv4Addr,
}

impl NetworkConfig {
    /// Lonely machines: only loopback.
    pub fn disabled() -> Self {
        Self { enabled: false, ..Self::default() }
    }

    /// How many machines the subnet and the id range hold.
    pub fn slots(&self) -> u16 {
        let networks = 1_u32 << (30 - u32::from(self.subnet.prefix));
        u16::try_from(networks).map_or(MAX_SLOTS, |networks| networks.min(MAX_SLOTS))
    }

    /// The slot whose guest has an address, if one has.
    pub fn slot_of(&self, guest: Ipv4Addr) -> Option<u16> {
        let at = guest.to_bits().checked_sub(self.subnet.base.to_bits())?;
        let slot = u16::try_from(at / 4).ok()?;
        (slot < self.slots() && self.addresses(slot).guest == guest).then_some(slot)
    }

    /// The /30 of a slot.
    pub fn addresses(&self, slot: u16) -> Addresses {
        let first = self.subnet.base.to_bits() + 4 * u32::from(slot);
        Addresses { host: Ipv4Addr::from_bits(first + 1), guest: Ipv4Addr::from_bits(first + 2) }
    }
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            subnet: Subnet { base: Ipv4Addr::new(10, 213, 0, 0), prefix: 16 },
            allow_private_egress: false,
            resolvers: Vec::new(),
        }
    }
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
        self.uid_base + u32::from(slot) * IDS_PER_MACHINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_parse_or_say_why_not() {
        for good in ["10.213.0.0/16", "192.168.4.0/24", "10.0.0.0/8", "10.0.0.4/30"] {
            assert!(good.parse::<Subnet>().is_ok(), "{good}");
        }
        for bad in ["", "10.213.0.0", "10.213.0.1/16", "10.0.0.0/31", "10.0.0.0/7", "::/16", "10.0.0.0/x"] {
            assert!(bad.parse::<Subnet>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn slots_never_share_addresses_or_ids() {
        let config = ContainerConfig::new("/s", "/i", "/a");
        let network = &config.network;
        assert_eq!(network.slots(), MAX_SLOTS);
        assert_eq!(network.addresses(0).guest, Ipv4Addr::new(10, 213, 0, 2));
        assert_eq!(network.addresses(1).host, Ipv4Addr::new(10, 213, 0, 5));
        assert_eq!(network.slot_of(network.addresses(7).guest), Some(7));
        assert_eq!(network.slot_of(network.addresses(7).host), None);
        assert_eq!(network.addresses(MAX_SLOTS - 1).guest, Ipv4Addr::new(10, 213, 255, 254));
        assert_eq!(config.host_ids(1) - config.host_ids(0), IDS_PER_MACHINE);
        assert!(config.host_ids(MAX_SLOTS - 1) < 1 << 31);
        let small = NetworkConfig { subnet: "10.9.0.0/24".parse().unwrap(), ..NetworkConfig::default() };
        assert_eq!(small.slots(), 64);
    }
}
