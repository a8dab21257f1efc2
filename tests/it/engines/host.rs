//! Fixture of the container engine, and checks of the host's resources.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hotdesk::base::ids::ComputerId;
use hotdesk::domain::computer::isolation::Isolation;
use hotdesk::engine::{
    ContainerSettings, Engine, EngineKind, EngineSettings, HostSettings, MachineSpec, NetworkConfig,
    Observation, OpenMode,
};

use super::conformance::{EngineFixture, boot};
use super::guest::Guest;
use super::isolations::add_others;
use crate::harness::capability::{Capability, Skip};
use crate::harness::controller::{image, runsc, skip_reason};
use crate::harness::host::find_leftover;
use crate::harness::program::{link_agent, program};

const FAKE_AGENT: &str = include_str!("fake_agent.py");

/// A container engine with its own state folder. Dropping it destroys all machines in the folder.
pub struct ContainerFixture {
    pub config: EngineSettings,
    pub engine: Arc<dyn Engine>,
    interfaces: Mutex<Vec<(PathBuf, String)>>,
    _folder: tempfile::TempDir,
}

/// The container engine with an OCI runtime.
pub fn container(runtime: impl Into<String>) -> EngineKind {
    EngineKind::Container(ContainerSettings { runtime: runtime.into(), isolation: None })
}

/// The default settings of the container engine with `runc`.
pub fn container_settings(
    state_dir: impl Into<PathBuf>,
    image: impl Into<PathBuf>,
    agent: impl Into<PathBuf>,
) -> EngineSettings {
    EngineSettings { host: HostSettings::new(state_dir, image, agent), kinds: vec![container("runc")] }
}

/// Opens an engine to run machines.
pub fn open_engine(settings: EngineSettings) -> Arc<dyn Engine> {
    hotdesk::engine::open(settings, OpenMode::Run).expect("an engine")
}

/// The image for tests, or the reason to skip a test.
fn image_for(runtime: &str) -> Result<PathBuf, Skip> {
    if let Some(skip) = skip_reason() {
        return Err(skip);
    }
    let temporary_folder = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    if !temporary_folder.iter().any(|folder| Path::new(folder).join(runtime).exists()) {
        return Err(Skip::new(
            Capability::Gvisor,
            format!("{runtime} is not installed (packaging/dev/deps test)"),
        ));
    }
    Ok(image())
}

impl ContainerFixture {
    /// Guests have no network. Prints the reason and returns `None` where containers cannot run.
    pub fn without_network() -> Option<Self> {
        Self::with_network_config(NetworkConfig::disabled())
    }

    /// Guests have a network.
    pub fn with_network() -> Option<Self> {
        Self::with_network_config(NetworkConfig::default())
    }

    /// Guests run on gVisor, with or without a network.
    pub fn gvisor(network: NetworkConfig) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
        Self::open(&runsc(), folder.path().join("state"), folder, network)
    }

    /// Guests run on gVisor without a network. Uses a given state folder in `folder`, and removes `folder` at
    /// the end.
    pub fn gvisor_in(state: PathBuf, folder: tempfile::TempDir) -> Option<Self> {
        Self::open(&runsc(), state, folder, NetworkConfig::disabled())
    }

    pub fn with_network_config(network: NetworkConfig) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
        Self::in_folder(folder.path().join("state"), folder, network)
    }

    /// Uses a given state folder in `folder`, and removes `folder` at the end.
    pub fn in_folder(state: PathBuf, folder: tempfile::TempDir, network: NetworkConfig) -> Option<Self> {
        Self::open("runc", state, folder, network)
    }

    fn open(
        runtime: &str,
        state: PathBuf,
        folder: tempfile::TempDir,
        network: NetworkConfig,
    ) -> Option<Self> {
        let image = match image_for(runtime) {
            Ok(image) => image,
            Err(skip) => {
                skip.report();
                return None;
            }
        };
        let mut config = container_settings(state, image, "/bin/true");
        config.host.network = network;
        config.kinds = vec![container(runtime)];
        config.host.init_args =
            Some(["/usr/bin/python3", "-I", "-S", "-c", FAKE_AGENT].map(str::to_owned).to_vec());
        let engine = open_engine(config.clone());
        Some(Self { config, engine, interfaces: Mutex::default(), _folder: folder })
    }

    /// The same, with hotdesk's own program, which also resolves names of egress policies.
    pub fn with_program(mut self) -> Self {
        self.config.host.agent_binary = program().into();
        link_agent(&self.config.host.state_dir);
        self.engine = open_engine(self.config.clone());
        self
    }

    /// The same, beside the engines of all other isolations.
    pub fn beside_others(mut self) -> Self {
        add_others(&mut self.config, self.engine.offers().default().isolation);
        self.engine = open_engine(self.config.clone());
        self
    }

    /// Creates and starts a machine; returns its spec, its id and its ready agent.
    pub async fn start_machine(&self, spec: MachineSpec) -> (MachineSpec, ComputerId, Guest) {
        self.engine.create(&spec).await.expect("created");
        let guest = Guest::new(&self.engine.start(&spec, &boot(1)).await.expect("started"));
        guest.wait_until_ready().await;
        let id = spec.id;
        (spec, id, guest)
    }

    /// Records the host's end of a machine's network, to check later that it is removed.
    pub async fn remember_interface(&self, id: ComputerId) -> String {
        let observed = self.engine.observe(id).await.expect("an observation");
        let Observation::Running { address: Some(std::net::IpAddr::V4(address)), .. } = observed else {
            panic!("expected a running machine with an address, observed {observed:?}");
        };
        let slot = (address.to_bits() & 0xffff) / 4;
        let name = format!("hotdesk{slot:04x}");
        let index = PathBuf::from(format!("/sys/class/net/{name}/ifindex"));
        let number = fs::read_to_string(&index).expect("the host's end");
        self.interfaces.lock().expect("no panic").push((index, number));
        name
    }

    pub fn folder(&self, id: ComputerId) -> PathBuf {
        self.engine_root().join("machines").join(id.to_string())
    }

    pub fn engine_root(&self) -> PathBuf {
        fs::canonicalize(&self.config.host.state_dir).expect("the state folder")
    }
}

impl EngineFixture for ContainerFixture {
    fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.engine)
    }

    fn reopen(&self) -> Arc<dyn Engine> {
        open_engine(self.config.clone())
    }

    fn disk(&self, id: ComputerId) -> Option<PathBuf> {
        Some(self.folder(id).join("disk.img"))
    }

    fn isolation(&self) -> Isolation {
        self.engine.offers().default().isolation
    }

    fn expect_removed(&self, id: ComputerId) {
        let text = id.to_string();
        assert_eq!(find_leftover(&text), None);
        let root = self.engine_root();
        for place in ["machines", "runtime", "trash"] {
            assert!(!root.join(place).join(&text).exists(), "{place}/{text}");
        }
        assert_eq!(fs::read_dir(root.join("trash")).expect("trash").count(), 0, "trash");
        for (index, number) in self.interfaces.lock().expect("no panic").iter() {
            let now = fs::read_to_string(index).ok();
            assert_ne!(now.as_ref(), Some(number), "an interface: {}", index.display());
        }
    }
}

impl Drop for ContainerFixture {
    fn drop(&mut self) {
        let engine = self.engine.clone();
        let cleaned = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                for id in engine.list().await.expect("a list") {
                    engine.destroy(id).await.expect("destroyed");
                }
            });
        });
        assert!(cleaned.join().is_ok() || std::thread::panicking(), "the clean-up failed");
    }
}
