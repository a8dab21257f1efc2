//! Strangers with many addresses who take all connections: T12 (docs/security.md).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;

use hotdesk::engine::simulated::AgentBoot;
use nix::sched::{CloneFlags, unshare};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::capability::Capability;
use crate::harness::simulation::{Setup, Simulation, default_agent};

/// The server, strangers and a guest, each with an address of its own (RFC 5737).
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 100);
const STRANGERS: [Ipv4Addr; 5] = [
    Ipv4Addr::new(192, 0, 2, 1),
    Ipv4Addr::new(192, 0, 2, 2),
    Ipv4Addr::new(192, 0, 2, 3),
    Ipv4Addr::new(192, 0, 2, 4),
    Ipv4Addr::new(192, 0, 2, 5),
];
const GUEST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
/// Connections of one source (docs/security.md#t12-websocket-floods).
const OF_ONE_SOURCE: usize = 1024;
/// Open files for both ends of all connections.
const OPEN_FILES: u64 = 12_000;
/// The server closes an idle connection after 10 s, and a busy machine may need as long to open them all.
const TRIES: usize = 10;

async fn connect(from: IpAddr, to: SocketAddr) -> TcpStream {
    let socket = if from.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.expect("a socket");
    socket.bind((from, 0).into()).expect("an address of this namespace");
    socket.connect(to).await.expect("the kernel accepts a connection that the server may close")
}

/// The status of the answer to a request; `None` when the server closed the connection instead.
async fn status(from: impl Into<IpAddr>, to: SocketAddr, key: &str) -> Option<String> {
    let mut stream = connect(from.into(), to).await;
    let request = format!(
        "GET /api/workspaces HTTP/1.1\r\nHost: {to}\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    );
    let mut answer = Vec::new();
    let exchange = async {
        stream.write_all(request.as_bytes()).await?;
        stream.read_to_end(&mut answer).await
    };
    // A connection that is closed before the request arrives may also be reset.
    let _closed = exchange.await;
    String::from_utf8_lossy(&answer).get(9..12).map(str::to_owned)
}

async fn attack() {
    let setup = Setup { listen: SERVER.into(), ..Setup::default() };
    let agent = Arc::new(|_: &AgentBoot| default_agent());
    let controller = Simulation::boot_with_agent(agent, setup).await;
    let server: SocketAddr = controller.address().parse().expect("an address");
    let (key, ok) = (controller.key(), Some("200".to_owned()));
    assert_eq!(status(GUEST, server, key).await, ok, "the guest shows its key");
    assert_eq!(status(STRANGERS[4], server, "sk_live_wrong").await.as_deref(), Some("401"));
    for _ in 0..TRIES {
        let mut flood = Vec::new();
        for stranger in &STRANGERS[..4] {
            for _ in 0..OF_ONE_SOURCE {
                flood.push(connect((*stranger).into(), server).await);
            }
        }
        let is_full = status(STRANGERS[4], server, "sk_live_wrong").await.is_none();
        let answered = status(GUEST, server, key).await;
        let was_full = status(STRANGERS[4], server, "sk_live_wrong").await.is_none();
        if is_full && was_full {
            assert_eq!(answered, ok, "the guest has access while strangers have all other connections");
            return;
        }
    }
    panic!("the flood never took all connections within the time of idle ones");
}

/// The server, and clients of two IPv6 /64 networks (RFC 3849).
const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
const NEIGHBOUR_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 1, 0, 0, 0, 1);
/// Addresses of the network that floods.
const ADDRESSES: u16 = 8;

fn of_network(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 2, 0, number, 0, 0, 1)
}

async fn attack_from_a_network() {
    let setup = Setup { listen: SERVER_V6.into(), ..Setup::default() };
    let agent = Arc::new(|_: &AgentBoot| default_agent());
    let controller = Simulation::boot_with_agent(agent, setup).await;
    let server: SocketAddr = controller.address().parse().expect("an address");
    let wrong = "sk_live_wrong";
    for _ in 0..TRIES {
        let mut flood = Vec::new();
        for number in 0..ADDRESSES {
            for _ in 0..OF_ONE_SOURCE / usize::from(ADDRESSES) {
                flood.push(connect(of_network(number).into(), server).await);
            }
        }
        let is_full = status(of_network(ADDRESSES), server, wrong).await.is_none();
        let neighbour = status(NEIGHBOUR_V6, server, wrong).await;
        let was_full = status(of_network(0), server, wrong).await.is_none();
        if is_full && was_full {
            assert_eq!(neighbour.as_deref(), Some("401"), "another network has its own connections");
            return;
        }
    }
    panic!("the network never took all of its connections within the time of idle ones");
}

/// Runs an attack in a network namespace of its own, where these addresses of this machine are not loopback ones.
fn in_a_namespace<F: Future<Output = ()> + 'static>(addresses: Vec<IpAddr>, attack: fn() -> F) {
    let files = getrlimit(Resource::Nofile);
    if files.maximum.is_some_and(|most| most < OPEN_FILES) {
        return Capability::Host.skip(format_args!("{OPEN_FILES} open files are not allowed here"));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(OPEN_FILES), ..files })
        .expect("a limit below the maximum");
    let inside = std::thread::spawn(move || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            return Capability::Root.skip(format_args!("no network namespace: {error}"));
        }
        let ip = |args: &str| {
            let done = Command::new("ip").args(args.split(' ')).status().expect("iproute2 is installed");
            assert!(done.success(), "ip {args}");
        };
        ip("link set lo up");
        for address in addresses {
            ip(&format!("addr add {address}/{} dev lo", if address.is_ipv4() { 32 } else { 128 }));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        runtime.block_on(attack());
    });
    inside.join().expect("no panic inside");
}

#[test]
fn t12_a_caller_with_a_key_gets_in_while_strangers_take_all_connections() {
    let addresses = STRANGERS.iter().chain([&SERVER, &GUEST]).map(|address| IpAddr::from(*address));
    in_a_namespace(addresses.collect(), attack);
}

#[test]
fn t12_an_ipv6_network_is_one_source_of_connections() {
    let addresses = (0..=ADDRESSES).map(of_network).chain([SERVER_V6, NEIGHBOUR_V6]);
    in_a_namespace(addresses.map(IpAddr::from).collect(), attack_from_a_network);
}
