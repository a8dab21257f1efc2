//! What does a guest reach? The world, and neither its host nor its neighbours nor private networks (threats.md T2, T3).
//!
//! The world of these tests is a network namespace of their own, behind a veth pair, with a documentation address
//! (RFC 5737) that counts as public and a private one.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::process::Command;
use std::time::Duration;

use hotdesk::engine::container::NetworkConfig;
use hotdesk::engine::{Engine, Observation};
use nix::sched::{CloneFlags, setns};

use super::conformance::{Bench, a_machine};
use super::guest::Guest;
use super::host::Containers;

const PORT: u16 = 8080;

/// A world beyond the host.
struct World {
    name: String,
    veth: String,
    /// The host's address towards it.
    host_side: Ipv4Addr,
    public: Ipv4Addr,
    private: Ipv4Addr,
}

fn host(program: &str, args: &str) {
    let output = Command::new(program).args(args.split_whitespace()).output().expect("a tool");
    assert!(output.status.success(), "{program} {args}: {}", String::from_utf8_lossy(&output.stderr));
}

impl World {
    fn new() -> Self {
        let id: u8 = rand::random::<u8>() % 64;
        let name = format!("hdworld{}", uuid::Uuid::new_v4().simple());
        let veth = format!("hdw{}", &name[7..15]);
        let world = Self {
            host_side: Ipv4Addr::new(198, 51, 100, id * 4 + 1),
            public: Ipv4Addr::new(198, 51, 100, id * 4 + 2),
            private: Ipv4Addr::new(10, 99, id, 1),
            name,
            veth,
        };
        let Self { name, veth, host_side, public, private } = &world;
        host("ip", &format!("netns add {name}"));
        host("ip", &format!("link add {veth} type veth peer name world0 netns {name}"));
        host("ip", &format!("addr add {host_side}/30 dev {veth}"));
        host("ip", &format!("link set {veth} up"));
        host("ip", &format!("-n {name} link set lo up"));
        host("ip", &format!("-n {name} addr add {public}/30 dev world0"));
        host("ip", &format!("-n {name} addr add {private}/32 dev lo"));
        host("ip", &format!("-n {name} link set world0 up"));
        host("ip", &format!("-n {name} route add default via {host_side}"));
        host("ip", &format!("route add {private}/32 via {public}"));
        world
    }

    /// Does something inside the world.
    fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.name)).expect("the namespace");
        let entered = std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                setns(namespace, CloneFlags::CLONE_NEWNET).expect("entered");
                act()
            });
            there.join()
        });
        entered.expect("no panic inside")
    }

    fn listens(&self, address: Ipv4Addr, port: u16) -> TcpListener {
        self.inside(|| TcpListener::bind((address, port)).expect("a listener in the world"))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        host("ip", &format!("link del {}", self.veth));
        host("ip", &format!("netns del {}", self.name));
    }
}

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
