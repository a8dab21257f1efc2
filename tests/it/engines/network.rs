//! Network access of guests: public addresses only.
//!
//! T2 and T3 (docs/security.md). Guests reach neither the host nor neighbours nor private networks.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::process::Command;
use std::time::Duration;

use hotdesk::engine::{NetworkConfig, Observation};

use super::conformance::{EngineFixture, machine_spec};
use super::guest::Guest;
use super::host::ContainerFixture;
use crate::harness::network::TestNetwork;

const PORT: u16 = 8080;

/// Whether a guest can connect.
async fn can_reach(guest: &Guest, address: impl Into<IpAddr>, port: u16) -> bool {
    let to = SocketAddr::new(address.into(), port);
    let script = format!(
        "python3 -c 'import socket; socket.create_connection((\"{}\", {}), 3)' >/dev/null 2>&1",
        to.ip(),
        to.port()
    );
    guest.sh(&script).await.code == 0
}

async fn address_of(fixture: &ContainerFixture, id: hotdesk::base::ids::ComputerId) -> Ipv4Addr {
    let observed = fixture.engine.observe(id).await.expect("an observation");
    let Observation::Running { address: Some(IpAddr::V4(address)), .. } = observed else {
        panic!("expected an address, observed {observed:?}");
    };
    address
}

/// Starts a server on a port of a guest.
async fn start_server(guest: &Guest, port: u16) {
    guest.run(&format!("setsid python3 -m http.server {port} >/dev/null 2>&1 & ")).await;
    for _ in 0..100 {
        if can_reach(guest, Ipv4Addr::LOCALHOST, port).await {
            return;
        }
    }
    panic!("the guest's own server must answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_reaches_the_world_under_the_host_s_address_and_nobody_reaches_it() {
    let Some(fixture) = ContainerFixture::with_network() else { return };
    let test_network = TestNetwork::new();
    let permissive = test_network.listens(test_network.public, PORT);
    let _private = test_network.listens(test_network.private, PORT);
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    fixture.remember_interface(id).await;
    assert!(can_reach(&guest, test_network.public, PORT).await, "the public address");
    let (_, from) = permissive.accept().expect("a connection");
    assert_eq!(from.ip(), IpAddr::V4(test_network.host_side), "masqueraded");
    assert!(!can_reach(&guest, test_network.private, PORT).await, "a private address");

    let address = address_of(&fixture, id).await;
    start_server(&guest, PORT).await;
    assert!(can_reach(&guest, address, PORT).await, "itself");
    let into = SocketAddr::from((address, PORT));
    let connection = test_network.inside(|| TcpStream::connect_timeout(&into, Duration::from_secs(1)));
    assert!(connection.is_err(), "the public network must not reach the guest");

    fixture.engine.destroy(id).await.expect("destroyed");
    fixture.expect_removed(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_reaches_no_address_of_its_host() {
    let Some(fixture) = ContainerFixture::with_network() else { return };
    let test_network = TestNetwork::new();
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    let listener = TcpListener::bind("0.0.0.0:0").expect("a listener on the host");
    let port = listener.local_addr().expect("an address").port();
    let gateway = Ipv4Addr::from_bits(address_of(&fixture, id).await.to_bits() - 1);
    let own = Command::new("ip").args(["-4", "-o", "addr"]).output().expect("addresses");
    let own = String::from_utf8_lossy(&own.stdout).into_owned();
    let uplinks = own.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (name, address) = (words.next()?, words.nth(1)?);
        name.starts_with("eth").then(|| address.split('/').next()?.parse::<Ipv4Addr>().ok())?
    });
    for address in [gateway, test_network.host_side].into_iter().chain(uplinks) {
        assert!(TcpStream::connect((address, port)).is_ok(), "the host itself must reach {address}");
        assert!(!can_reach(&guest, address, port).await, "{address}");
    }
    assert!(!can_reach(&guest, Ipv4Addr::LOCALHOST, port).await, "the guest must have its own loopback");
    assert!(!can_reach(&guest, Ipv4Addr::new(169, 254, 169, 254), 80).await, "metadata");

    let name = format!("hotdesk-test-{}", uuid::Uuid::new_v4());
    let hidden = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("a name");
    let _hidden = std::os::unix::net::UnixListener::bind_addr(&hidden).expect("an abstract socket");
    let script = format!("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{name}\")'");
    assert!(guest.run_failing(&script).await.contains("refused"));
}

/// Sends to 4,000 link-local addresses, more than the neighbours that a kernel remembers, and prints how many were
/// accepted.
const FLOOD: &str = r#"python3 -c '
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
sent = 0
for number in range(1, 4001):
    try:
        s.sendto(b"x", (f"fe80::{number:x}", 9, 0, socket.if_nametoindex("eth0")))
        sent += 1
    except OSError:
        pass
print(sent)'"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_cannot_fill_the_kernel_s_table_of_neighbours() {
    let Some(fixture) = ContainerFixture::with_network() else { return };
    let (_, _, guest) = fixture.start_machine(machine_spec()).await;
    let addresses = guest.run("cat /proc/net/if_inet6").await;
    assert!(!addresses.contains("eth0"), "{addresses}");
    assert_eq!(guest.run(FLOOD).await, "0");
    let own =
        guest.run("python3 -c 'import socket; socket.socket(socket.AF_INET6).bind((\"::1\", 0))'").await;
    assert_eq!(own, "", "its own loopback");
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_do_not_reach_each_other() {
    let Some(fixture) = ContainerFixture::with_network() else { return };
    let (_, one, first) = fixture.start_machine(machine_spec()).await;
    let (_, other, second) = fixture.start_machine(machine_spec()).await;
    start_server(&first, PORT).await;
    let (one, other) = (address_of(&fixture, one).await, address_of(&fixture, other).await);
    assert_ne!(one, other);
    assert!(can_reach(&first, one, PORT).await, "itself");
    assert!(!can_reach(&second, one, PORT).await, "the neighbour");
    assert!(second.run("ls /sys/class/net").await.lines().eq(["eth0", "lo"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn private_networks_are_reached_when_the_operator_says_so_and_name_servers_always() {
    let test_network = TestNetwork::new();
    let network = NetworkConfig { resolvers: vec![test_network.private], ..NetworkConfig::default() };
    let Some(strict) = ContainerFixture::with_network_config(network.clone()) else { return };
    let Some(permissive) =
        ContainerFixture::with_network_config(NetworkConfig { allow_private_egress: true, ..network })
    else {
        return;
    };
    let _service = test_network.listens(test_network.private, PORT);
    let _names = test_network.listens(test_network.private, 53);

    let (_, id, trusted_guest) = permissive.start_machine(machine_spec()).await;
    assert!(can_reach(&trusted_guest, test_network.private, PORT).await, "allowed");
    let name = permissive.remember_interface(id).await;
    let (_, _, guest) = strict.start_machine(machine_spec()).await;
    assert!(can_reach(&guest, test_network.private, 53).await, "the name server");
    assert!(!can_reach(&guest, test_network.private, PORT).await, "another port of that host");
    assert_eq!(guest.run("cat /etc/resolv.conf").await, format!("nameserver {}", test_network.private));
    assert!(
        can_reach(&trusted_guest, test_network.private, PORT).await,
        "the other controller's rules must remain"
    );
    permissive.engine.destroy(id).await.expect("destroyed");
    assert!(name.starts_with("hotdesk"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_without_a_network_has_only_its_loopback() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    assert_eq!(guest.run("ls /sys/class/net").await, "lo");
    start_server(&guest, PORT).await;
    assert!(matches!(
        fixture.engine.observe(id).await.expect("an observation"),
        Observation::Running { address: None, .. }
    ));
}
