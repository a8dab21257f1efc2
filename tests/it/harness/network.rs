//! Network namespace of a test behind a veth pair, with a private address and a documentation address (RFC
//! 5737) that counts as public.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Command;

use nix::sched::{CloneFlags, setns};

/// A network beyond the host.
pub struct TestNetwork {
    name: String,
    veth: String,
    /// The host's address on the veth pair.
    pub host_side: Ipv4Addr,
    pub public: Ipv4Addr,
    pub private: Ipv4Addr,
    /// More addresses that count as public.
    pub more: [Ipv4Addr; 3],
    claim: PathBuf,
}

/// A number whose addresses no other test uses. A folder claims it.
fn claim() -> (u8, PathBuf) {
    let from: u8 = rand::random::<u8>() % 64;
    for step in 0..64 {
        let id = (from + step) % 64;
        let folder = std::env::temp_dir().join(format!("hotdesk-test-network-{id}"));
        if std::fs::create_dir(&folder).is_ok() {
            return (id, folder);
        }
    }
    panic!(
        "no free test network: remove the folders of killed tests, {}/hotdesk-test-network-*",
        std::env::temp_dir().display()
    );
}

fn host(program: &str, args: &str) {
    let output = Command::new(program).args(args.split_whitespace()).output().expect("a tool");
    assert!(output.status.success(), "{program} {args}: {}", String::from_utf8_lossy(&output.stderr));
}

impl TestNetwork {
    pub fn new() -> Self {
        let (id, claim) = claim();
        let name = format!("hdnet{}", uuid::Uuid::new_v4().simple());
        let veth = format!("hdw{}", &name[5..13]);
        let network = Self {
            host_side: Ipv4Addr::new(198, 51, 100, id * 4 + 1),
            public: Ipv4Addr::new(198, 51, 100, id * 4 + 2),
            private: Ipv4Addr::new(10, 99, id, 1),
            more: [0, 1, 2].map(|number| Ipv4Addr::new(203, 0, 113, id * 3 + number)),
            name,
            veth,
            claim,
        };
        let Self { name, veth, host_side, public, private, .. } = &network;
        host("ip", &format!("netns add {name}"));
        host("ip", &format!("link add {veth} type veth peer name net0 netns {name}"));
        host("ip", &format!("addr add {host_side}/30 dev {veth}"));
        host("ip", &format!("link set {veth} up"));
        host("ip", &format!("-n {name} link set lo up"));
        host("ip", &format!("-n {name} addr add {public}/30 dev net0"));
        host("ip", &format!("-n {name} addr add {private}/32 dev lo"));
        host("ip", &format!("-n {name} link set net0 up"));
        host("ip", &format!("-n {name} route add default via {host_side}"));
        host("ip", &format!("route add {private}/32 via {public}"));
        for more in network.more {
            host("ip", &format!("-n {name} addr add {more}/32 dev lo"));
            host("ip", &format!("route add {more}/32 via {public}"));
        }
        network
    }

    /// Runs `act` inside the namespace.
    pub fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.name)).expect("the namespace");
        let entered = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                setns(namespace, CloneFlags::CLONE_NEWNET).expect("entered");
                act()
            });
            thread.join()
        });
        entered.expect("no panic inside")
    }

    pub fn listens(&self, address: Ipv4Addr, port: u16) -> TcpListener {
        self.inside(|| TcpListener::bind((address, port)).expect("a listener in the test network"))
    }
}

impl Drop for TestNetwork {
    fn drop(&mut self) {
        host("ip", &format!("link del {}", self.veth));
        host("ip", &format!("netns del {}", self.name));
        std::fs::remove_dir(&self.claim).expect("the claim's folder");
    }
}
