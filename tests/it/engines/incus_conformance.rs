//! Conformance of the engine over Incus, on one server without a cluster.

use std::fmt::Write;
use std::sync::Arc;

use hotdesk::base::ids::ComputerId;
use hotdesk::domain::computer::isolation::Isolation;
use hotdesk::engine::{
    Engine, EngineKind, EngineSettings, HostSettings, IncusSettings, NetworkConfig, PublicationStep,
    publish_images,
};

use super::conformance::{self, EngineFixture};
use super::host::open_engine;
use crate::harness::controller::image;
use crate::harness::incus_cluster::{IncusCluster, find_runsc};
use crate::harness::program::{link_agent, program};

const FAKE_AGENT: &str = include_str!("fake_agent.py");
/// The agent's socket in instances without gVisor.
const AGENT_SOCKET: &str = "/run/hotdesk/agent.sock";

/// An engine over Incus with its own server. Machines have no network, because not every kernel limits its bandwidth.
struct IncusFixture {
    server: IncusCluster,
    settings: EngineSettings,
    engine: Arc<dyn Engine>,
    isolation: Isolation,
    folder: tempfile::TempDir,
}

impl IncusFixture {
    /// Starts a server that has the image. Where that is not possible, prints the reason and returns `None`.
    async fn start(isolation: Isolation) -> Option<Self> {
        let runsc = match isolation {
            Isolation::Sandbox => find_runsc()?,
            Isolation::Shared | Isolation::Vm => String::new(),
        };
        let server = IncusCluster::start_alone()?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let state = folder.path().join("state");
        link_agent(&state);
        let mut host = HostSettings::new(state, image(), program());
        host.network = NetworkConfig::disabled();
        host.init_args = Some(init_args(isolation));
        let incus = IncusSettings {
            url: server.socket().display().to_string(),
            pool: "local".to_owned(),
            offered: vec![isolation],
            runsc,
            ..IncusSettings::default()
        };
        let settings = EngineSettings { host, kinds: vec![EngineKind::Incus(incus)] };
        let published = publish_images(settings.clone(), &|_: &PublicationStep| {}).await;
        assert_eq!(published.expect("published").len(), 1);
        let engine = open_engine(settings.clone());
        Some(Self { server, settings, engine, isolation, folder })
    }
}

/// The first process of a guest: the agent of these tests. An instance takes arguments without white space only.
fn init_args(isolation: Isolation) -> Vec<String> {
    let digits = FAKE_AGENT.bytes().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("a string");
        digits
    });
    let script = format!("exec(bytes.fromhex('{digits}'))");
    let mut args = ["/usr/bin/python3", "-I", "-S", "-c", &script].map(str::to_owned).to_vec();
    if isolation == Isolation::Shared {
        args.push(AGENT_SOCKET.to_owned());
    }
    args
}

impl EngineFixture for IncusFixture {
    fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.engine)
    }

    fn reopen(&self) -> Arc<dyn Engine> {
        let engine = open_engine(self.settings.clone());
        // As a controller does when it starts: the sockets of agents are those of the engine from then on.
        let observe_all = async {
            for id in engine.list().await.expect("a list") {
                engine.observe(id).await.expect("an observation");
            }
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(observe_all));
        engine
    }

    fn expect_removed(&self, id: ComputerId) {
        let text = id.to_string();
        let instances = self.server.instances("n");
        assert!(!instances.iter().any(|name| name.contains(&text)), "{instances:?}");
        let socket = self.folder.path().join("state/incus").join(format!("{text}.sock"));
        assert!(!socket.exists(), "{}", socket.display());
    }

    fn isolation(&self) -> Isolation {
        self.isolation
    }
}

/// Proves promises one after another, with one server.
macro_rules! prove {
    ($fixture:expr; $($promise:ident),* $(,)?) => {$(
        eprintln!("{}", stringify!($promise));
        conformance::$promise($fixture).await;
    )*};
}

/// All promises, except those of layers, which instances do not have, and of control groups of this host.
async fn prove_all(isolation: Isolation) {
    let Some(fixture) = IncusFixture::start(isolation).await else { return };
    conformance::promises!(machines, prove, &fixture);
    conformance::promises!(copies, prove, &fixture);
    assert_eq!(fixture.server.instances("n"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_keep_the_promises_of_engines() {
    prove_all(Isolation::Shared).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_under_gvisor_keep_the_promises_of_engines() {
    prove_all(Isolation::Sandbox).await;
}
