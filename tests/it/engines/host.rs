//! What do the container tests need of their host, and what may they find left on it?

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hotdesk::base::ids::ComputerId;
use hotdesk::engine::container::{ContainerConfig, ContainerEngine, NetworkConfig};
use hotdesk::engine::{Engine, MachineSpec, Observation};

use super::conformance::{Bench, boot};
use super::guest::Guest;
use crate::harness::controller::{image, no_computers_here, runsc};
use crate::harness::host::left_of;

const FAKE_AGENT: &str = include_str!("fake_agent.py");

/// A container engine on a state folder of its own. Whatever a failed test leaves in it is destroyed at its end.
pub struct Containers {
    pub config: ContainerConfig,
    pub engine: ContainerEngine,
    interfaces: Mutex<Vec<(PathBuf, String)>>,
    _folder: tempfile::TempDir,
}

/// The image for tests, or why no container can run on it here.
fn runnable(runtime: &str) -> Result<PathBuf, String> {
    if let Some(reason) = no_computers_here() {
        return Err(reason);
    }
    let known = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    if !known.iter().any(|folder| Path::new(folder).join(runtime).exists()) {
        return Err(format!("skipped: {runtime} is not installed (packaging/dev/deps test)"));
    }
    Ok(image())
}

impl Containers {
    /// An engine whose guests have no network; `None`, with the reason printed, where containers cannot run.
    pub fn lonely() -> Option<Self> {
        Self::with(NetworkConfig::disabled())
    }

    /// An engine whose guests have a network.
    pub fn networked() -> Option<Self> {
        Self::with(NetworkConfig::default())
    }

    /// An engine whose guests have a kernel of their own, with a network or without.
    pub fn gvisor(network: NetworkConfig) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
        Self::over(&runsc(), folder.path().join("state"), folder, network)
    }

    pub fn with(network: NetworkConfig) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
        Self::at(folder.path().join("state"), folder, network)
    }

    /// An engine on a state folder in `folder`, which goes with it.
    pub fn at(state: PathBuf, folder: tempfile::TempDir, network: NetworkConfig) -> Option<Self> {
        Self::over("runc", state, folder, network)
    }

    fn over(
        runtime: &str,
        state: PathBuf,
        folder: tempfile::TempDir,
        network: NetworkConfig,
    ) -> Option<Self> {
        let image = match runnable(runtime) {
            Ok(image) => image,
            Err(reason) => {
                eprintln!("{reason}");
                return None;
            }
        };
        let mut config = ContainerConfig::new(state, image, "/bin/true");
        config.network = network;
        config.runtime = runtime.to_owned();
        config.init_args = Some(["/usr/bin/python3", "-I", "-c", FAKE_AGENT].map(str::to_owned).to_vec());
        let engine = ContainerEngine::open(config.clone()).expect("an engine");
        Some(Self { config, engine, interfaces: Mutex::default(), _folder: folder })
    }

    /// Creates and starts a machine; it, its id and its agent, which answers.
    pub async fn running(&self, spec: MachineSpec) -> (MachineSpec, ComputerId, Guest) {
        self.engine.create(&spec).await.expect("created");
        let guest = Guest::at(&self.engine.start(&spec, &boot(1)).await.expect("started"));
        guest.answers().await;
        let id = spec.id;
        (spec, id, guest)
    }

    /// Remembers the host's end of a machine's network, to look for it later.
    pub async fn remember_interface(&self, id: ComputerId) -> String {
        let seen = self.engine.observe(id).await.expect("an observation");
        let Observation::Running { address: Some(std::net::IpAddr::V4(address)), .. } = seen else {
            panic!("a running machine with an address expected, {seen:?} seen");
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
        fs::canonicalize(&self.config.state_dir).expect("the state folder")
    }
}

impl Bench for Containers {
    fn engine(&self) -> Arc<dyn Engine> {
        Arc::new(self.engine.clone())
    }

    fn reopened(&self) -> Arc<dyn Engine> {
        Arc::new(ContainerEngine::open(self.config.clone()).expect("an engine"))
    }

    fn nothing_is_left_of(&self, id: ComputerId) {
        let text = id.to_string();
        assert_eq!(left_of(&text), None);
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

impl Drop for Containers {
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
