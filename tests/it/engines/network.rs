//! What does a guest reach? The world, and neither its host nor its neighbours nor private networks (threats.md T2, T3).

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::process::Command;
use std::time::Duration;

use hotdesk::engine::container::NetworkConfig;
use hotdesk::engine::{Engine, Observation};

use super::conformance::{Bench, a_machine};
use super::guest::Guest;
use super::host::Containers;
use crate::harness::world::World;

const PORT: u16 = 8080;

/// Whether a guest's connection is accepted.
async fn reaches(guest: &Guest, address: impl Into<IpAddr>, port: u16) -> bool {
    let to = SocketAddr::new(address.into(), port);
    let script = format!(
        "python3 -c 'import socket; socket.create_connection((\"{}\", {}), 3)' >/dev/null 2>&1",
        to.ip(),
        to.port()
    );
    guest.sh(&script).await.code == 0
}

async fn address_of(bench: &Containers, id: hotdesk::base::ids::ComputerId) -> Ipv4Addr {
    let seen = bench.engine.observe(id).await.expect("seen");
    let Observation::Running { address: Some(IpAddr::V4(address)), .. } = seen else {
        panic!("an address expected, {seen:?} seen");
    };
    address
}

/// Lets a guest listen on a port.
async fn serves(guest: &Guest, port: u16) {
    guest.says(&format!("setsid python3 -m http.server {port} >/dev/null 2>&1 & ")).await;
    for _ in 0..100 {
        if reaches(guest, Ipv4Addr::LOCALHOST, port).await {
            return;
        }
    }
    panic!("the guest's own server does not answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_reaches_the_world_under_the_host_s_address_and_nobody_reaches_it() {
    let Some(bench) = Containers::networked() else { return };
    let world = World::new();
    let open = world.listens(world.public, PORT);
    let _private = world.listens(world.private, PORT);
    let (_, id, guest) = bench.running(a_machine()).await;
    bench.remember_interface(id).await;
    assert!(reaches(&guest, world.public, PORT).await, "the world");
    let (_, from) = open.accept().expect("a connection");
    assert_eq!(from.ip(), IpAddr::V4(world.host_side), "masqueraded");
    assert!(!reaches(&guest, world.private, PORT).await, "a private address");

    let address = address_of(&bench, id).await;
    serves(&guest, PORT).await;
    assert!(reaches(&guest, address, PORT).await, "itself");
    let into = SocketAddr::from((address, PORT));
    let reached = world.inside(|| TcpStream::connect_timeout(&into, Duration::from_secs(1)));
    assert!(reached.is_err(), "the world reaches the guest");

    bench.engine.destroy(id).await.expect("destroyed");
    bench.nothing_is_left_of(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_reaches_no_address_of_its_host() {
    let Some(bench) = Containers::networked() else { return };
    let world = World::new();
    let (_, id, guest) = bench.running(a_machine()).await;
    let listener = TcpListener::bind("0.0.0.0:0").expect("a listener on the host");
    let port = listener.local_addr().expect("its address").port();
    let gateway = Ipv4Addr::from_bits(address_of(&bench, id).await.to_bits() - 1);
    let own = Command::new("ip").args(["-4", "-o", "addr"]).output().expect("addresses");
    let own = String::from_utf8_lossy(&own.stdout).into_owned();
    let uplinks = own.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (name, address) = (words.next()?, words.nth(1)?);
        name.starts_with("eth").then(|| address.split('/').next()?.parse::<Ipv4Addr>().ok())?
    });
    for address in [gateway, world.host_side].into_iter().chain(uplinks) {
        assert!(TcpStream::connect((address, port)).is_ok(), "the host itself reaches {address}");
        assert!(!reaches(&guest, address, port).await, "{address}");
    }
    assert!(!reaches(&guest, Ipv4Addr::LOCALHOST, port).await, "the guest's loopback is its own");
    assert!(!reaches(&guest, Ipv4Addr::new(169, 254, 169, 254), 80).await, "metadata");

    let name = format!("hotdesk-test-{}", uuid::Uuid::new_v4());
    let hidden = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("a name");
    let _hidden = std::os::unix::net::UnixListener::bind_addr(&hidden).expect("an abstract socket");
    let script = format!("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{name}\")'");
    assert!(guest.refuses(&script).await.contains("refused"));
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_do_not_reach_each_other() {
    let Some(bench) = Containers::networked() else { return };
    let (_, one, first) = bench.running(a_machine()).await;
    let (_, other, second) = bench.running(a_machine()).await;
    serves(&first, PORT).await;
    let (one, other) = (address_of(&bench, one).await, address_of(&bench, other).await);
    assert_ne!(one, other);
    assert!(reaches(&first, one, PORT).await, "itself");
    assert!(!reaches(&second, one, PORT).await, "its neighbour");
    assert!(second.says("ls /sys/class/net").await.lines().eq(["eth0", "lo"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn private_networks_are_reached_when_the_operator_says_so_and_name_servers_always() {
    let world = World::new();
    let network = NetworkConfig { resolvers: vec![world.private], ..NetworkConfig::default() };
    let Some(strict) = Containers::with(network.clone()) else { return };
    let Some(open) = Containers::with(NetworkConfig { allow_private_egress: true, ..network }) else {
        return;
    };
    let _service = world.listens(world.private, PORT);
    let _names = world.listens(world.private, 53);

    let (_, id, trusted) = open.running(a_machine()).await;
    assert!(reaches(&trusted, world.private, PORT).await, "allowed");
    let name = open.remember_interface(id).await;
    let (_, _, guest) = strict.running(a_machine()).await;
    assert!(reaches(&guest, world.private, 53).await, "its name server");
    assert!(!reaches(&guest, world.private, PORT).await, "anything else of that host");
    assert_eq!(guest.says("cat /etc/resolv.conf").await, format!("nameserver {}", world.private));
    assert!(reaches(&trusted, world.private, PORT).await, "the other controller's rules stand");
    open.engine.destroy(id).await.expect("destroyed");
    assert!(name.starts_with("hotdesk"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_without_a_network_has_only_its_loopback() {
    let Some(bench) = Containers::lonely() else { return };
    let (_, id, guest) = bench.running(a_machine()).await;
    assert_eq!(guest.says("ls /sys/class/net").await, "lo");
    serves(&guest, PORT).await;
    assert!(matches!(
        bench.engine.observe(id).await.expect("seen"),
        Observation::Running { address: None, .. }
    ));
}
