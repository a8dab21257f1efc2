//! Addresses and user ids of machines, by slot. Plain data; nothing here touches the host.

use std::net::Ipv4Addr;

/// Most machines that can run on one host at once. The user-id ranges of 16384 machines end below 2^31, above
/// which some programs reject user ids; a /16 holds as many networks of four addresses.
pub const MAX_SLOTS: u16 = 16384;

/// User and group ids of one machine; the guest sees them numbered from 0.
pub const IDS_PER_MACHINE: u32 = 65536;

/// Network settings of guests.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// Whether guests have a network beyond loopback.
    pub enabled: bool,
    /// The subnet of the guests' addresses, four per machine.
    pub subnet: Subnet,
    /// Whether guests may reach private, link-local and other special addresses beyond this host.
    pub allow_private_egress: bool,
    /// Name servers of guests; empty uses the host's that are not loopback.
    pub resolvers: Vec<Ipv4Addr>,
    /// The user that connects to agents besides root.
    pub client: Option<AgentClient>,
}

/// The user of a controller without privileges. Agents accept its connections, and the host helper its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentClient {
    /// Its user id; never root's.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
}

/// An IPv4 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Its first address.
    pub base: Ipv4Addr,
    /// The number of leading bits that are fixed, 8 to 30.
    pub prefix: u8,
}

/// A text that is not a subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSubnet(String);

impl std::fmt::Display for InvalidSubnet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} is not an IPv4 network such as 10.213.0.0/16, of /8 to /30", self.0)
    }
}

impl std::error::Error for InvalidSubnet {}

impl std::str::FromStr for Subnet {
    type Err = InvalidSubnet;

    fn from_str(text: &str) -> Result<Self, InvalidSubnet> {
        let invalid = || InvalidSubnet(text.to_owned());
        let (base, prefix) = text.split_once('/').ok_or_else(invalid)?;
        let base: Ipv4Addr = base.parse().map_err(|_| invalid())?;
        let prefix: u8 = prefix.parse().map_err(|_| invalid())?;
        if !(8..=30).contains(&prefix) || base.to_bits() << prefix != 0 {
            return Err(invalid());
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
    /// No network: guests have only loopback.
    pub fn disabled() -> Self {
        Self { enabled: false, ..Self::default() }
    }

    /// The number of machines that the subnet and the id range hold.
    pub fn slots(&self) -> u16 {
        let networks = 1_u32 << (30 - u32::from(self.subnet.prefix));
        u16::try_from(networks).map_or(MAX_SLOTS, |networks| networks.min(MAX_SLOTS))
    }

    /// The slot whose guest has an address; `None` for any other address.
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
            client: None,
        }
    }
}

/// The first host user id of the machine in a slot; `base` is that of slot 0.
pub fn host_ids(base: u32, slot: u16) -> u32 {
    base + u32::from(slot) * IDS_PER_MACHINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_have_a_base_address_and_8_to_30_bits() {
        for good in ["10.213.0.0/16", "192.168.4.0/24", "10.0.0.0/8", "10.0.0.4/30"] {
            assert!(good.parse::<Subnet>().is_ok(), "{good}");
        }
        for bad in ["", "10.213.0.0", "10.213.0.1/16", "10.0.0.0/31", "10.0.0.0/7", "::/16", "10.0.0.0/x"] {
            assert!(bad.parse::<Subnet>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn slots_never_share_addresses_or_ids() {
        let network = NetworkConfig::default();
        assert_eq!(network.slots(), MAX_SLOTS);
        assert_eq!(network.addresses(0).guest, Ipv4Addr::new(10, 213, 0, 2));
        assert_eq!(network.addresses(1).host, Ipv4Addr::new(10, 213, 0, 5));
        assert_eq!(network.slot_of(network.addresses(7).guest), Some(7));
        assert_eq!(network.slot_of(network.addresses(7).host), None);
        assert_eq!(network.addresses(MAX_SLOTS - 1).guest, Ipv4Addr::new(10, 213, 255, 254));
        assert_eq!(host_ids(1_000_000, 1) - host_ids(1_000_000, 0), IDS_PER_MACHINE);
        assert!(host_ids(1_000_000, MAX_SLOTS - 1) < 1 << 31);
        let small = NetworkConfig { subnet: "10.9.0.0/24".parse().unwrap(), ..NetworkConfig::default() };
        assert_eq!(small.slots(), 64);
    }
}
