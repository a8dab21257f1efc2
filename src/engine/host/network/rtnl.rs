//! Links, addresses and routes of a network namespace, by rtnetlink(7): a call of some microseconds instead of a process.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::thread;

use ipnet::Ipv4Net;
use netlink_packet_core::{
    DecodeError, Emitable, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST,
    NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable, Parseable,
};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags,
    LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteType,
};
use nix::libc::{RTM_DELLINK, RTM_GETROUTE, RTM_NEWADDR, RTM_NEWLINK, RTM_NEWROUTE, RTM_SETLINK};
use nix::sched::{CloneFlags, setns};
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send, socket_with};

use crate::host::command::TIMEOUT;
use crate::host::network::uplinks::Route;

/// Bytes of a buffer for answers. The kernel fills at most 32 KiB at a time.
const BUFFER_BYTES: usize = 64 * 1024;
/// Messages begin at multiples of this number of bytes (netlink(7), `NLMSG_ALIGNTO`).
const ALIGNMENT: usize = 4;

/// A socket for the links, addresses and routes of one network namespace.
pub(super) struct Rtnl {
    socket: OwnedFd,
    /// Number of the last request, which its answers repeat.
    sequence: u32,
}

impl Rtnl {
    /// Opens a socket for this thread's namespace.
    pub(super) fn open() -> io::Result<Self> {
        // The protocol of number 0 is NETLINK_ROUTE.
        let family = rustix::net::AddressFamily::NETLINK;
        let socket = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(TIMEOUT))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Opens a socket for the namespace of a process or thread.
    pub(super) fn open_in(pid: u32) -> io::Result<Self> {
        let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
        // On a thread that ends in that namespace.
        thread::scope(|scope| {
            let inside = thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, || {
                setns(namespace, CloneFlags::CLONE_NEWNET)?;
                Self::open()
            })?;
            inside.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
        })
    }

    /// Makes a pair of interfaces: `name` here, and `peer` in the namespace of a process or thread.
    pub(super) fn add_pair(&mut self, name: &str, peer: &str, pid: u32) -> io::Result<()> {
        let mut other = LinkMessage::default();
        other.attributes = vec![LinkAttribute::IfName(peer.to_owned()), LinkAttribute::NetNsPid(pid)];
        let data = LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other)));
        let info = LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth), data]);
        let mut pair = LinkMessage::default();
        pair.attributes = vec![LinkAttribute::IfName(name.to_owned()), info];
        self.request(RTM_NEWLINK, pair, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Removes an interface, and with it the other end of its pair.
    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.attributes = vec![LinkAttribute::IfName(name.to_owned())];
        self.request(RTM_DELLINK, link, 0)
    }

    /// The number of an interface.
    pub(super) fn index(&self, name: &str) -> io::Result<u32> {
        Ok(netdevice::name_to_index(&self.socket, name)?)
    }

    /// Sets an interface up.
    pub(super) fn set_up(&mut self, index: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        (link.header.flags, link.header.change_mask) = (LinkFlags::Up, LinkFlags::Up);
        self.request(RTM_SETLINK, link, 0)
    }

    /// Makes the kernel give an interface no IPv6 address when it is set up.
    pub(super) fn leave_without_ipv6(&mut self, index: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        let mode = AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(In6AddrGenMode::None)]);
        link.attributes = vec![LinkAttribute::AfSpecUnspec(vec![mode])];
        self.request(RTM_SETLINK, link, 0)
    }

    /// Gives an interface an address, in a network with this number of fixed bits.
    pub(super) fn add_address(&mut self, index: u32, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        (message.header.prefix_len, message.header.index) = (prefix, index);
        let address = IpAddr::V4(address);
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        self.request(RTM_NEWADDR, message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a route to all networks.
    pub(super) fn add_default_route(&mut self, gateway: Ipv4Addr) -> io::Result<()> {
        let mut route = RouteMessage::default();
        route.header.address_family = AddressFamily::Inet;
        route.header.table = RouteHeader::RT_TABLE_MAIN;
        route.header.protocol = RouteProtocol::Boot;
        route.header.kind = RouteType::Unicast;
        route.attributes = vec![RouteAttribute::Gateway(RouteAddress::Inet(gateway))];
        self.request(RTM_NEWROUTE, route, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// The routes for IPv4 by which packets leave, of all tables.
    pub(super) fn routes(&mut self) -> io::Result<Vec<Route>> {
        let mut all = RouteMessage::default();
        all.header.address_family = AddressFamily::Inet;
        self.send(RTM_GETROUTE, all, NLM_F_DUMP)?;
        let mut routes = Vec::new();
        self.receive(|message| {
            // An interface that is gone meanwhile has no name.
            routes.extend(to_route(&message, |index| netdevice::index_to_name(&self.socket, index).ok()));
        })?;
        Ok(routes)
    }

    /// Sends a request and waits until it is done.
    fn request(&mut self, kind: u16, message: impl Emitable, flags: u16) -> io::Result<()> {
        self.send(kind, message, flags | NLM_F_ACK)?;
        self.receive(drop)
    }

    fn send(&mut self, kind: u16, message: impl Emitable, flags: u16) -> io::Result<()> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        (header.flags, header.sequence_number) = (flags | NLM_F_REQUEST, self.sequence);
        let mut message =
            NetlinkMessage::new(header, NetlinkPayload::InnerMessage(RtnlRequest { kind, message }));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        send(&self.socket, &bytes, SendFlags::empty())?;
        Ok(())
    }

    /// Reads the answer to the last request, and passes its routes on.
    fn receive(&self, mut route: impl FnMut(RouteMessage)) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let length = retry_on_intr(|| {
                recv(&self.socket, buffer.as_mut_slice(), RecvFlags::empty()).map(|(_, length)| length)
            })?;
            let mut rest = buffer.get(..length).unwrap_or_default();
            while !rest.is_empty() {
                let answer = NetlinkMessage::deserialize(rest).map_err(io::Error::other)?;
                let taken = (answer.header.length as usize).max(1).next_multiple_of(ALIGNMENT);
                rest = rest.get(taken..).unwrap_or_default();
                if answer.header.sequence_number != self.sequence {
                    continue;
                }
                #[allow(clippy::wildcard_enum_match_arm)] // the crate's list is open
                match answer.payload {
                    NetlinkPayload::InnerMessage(RtnlAnswer::Route(message)) => route(message),
                    NetlinkPayload::Done(done) => return outcome(done.code),
                    NetlinkPayload::Error(error) => return outcome(error.code.map_or(0, Into::into)),
                    _ => {}
                }
            }
        }
    }
}

/// A request with its type, `RTM_...`. The list of all messages, `RouteNetlinkMessage`, would add much code for what
/// nobody sends and reads.
struct RtnlRequest<M> {
    kind: u16,
    message: M,
}

impl<M: Emitable> NetlinkSerializable for RtnlRequest<M> {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.message.buffer_len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        self.message.emit(buffer);
    }
}

/// A part of an answer.
enum RtnlAnswer {
    Route(RouteMessage),
    /// What no request here asks for.
    Other,
}

impl NetlinkDeserializable for RtnlAnswer {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        match header.message_type {
            RTM_NEWROUTE => RouteMessage::parse(payload).map(Self::Route),
            _ => Ok(Self::Other),
        }
    }
}

/// The outcome of a request: 0, or the negative number of an error.
fn outcome(code: i32) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) }
}

/// Converts a route; `None` for one that drops packets or leads to this host, and for what the kernel remembers of others.
fn to_route(message: &RouteMessage, name_of: impl Fn(u32) -> Option<String>) -> Option<Route> {
    let header = &message.header;
    if header.kind != RouteType::Unicast || header.flags.contains(RouteFlags::Cloned) {
        return None;
    }
    let (mut base, mut has_gateway, mut devices) = (Ipv4Addr::UNSPECIFIED, false, Vec::new());
    for attribute in &message.attributes {
        #[allow(clippy::wildcard_enum_match_arm)] // the kernel's list grows
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => base = *address,
            RouteAttribute::Gateway(_) | RouteAttribute::Via(_) => has_gateway = true,
            RouteAttribute::Oif(index) => devices.extend(name_of(*index)),
            RouteAttribute::MultiPath(ways) => {
                has_gateway = true;
                devices.extend(ways.iter().filter_map(|way| name_of(way.interface_index)));
            }
            _ => {}
        }
    }
    let network = Ipv4Net::new(base, header.destination_prefix_length).ok()?;
    Some(Route { network, has_gateway, devices })
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::route::RouteNextHop;

    use super::*;

    fn message(kind: RouteType, prefix: u8, attributes: Vec<RouteAttribute>) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header.kind = kind;
        message.header.destination_prefix_length = prefix;
        message.attributes = attributes;
        message
    }

    #[test]
    fn routes_have_a_network_a_gateway_and_interfaces() {
        let name_of = |index| ["lo", "eth0", "eth1"].get(index as usize).map(|name| (*name).to_owned());
        let address = |text: &str| RouteAddress::Inet(text.parse().unwrap());
        let way = |index| {
            let mut way = RouteNextHop::default();
            way.interface_index = index;
            way
        };
        let route = |network: &str, has_gateway, devices: &[&str]| {
            let devices = devices.iter().map(|name| (*name).to_owned()).collect();
            Some(Route { network: network.parse().unwrap(), has_gateway, devices })
        };
        let gateway = || RouteAttribute::Gateway(address("192.0.2.1"));
        let to = |text| RouteAttribute::Destination(address(text));
        let mut remembered = message(RouteType::Unicast, 0, vec![gateway(), RouteAttribute::Oif(1)]);
        remembered.header.flags = RouteFlags::Cloned;
        for (message, expected) in [
            (
                message(RouteType::Unicast, 0, vec![gateway(), RouteAttribute::Oif(1)]),
                route("0.0.0.0/0", true, &["eth0"]),
            ),
            (
                message(RouteType::Unicast, 24, vec![to("192.0.2.0"), RouteAttribute::Oif(2)]),
                route("192.0.2.0/24", false, &["eth1"]),
            ),
            // The interface with number 9 is gone.
            (
                message(
                    RouteType::Unicast,
                    8,
                    vec![to("10.0.0.0"), RouteAttribute::MultiPath(vec![way(1), way(9)])],
                ),
                route("10.0.0.0/8", true, &["eth0"]),
            ),
            (message(RouteType::Local, 32, vec![to("192.0.2.2"), RouteAttribute::Oif(1)]), None),
            (message(RouteType::BlackHole, 0, vec![]), None),
            (remembered, None),
        ] {
            assert_eq!(to_route(&message, name_of), expected, "{message:?}");
        }
    }
}
