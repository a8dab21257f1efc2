//! Forwarding of packets in network namespaces of a test: a host with an uplink, another network, and a guest.
//!
//! ```text
//!   world 198.51.100.2 --- up0 198.51.100.1 [host] lan0 203.0.113.1 --- 203.0.113.2 lan
//!                                             |
//!                                             `-- hotdesk3e80 --- guest
//! ```

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};

use super::forwarding::ForwardingUpkeep;
use super::*;
use crate::host::command::run;

/// For what certainly happens, on a busy machine.
pub(super) const LONG: Duration = Duration::from_secs(60);
const WORLD: &str = "198.51.100.2:7070";
pub(super) const LAN: &str = "203.0.113.2:7070";
/// The host's own computers take the first slots, and `/sys` shows their interfaces here, too.
pub(super) const SLOT: u16 = 16_000;

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace: a thread that does what it is sent.
pub(crate) struct Namespace {
    pub(super) thread: u32,
    jobs: mpsc::Sender<Job>,
}

impl Namespace {
    /// `None` where the test may not make one.
    pub(crate) fn new() -> Option<Self> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let (ready, made) = mpsc::channel();
        std::thread::spawn(move || {
            let made = unshare(CloneFlags::CLONE_NEWNET);
            let thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            ready.send(made.map(|()| thread)).unwrap();
            inbox.into_iter().for_each(|job| job());
        });
        match made.recv().unwrap() {
            Ok(thread) => Some(Self { thread, jobs }),
            Err(error) => {
                hotdesk_capability::Capability::Root.skip(format_args!("a network namespace: {error}"));
                None
            }
        }
    }

    /// Calls `act` in the namespace.
    pub(crate) fn run<T: Send + 'static>(&self, act: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = mpsc::channel();
        self.jobs.send(Box::new(move || drop(done.send(act())))).unwrap();
        result.recv().expect("the job panicked")
    }

    pub(super) fn ip(&self, commands: String) {
        self.run(move || {
            let mut ip = tool("ip");
            ip.args(["-batch", "-"]);
            run_with("set up a namespace", ip, &commands).unwrap();
        });
    }

    fn setting(&self, name: &str) -> String {
        let path = format!("/proc/sys/net/ipv4/{name}");
        self.run(move || fs::read_to_string(path).unwrap().trim().to_owned())
    }

    pub(crate) fn set(&self, name: &str, value: &'static str) {
        let path = format!("/proc/sys/net/ipv4/{name}");
        self.run(move || fs::write(path, value).unwrap());
    }
}

/// The namespaces, and the folder that stands for the one that controllers share.
pub(super) struct Network {
    pub(super) host: Namespace,
    pub(super) guest: Namespace,
    pub(super) world: Namespace,
    lan: Namespace,
    pub(super) folder: tempfile::TempDir,
}

impl Network {
    pub(super) fn new() -> Option<Self> {
        let [host, guest, world, lan] = [(); 4].map(|()| Namespace::new());
        let this = Self {
            host: host?,
            guest: guest?,
            world: world?,
            lan: lan?,
            folder: tempfile::tempdir().unwrap(),
        };
        // A namespace begins with the settings of the test's host.
        this.host.set("ip_forward", "0");
        this.host.ip(format!(
            "link set dev lo up\n\
             link add up0 type veth peer name eth0 netns {}\n\
             link add lan0 type veth peer name eth0 netns {}\n\
             address add 198.51.100.1/24 dev up0\n\
             address add 203.0.113.1/24 dev lan0\n\
             link set dev up0 up\n\
             link set dev lan0 up\n\
             route add default via 198.51.100.2\n",
            this.world.thread, this.lan.thread
        ));
        for (namespace, own, gateway) in
            [(&this.world, "198.51.100.2/24", "198.51.100.1"), (&this.lan, "203.0.113.2/24", "203.0.113.1")]
        {
            namespace.ip(format!(
                "address add {own} dev eth0\nlink set dev eth0 up\nroute add default via {gateway}\n"
            ));
        }
        Some(this)
    }

    pub(super) fn attach_guest(&self) -> Addresses {
        let (folder, thread) = (self.folder.path().to_owned(), self.guest.thread);
        self.host.run(move || attach_in(&folder, &NetworkConfig::default(), SLOT, None, thread)).unwrap()
    }

    fn recorded(&self) -> Option<String> {
        fs::read_to_string(self.folder.path().join("forwarding")).ok()
    }

    /// Sends a datagram from the world to the other network, and waits until the host has received a later one on the
    /// same way.
    fn send(&self, text: &'static str) {
        let marks = self.host.run(|| UdpSocket::bind("198.51.100.1:0").unwrap());
        marks.set_read_timeout(Some(LONG)).unwrap();
        let mark_at = marks.local_addr().unwrap();
        self.world.run(move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.send_to(text.as_bytes(), LAN).unwrap();
            socket.send_to(b"mark", mark_at).unwrap();
        });
        marks.recv(&mut [0; 4]).unwrap();
    }
}

#[test]
fn a_guest_reaches_the_world_and_the_host_forwards_for_nobody_else() {
    let Some(network) = Network::new() else { return };
    let Network { host, guest, world, lan, folder } = &network;
    let in_lan = lan.run(|| UdpSocket::bind(LAN).unwrap());
    in_lan.set_read_timeout(Some(LONG)).unwrap();
    let listener = world.run(|| TcpListener::bind(WORLD).unwrap());
    network.attach_guest();
    let of = |name: &str| host.setting(&format!("conf/{name}/forwarding"));
    assert_eq!(host.setting("ip_forward"), "0", "it is no router");
    assert_eq!(["up0", "lan0", "hotdesk3e80"].map(of), ["1", "0", "1"]);
    assert_eq!(network.recorded().as_deref(), Some("up0\n"));

    let client = guest.run(|| TcpStream::connect_timeout(&WORLD.parse().unwrap(), LONG).unwrap());
    let (mut accepted, peer) = listener.accept().unwrap();
    assert_eq!(peer.ip().to_string(), "198.51.100.1");
    accepted.write_all(b"answer").unwrap();
    drop(accepted);
    let mut answer = String::new();
    (&client).read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "answer", "answers pass");

    // The first datagram was dropped if the second one arrives alone.
    network.send("dropped");
    host.set("ip_forward", "1");
    let (path, upkeep) = (folder.path().to_owned(), ForwardingUpkeep::default());
    host.run(move || upkeep.run(&path, &NetworkConfig::default())).unwrap();
    assert_eq!(network.recorded(), None, "somebody else made it a router, and rules no longer apply");
    network.send("forwarded");
    let mut bytes = [0; 16];
    let length = in_lan.recv(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"forwarded");
}

#[test]
fn a_new_uplink_is_noticed_and_a_purge_restores_all() {
    let Some(network) = Network::new() else { return };
    let (host, path) = (&network.host, network.folder.path().to_owned());
    network.attach_guest();
    let of = |name: &str| host.setting(&format!("conf/{name}/forwarding"));
    host.ip("route replace default via 203.0.113.2\n".to_owned());
    let (folder, upkeep) = (path.clone(), ForwardingUpkeep::default());
    host.run(move || upkeep.run(&folder, &NetworkConfig::default())).unwrap();
    assert_eq!(["up0", "lan0"].map(of), ["1", "1"]);
    assert_eq!(network.recorded().as_deref(), Some("lan0\nup0\n"));
    let rules = host.run(|| {
        let mut nft = tool("nft");
        nft.args(["list", "chain", "inet", "hotdesk", "uplinks"]);
        run("list the rules", nft).unwrap()
    });
    assert!(rules.contains("iifname \"lan0\"") && rules.contains("iifname \"up0\""), "{rules}");

    let tables = host.run(move || {
        forwarding::restore(&path).unwrap();
        forwarding::restore(&path).unwrap();
        let mut nft = tool("nft");
        nft.args(["list", "tables"]);
        run("list the tables", nft).unwrap()
    });
    assert_eq!(["up0", "lan0"].map(of), ["0", "0"]);
    assert_eq!((network.recorded(), tables.contains("hotdesk")), (None, false));
}
