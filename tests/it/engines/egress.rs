//! Egress policies of guests: what they reach by name and by address (T3, docs/security.md).

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use hotdesk::base::ids::ComputerId;
use hotdesk::base::wait;
use hotdesk::domain::computer::template::network::egress::EgressPolicy;
use hotdesk::engine::{MachineSpec, NetworkConfig};

use super::conformance::{EngineFixture, boot, expect_running, machine_spec};
use super::guest::Guest;
use super::host::ContainerFixture;
use crate::harness::name_server::{NameServer, TTL};
use crate::harness::network::TestNetwork;

const PORT: u16 = 8080;
/// For what certainly happens, on a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// For what must not happen.
const SHORT: Duration = Duration::from_secs(2);

fn policy(text: &str) -> Option<EgressPolicy> {
    Some(text.parse().expect("a policy"))
}

/// Whether a guest can connect to a name or an address.
async fn reaches(guest: &Guest, host: impl std::fmt::Display) -> bool {
    let script = format!(
        "python3 -c 'import socket; socket.create_connection((\"{host}\", {PORT}), 5)' >/dev/null 2>&1"
    );
    guest.sh(&script).await.code == 0
}

/// The addresses that a guest gets for a name, or its error.
async fn resolve(guest: &Guest, name: &str) -> String {
    let script = format!(
        "python3 -c 'import socket\ntry: print(*sorted({{a[4][0] for a in socket.getaddrinfo(\"{name}\", 80, socket.AF_INET)}}))\nexcept OSError as e: print(\"error\", e.errno)'"
    );
    guest.run(&script).await
}

/// A question to one server by UDP: the response code, or `none` without an answer.
async fn ask(guest: &Guest, server: Ipv4Addr, name: &str) -> String {
    let script = format!(
        "python3 -c '
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(3)
q = struct.pack(\">6H\", 7, 256, 1, 0, 0, 0) + b\"\".join(bytes([len(p)]) + p.encode() for p in \"{name}\".split(\".\")) + b\"\\0\\0\\1\\0\\1\"
try:
    s.connect((\"{server}\", 53))
    s.send(q)
    print(s.recv(1500)[3] & 15)
except OSError:
    print(\"none\")'"
    );
    guest.run(&script).await
}

/// A connection that the guest keeps open, as the server sees it. The guest answers each line with `pong`.
struct OpenConnection(TcpStream);

impl OpenConnection {
    async fn to(guest: &Guest, listener: &TcpListener, address: Ipv4Addr) -> Self {
        let script = format!(
            "setsid python3 -c '
import socket
s = socket.create_connection((\"{address}\", {PORT}), 5)
s.settimeout(None)
s.sendall(b\"hello\")
while s.recv(64): s.sendall(b\"pong\")' >/dev/null 2>&1 &"
        );
        guest.run(&script).await;
        // Before it come the connections of `reaches`, which are closed.
        loop {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.set_read_timeout(Some(LONG)).expect("a timeout");
            let mut hello = [0; 5];
            if stream.read_exact(&mut hello).is_ok() && &hello == b"hello" {
                return Self(stream);
            }
        }
    }

    /// Whether the guest answers.
    fn works(&mut self) -> bool {
        self.answers_within(LONG)
    }

    /// Whether nothing passes any more.
    fn is_cut(&mut self) -> bool {
        !self.answers_within(SHORT)
    }

    fn answers_within(&mut self, timeout: Duration) -> bool {
        self.0.set_read_timeout(Some(timeout)).expect("a timeout");
        let mut answer = [0; 4];
        self.0.write_all(b"ping").is_ok() && self.0.read_exact(&mut answer).is_ok() && &answer == b"pong"
    }
}

/// The name proxies of a machine.
fn proxies(id: ComputerId) -> Vec<u32> {
    let text = id.to_string();
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_proxy = |pid: &u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        command.contains("name-proxy\0") && command.contains(&text)
    };
    numbers.filter(is_proxy).collect()
}

/// The packet rules' sets and chains with this text.
fn rules() -> String {
    let output = Command::new("nft").args(["list", "table", "inet", "hotdesk"]).output().expect("nft");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

struct Scene {
    fixture: ContainerFixture,
    network: TestNetwork,
    names: NameServer,
    spec: MachineSpec,
    guest: Guest,
}

impl Scene {
    /// A guest with a policy, whose name server is at a private address.
    async fn start(
        text: Option<&str>,
        fixture: impl FnOnce(NetworkConfig) -> Option<ContainerFixture>,
    ) -> Option<Self> {
        Self::start_with(text, fixture, |_, text| text.to_owned()).await
    }

    async fn start_with(
        text: Option<&str>,
        fixture: impl FnOnce(NetworkConfig) -> Option<ContainerFixture>,
        fill: impl FnOnce(&TestNetwork, &str) -> String,
    ) -> Option<Self> {
        let network = TestNetwork::new();
        let config = NetworkConfig { resolvers: vec![network.private], ..NetworkConfig::default() };
        let fixture = fixture(config)?.with_program();
        let names = NameServer::at(&network, network.private);
        let egress = text.and_then(|text| policy(&fill(&network, text)));
        let spec = MachineSpec { egress, isolation: fixture.isolation(), ..machine_spec() };
        let (spec, _, guest) = fixture.start_machine(spec).await;
        Some(Self { fixture, network, names, spec, guest })
    }

    async fn set(&self, text: Option<&str>) {
        let policy = text.and_then(policy);
        self.fixture.engine.set_egress(self.spec.id, policy.as_ref()).await.expect("a changed policy");
    }

    fn proxy(&self) -> u32 {
        let found = proxies(self.spec.id);
        assert_eq!(found.len(), 1, "one name proxy");
        found[0]
    }
}

/// What a guest reaches under `allow`, over any runtime.
async fn names_networks_and_addresses(fixture: impl FnOnce(NetworkConfig) -> Option<ContainerFixture>) {
    let text = "changing.test alias.test rebind.test missing.test *.wild.test";
    let scene = Scene::start_with(Some("allow"), fixture, |network, mode| {
        format!("{mode} {text} {}/32", network.public)
    });
    let Some(scene) = scene.await else { return };
    let Scene { network, names, guest, .. } = &scene;
    let [one, two, three] = network.more;
    let _listeners: Vec<TcpListener> = [network.public, network.private, one, two, three]
        .map(|address| network.listens(address, PORT))
        .into();
    names.point("changing.test", one);
    names.point("deep.in.wild.test", three);
    names.point("wild.test", three);
    names.point("other.test", three);
    names.point("rebind.test", network.private);
    names.alias("alias.test", "elsewhere.test");
    names.point("elsewhere.test", two);

    assert!(reaches(guest, network.public).await, "an address of the policy");
    for address in [one, two, three] {
        assert!(!reaches(guest, address).await, "{address} before its name is resolved");
    }
    let second = NameServer::at(network, three);
    second.point("changing.test", three);
    assert_eq!(ask(guest, three, "changing.test").await, "none", "another name server");
    assert_eq!(second.asked(), Vec::<String>::new());
    assert!(reaches(guest, "changing.test").await, "a name of the policy");
    assert!(reaches(guest, one).await, "the address of that name");
    assert!(!reaches(guest, three).await, "an address of other names");

    // A new address; and an open connection to the earlier one goes on.
    names.point("changing.test", two);
    tokio::time::sleep(Duration::from_secs(u64::from(TTL) + 1)).await;
    assert_eq!(resolve(guest, "changing.test").await, two.to_string());
    assert!(reaches(guest, "changing.test").await, "its new address");

    assert!(!reaches(guest, "other.test").await, "a name of no rule");
    assert!(!reaches(guest, "wild.test").await, "the name itself is not below the star");
    assert!(!names.asked().iter().any(|name| ["other.test", "wild.test"].contains(&name.as_str())));
    assert!(!reaches(guest, three).await);
    assert!(reaches(guest, "deep.in.wild.test").await, "a name below the star");
    assert!(reaches(guest, "alias.test").await, "an alias leads to a name of no rule");
    assert!(!reaches(guest, "elsewhere.test").await, "which is refused by itself");

    assert_eq!(ask(guest, network.private, "other.test").await, "5", "refused");
    assert_eq!(ask(guest, network.private, "missing.test").await, "3", "there is no such name");
    assert_eq!(ask(guest, network.private, "rebind.test").await, "0", "without addresses");
    assert!(resolve(guest, "rebind.test").await.starts_with("error"));
    assert!(!reaches(guest, "rebind.test").await && !reaches(guest, network.private).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn t3_a_guest_reaches_the_names_networks_and_addresses_of_its_policy() {
    names_networks_and_addresses(ContainerFixture::with_network_config).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t3_a_guest_over_gvisor_reaches_the_names_networks_and_addresses_of_its_policy() {
    names_networks_and_addresses(ContainerFixture::gvisor).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t3_a_policy_changes_while_the_guest_runs() {
    let Some(scene) = Scene::start(None, ContainerFixture::with_network_config).await else { return };
    let Scene { network, names, guest, .. } = &scene;
    let [one, two, three] = network.more;
    let listeners = [one, two, three].map(|address| network.listens(address, PORT));
    for (name, address) in [("one.test", one), ("two.test", two), ("three.test", three)] {
        names.point(name, address);
    }
    let mut to_one = OpenConnection::to(guest, &listeners[0], one).await;
    let mut to_two = OpenConnection::to(guest, &listeners[1], two).await;
    assert!(to_one.works() && to_two.works() && reaches(guest, "three.test").await, "without a policy");
    assert_eq!(proxies(scene.spec.id), Vec::<u32>::new());

    scene.set(Some(&format!("allow {one} three.test"))).await;
    assert!(to_one.works(), "the policy has its destination");
    assert!(to_two.is_cut(), "cut, though it was established before");
    assert!(reaches(guest, one).await && !reaches(guest, two).await);
    assert!(!reaches(guest, three).await && reaches(guest, "three.test").await);
    assert!(!reaches(guest, "one.test").await, "the policy has its address, not its name");
    let before = scene.proxy();

    // Addresses of names that the next policy has, too, are not forgotten.
    let mut to_three = OpenConnection::to(guest, &listeners[2], three).await;
    scene.set(Some(&format!("allow {one} two.test three.test"))).await;
    assert_ne!(scene.proxy(), before);
    assert!(to_three.works() && reaches(guest, three).await && reaches(guest, "two.test").await);
    scene.set(Some(&format!("allow {one} two.test"))).await;
    assert!(to_three.is_cut() && !reaches(guest, three).await && !reaches(guest, "three.test").await);

    scene.set(Some(&format!("block {one} two.test"))).await;
    assert!(to_one.is_cut() && !reaches(guest, one).await, "an address");
    assert!(!reaches(guest, "two.test").await, "a name");
    assert!(!reaches(guest, two).await, "its address");
    assert!(reaches(guest, "three.test").await && reaches(guest, three).await, "all else");
    assert!(!reaches(guest, network.public).await, "nobody listens there");
    let second = NameServer::at(network, three);
    assert_eq!(ask(guest, three, "two.test").await, "none", "another name server");
    assert_eq!(second.asked(), Vec::<String>::new());

    scene.set(None).await;
    assert_eq!(proxies(scene.spec.id), Vec::<u32>::new());
    assert!(reaches(guest, one).await && reaches(guest, "two.test").await, "without a policy");
}

#[tokio::test(flavor = "multi_thread")]
async fn t3_a_policy_outlives_the_controller_and_fails_closed_without_its_name_proxy() {
    let text = "allow known.test later.test";
    let Some(mut scene) = Scene::start(Some(text), ContainerFixture::with_network_config).await else {
        return;
    };
    let [one, two, _] = scene.network.more;
    let listeners = [one, two].map(|address| scene.network.listens(address, PORT));
    scene.names.point("known.test", one);
    scene.names.point("later.test", two);
    assert!(reaches(&scene.guest, "known.test").await);
    let mut open = OpenConnection::to(&scene.guest, &listeners[0], one).await;

    // Another controller over the same state.
    let pid = scene.proxy();
    scene.fixture.engine = scene.fixture.reopen();
    scene.fixture.engine.maintain().await.expect("maintained");
    assert_eq!(scene.proxy(), pid, "it is adopted");
    assert!(reaches(&scene.guest, "known.test").await && !reaches(&scene.guest, two).await);

    // Nobody replaces a killed one before the next upkeep.
    let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status().expect("kill");
    assert!(killed.success());
    let gone = wait::until(LONG, || async { proxies(scene.spec.id).is_empty().then_some(()) });
    gone.await.expect("ended");
    assert!(open.works(), "an open connection goes on");
    assert!(resolve(&scene.guest, "later.test").await.starts_with("error"), "no names");
    assert!(!reaches(&scene.guest, two).await, "nothing else is reached");
    assert_eq!(ask(&scene.guest, scene.network.private, "later.test").await, "none");
    scene.fixture.engine.maintain().await.expect("maintained");
    assert_ne!(scene.proxy(), pid);
    assert!(reaches(&scene.guest, "later.test").await && open.works());

    // A stop takes all of it away, and a start brings it back.
    let (engine, id) = (scene.fixture.engine.clone(), scene.spec.id);
    let name = scene.fixture.remember_interface(id).await;
    let slot = name.trim_start_matches("hotdesk").to_owned();
    assert!(rules().contains(&format!("chain egress{slot}")));
    engine.stop(id, Duration::ZERO).await.expect("stopped");
    assert_eq!(proxies(id), Vec::<u32>::new());
    assert!(!rules().contains(&format!("\"{name}\" : jump")), "{}", rules());
    engine.start(&scene.spec, &boot(2)).await.expect("started");
    let guest = expect_running(&*engine, id, 2).await;
    guest.wait_until_ready().await;
    assert!(reaches(&guest, "known.test").await && !reaches(&guest, two).await);
    engine.destroy(id).await.expect("destroyed");
    assert_eq!(proxies(id), Vec::<u32>::new());
    scene.fixture.expect_removed(id);
}
