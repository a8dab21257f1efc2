//! Forged source addresses in network namespaces of a test, on a host whose settings weaken the reverse path filter.

use std::net::UdpSocket;

use super::namespace_tests::{LAN, LONG, Namespace, Network, SLOT};
use super::*;
use crate::host::command::run;

/// Sends ARP requests for a gateway from many senders (arguments: interface, own address, gateway), and then an honest one, whose
/// answer shows that the host has handled the others. The last argument is how the frames are sent: a packet socket, or the
/// device of a tap, whose neighbours it prints: they go when it closes the device.
const FORGE_ARP: &str = "
import fcntl, socket, struct, subprocess, sys
name, own, gateway, way = sys.argv[1:]
if way == 'tap':
    wire = open('/dev/net/tun', 'r+b', buffering=0)
    fcntl.ioctl(wire, 0x400454ca, struct.pack('16sH22x', name.encode(), 0x1002))
    mac, send, receive = bytes.fromhex('02000000aaaa'), wire.write, lambda: wire.read(2048)
else:
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
    wire.bind((name, 0x0806))
    mac, send, receive = wire.getsockname()[4], wire.send, lambda: wire.recv(2048)
def arp(operation, sender, target):
    head = struct.pack('!HHBBH', 1, 0x800, 6, 4, operation)
    send(b'\\xff' * 6 + mac + b'\\x08\\x06' + head + mac + sender + b'\\xff' * 6 + target)
gateway = socket.inet_aton(gateway)
for number in range(500):
    sender = socket.inet_aton(f'198.19.{number >> 8}.{number & 255}')
    for operation in 1, 2:
        arp(operation, sender, gateway)
        arp(operation, sender, sender)
arp(1, socket.inet_aton(own), gateway)
while True:
    frame = receive()
    if frame[12:14] == b'\\x08\\x06' and frame[21] == 2 and frame[28:32] == gateway:
        break
subprocess.run(['ip', '-4', 'neighbour', 'show', 'nud', 'all', 'dev', name])
";

/// Sends the requests from a namespace. Returns the neighbours of the interface in that namespace; `None` where the test cannot.
pub(crate) fn forge_arp(namespace: &Namespace, arguments: [String; 4]) -> Option<Vec<String>> {
    let sent = namespace.run(move || {
        let mut python = tool("python3");
        python.args(["-c", FORGE_ARP]).args(arguments);
        run_with_timeout("forge requests", &mut python, None, LONG)
    });
    match sent {
        Ok((status, listed, complaint)) => {
            assert!(status.success(), "{complaint}");
            Some(addresses(&listed))
        }
        Err(error) => {
            hotdesk_capability::Capability::Python.skip(format_args!("python3: {error}"));
            None
        }
    }
}

/// The addresses in a list of neighbours. The kernel's own entries for broadcasts are no neighbours.
fn addresses(listed: &str) -> Vec<String> {
    let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    listed.lines().filter(|line| !line.contains("NOARP")).map(first).collect()
}

#[test]
fn t3_a_guest_uses_no_address_of_another_one() {
    let Some(network) = Network::new() else { return };
    let Some(other) = Namespace::new() else { return };
    let Network { host, guest, world, .. } = &network;
    // The strictest of both settings would apply, and 2 is taken for stricter: each source that has any route passes.
    host.set("conf/all/rp_filter", "2");
    network.attach_guest();
    let (folder, thread) = (network.folder.path().to_owned(), other.thread);
    let attached =
        host.run(move || attach_in(&folder, &NetworkConfig::default(), SLOT + 1, None, thread)).unwrap();
    let stolen = attached.guest;
    let receiver = world.run(|| UdpSocket::bind("198.51.100.2:7071").unwrap());
    receiver.set_read_timeout(Some(LONG)).unwrap();
    guest.ip(format!("address add {stolen}/32 dev lo\n"));
    guest.run(move || {
        for (source, text) in [(stolen, "forged"), (Ipv4Addr::UNSPECIFIED, "honest")] {
            let socket = UdpSocket::bind((source, 0)).unwrap();
            socket.send_to(text.as_bytes(), "198.51.100.2:7071").unwrap();
        }
    });
    let mut bytes = [0; 16];
    let length = receiver.recv(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"honest", "the forged one was sent before");
    // The other guest still has its address.
    other.run(|| UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"other", "198.51.100.2:7071").unwrap());
    let length = receiver.recv(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"other");
}

#[test]
fn t3_forged_requests_fill_no_table_of_neighbours() {
    let Some(network) = Network::new() else { return };
    network.host.set("conf/all/rp_filter", "2");
    let ends = network.attach_guest();
    let arguments = ["eth0".to_owned(), ends.guest.to_string(), ends.host.to_string(), "socket".to_owned()];
    if forge_arp(&network.guest, arguments).is_some() {
        let listed = network.host.run(|| {
            let mut ip = tool("ip");
            ip.args(["-4", "neighbour", "show", "nud", "all", "dev", &veth(SLOT)]);
            run("list the neighbours", ip).unwrap()
        });
        assert_eq!(addresses(&listed), [ends.guest.to_string()]);
    }
    // The way to a network of the host stays open: no entry of it was displaced.
    network.host.run(|| UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"x", LAN).unwrap());
}
