//! Classification of IP addresses: public or not (T6, docs/security.md), and whose they are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Blocks that are not on the public Internet, as address and prefix length: the routable special-purpose
/// blocks of RFC 6890, the same as in `engine/host/network/rules.nft`.
const SPECIAL_V4: [([u8; 4], u32); 12] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// Block of IPv6 global unicast addresses (RFC 4291). Blocks with an embedded IPv4 address are excluded:
/// Teredo (RFC 4380) and 6to4 (RFC 3056).
const GLOBAL_V6: ([u16; 8], u32) = ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
const CARRIERS_V6: [([u16; 8], u32); 2] =
    [([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16)];

/// Whether an address is public. IPv4 addresses in IPv6 form (mapped, compatible, NAT64) never are, because
/// they have no legitimate use here.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            !SPECIAL_V4.iter().any(|(block, length)| v4_in(address, (*block).into(), *length))
        }
        IpAddr::V6(address) => {
            let within = |(block, length): &([u16; 8], u32)| v6_in(address, (*block).into(), *length);
            within(&GLOBAL_V6) && !CARRIERS_V6.iter().any(within)
        }
    }
}

/// The customer of an address, for limits: an IPv4 address, or the /64 network of an IPv6 address, which one
/// customer has whole (RFC 6177 section 2). `None` for this machine.
pub fn customer(address: IpAddr) -> Option<IpAddr> {
    match address.to_canonical() {
        address if address.is_loopback() => None,
        IpAddr::V4(address) => Some(IpAddr::V4(address)),
        IpAddr::V6(address) => {
            let mut parts = address.octets();
            parts[8..].fill(0);
            Some(IpAddr::V6(parts.into()))
        }
    }
}

fn v4_in(address: Ipv4Addr, block: Ipv4Addr, length: u32) -> bool {
    (address.to_bits() ^ block.to_bits()).leading_zeros() >= length
}

fn v6_in(address: Ipv6Addr, block: Ipv6Addr, length: u32) -> bool {
    (address.to_bits() ^ block.to_bits()).leading_zeros() >= length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_purpose_blocks_are_not_public() {
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2003::1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for special in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "239.1.2.3",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2002:7f00:1::",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(special.parse().unwrap()), "{special}");
        }
    }
}
