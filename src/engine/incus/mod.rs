//! Engine over Incus: each computer is an unprivileged container of one server or of a cluster (docs/engines/incus.md).
//!
//! ```text
//!   IncusEngine -- client -- Incus (any member) -- member of the instance -- instance hd-<id>
//!       |                                                                        hotdesk init, agent
//!       +-- link: <state>/incus/<id>.sock --- exec of Incus, HTTP/2 --- hotdesk bridge
//! ```
//! The server's records are the only state: labels of an instance say whose it is, and which boot runs. So it implements
//! [`Engine`] itself, without the driver of the engines that own disks and networks of this host.

mod checks;
mod client;
mod copies;
mod documents;
mod hosts;
mod image;
mod lifecycle;
mod link;
mod members;
mod network;
mod replicas;
mod sandbox;
mod settings;
mod watch;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use uuid::Uuid;

pub(crate) use checks::checks;
pub use hosts::JoinToken;
pub use image::{
    ImagePresence, PruneOutcome, PruneReport, PrunedImage, PrunedVolume, PublicationStep, PublishedImage,
};
pub use link::run_bridge;
pub use sandbox::run_launcher;
pub use settings::IncusSettings;

use crate::host::command::host_error;
use crate::host::files::{private_folder, write_durably};
use crate::incus::client::Client;
use crate::incus::documents::BootMode;
use crate::incus::image::{AgentFile, GuestImage, Publisher};
use crate::incus::link::Links;
use crate::incus::members::Cluster;
use crate::incus::network::AddressBook;
use crate::incus::watch::Watch;
use crate::state::agent_binary;
use crate::state::layout::StateDir;
use crate::{
    Boot, Capabilities, Change, Check, Effect, Endpoint, Engine, EngineError, EngineFindings, EngineResult,
    HostObservation, HostSettings, LeftoverRecord, MAX_LEFTOVERS, MachineSpec, Observation, Offer, Offers,
    OpenMode, Snapshot,
};
use hotdesk_base::hex::hex;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks::{Tasks, spawn_blocking};
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::template::network::egress::EgressPolicy;
use hotdesk_domain::host::outage::{HostOutage, HostState};

const OPEN: &str = "open the Incus engine";
/// Observations at once. A controller that starts observes all of its computers, each over a connection of its own.
const OBSERVATIONS_AT_ONCE: usize = 128;
/// Folder of the engine in the state folder.
const FOLDER: &str = "incus";
/// Folder of a publication of the guest image.
const PUBLICATION_FOLDER: &str = "publication";
/// File with the id that labels the instances of this state folder.
const OWNER_FILE: &str = "owner";

/// The engine over Incus.
#[derive(Debug)]
pub(crate) struct IncusEngine {
    settings: IncusSettings,
    host: HostSettings,
    offers: Offers,
    client: Client,
    /// Id of the state folder, with which its instances are labelled.
    owner: String,
    /// The agent for computers; `None` unless they are started.
    agent: Option<AgentFile>,
    addresses: AddressBook,
    cluster: Arc<Cluster>,
    links: Links,
    watch: Watch,
    /// Bounds the observations that run at once.
    observations: Semaphore,
    tasks: Tasks,
}

impl IncusEngine {
    /// What the engine offers with an isolation.
    pub(crate) fn offer(isolation: Isolation) -> Offer {
        let own_kernel = isolation == Isolation::Sandbox;
        Offer {
            isolation,
            engine: "incus",
            capabilities: Capabilities {
                suspend: own_kernel,
                live_cpu: true,
                live_ram: !own_kernel,
                live_disk: !own_kernel,
                copy_while_running: true,
                memory_snapshot: own_kernel,
                // A launch makes a machine on the member of the snapshot, and no member is chosen for it.
                boot_snapshot: false,
                replicate: true,
                ..Capabilities::default()
            },
        }
    }

    /// The offer of computers for which nobody chose an isolation.
    pub(crate) fn default_offer(settings: &IncusSettings) -> Offer {
        Self::offer(settings.offered.first().copied().unwrap_or(Isolation::Shared))
    }

    /// Opens the engine. The server is not asked for anything yet. Blocks.
    ///
    /// # Errors
    /// `Failed` when the state folder, the agent or a certificate cannot be read.
    pub(crate) fn open(host: HostSettings, settings: IncusSettings, mode: OpenMode) -> EngineResult<Self> {
        settings.check().map_err(|why| EngineError::failed(OPEN, why))?;
        let state = StateDir::open(&host.state_dir)?;
        let folder = state.root().join(FOLDER);
        private_folder(&folder).map_err(host_error(OPEN, &folder))?;
        let agent = if mode == OpenMode::Run { Some(install_agent(&host, &state)?) } else { None };
        let client = Client::open(&settings)?.until(host.acts_until.clone());
        let tasks = Tasks::new();
        let owner = owner(&folder.join(OWNER_FILE))?;
        let cluster = Arc::new(Cluster::new(client.clone(), owner.clone()));
        let watch = Watch::new(client.clone(), owner.clone(), tasks.clone());
        Ok(Self {
            offers: Offers::several(settings.offered.iter().copied().map(Self::offer).collect())?,
            owner,
            agent,
            addresses: AddressBook::default(),
            links: Links::open(client.clone(), Arc::clone(&cluster), &folder, tasks.clone())?,
            cluster,
            watch,
            observations: Semaphore::new(OBSERVATIONS_AT_ONCE),
            tasks,
            client,
            settings,
            host,
        })
    }

    /// The agent for computers.
    fn agent(&self) -> EngineResult<&AgentFile> {
        self.agent
            .as_ref()
            .ok_or_else(|| EngineError::failed("find the agent", "the engine was opened without it"))
    }

    /// Reads the guest image of the configuration, for instances of an isolation.
    async fn guest_image(&self, isolation: Isolation) -> EngineResult<GuestImage> {
        let (folder, runsc) = (self.host.image.clone(), self.settings.runsc.clone());
        let read = spawn_blocking(move || GuestImage::read_for(isolation, &folder, &runsc)).await;
        read.map_err(|_| EngineError::failed("read the guest image", "the thread panicked"))?
    }

    /// Publishes the guest image with the agent for each offered isolation unless that is done; see [`crate::publish_images`].
    pub(crate) async fn publish(
        &self,
        report: &(dyn Fn(&PublicationStep) + Sync),
    ) -> EngineResult<Vec<PublishedImage>> {
        let program = self.host.agent_binary.clone();
        // Not the copy in the state folder: that is of the version of a controller that may run.
        let agent = spawn_blocking(move || agent_file(program)).await;
        let agent = agent.map_err(|_| EngineError::failed("read the agent", "the thread panicked"))??;
        let publisher = self.publisher().await?;
        let mut published = Vec::new();
        for image in self.guest_images().await? {
            published.push(publisher.publish(&image, agent.clone(), report).await?);
        }
        Ok(published)
    }

    /// Removes old images; see [`crate::prune_images`].
    pub(crate) async fn prune(&self) -> EngineResult<PruneReport> {
        let images = self.guest_images().await?;
        self.publisher().await?.prune(&images).await
    }

    /// Makes a token for a new member of the cluster; see [`crate::new_join_token`].
    pub(crate) async fn join_token(&self, name: &str) -> EngineResult<JoinToken> {
        hosts::new_token(&self.client, name).await
    }

    /// The guest image in the form of each offered isolation.
    async fn guest_images(&self) -> EngineResult<Vec<GuestImage>> {
        let mut images = Vec::new();
        for isolation in self.offers.isolations() {
            images.push(self.guest_image(isolation).await?);
        }
        Ok(images)
    }

    async fn publisher(&self) -> EngineResult<Publisher<'_>> {
        let scratch = self.host.state_dir.join(FOLDER).join(PUBLICATION_FOLDER);
        Publisher::begin(&self.client, &self.settings.pool, &self.owner, scratch).await
    }
}

impl Drop for IncusEngine {
    fn drop(&mut self) {
        self.tasks.stopping().cancel();
    }
}

/// Copies the agent into the state folder, so that an upgrade of this program changes it only when the engine is opened again.
fn install_agent(host: &HostSettings, state: &StateDir) -> EngineResult<AgentFile> {
    let path = agent_binary::install(&host.agent_binary, state)?;
    let digest = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(AgentFile { path, digest })
}

/// The agent in a file, with the digest by which [`agent_binary::install`] would name its copy. Blocks.
fn agent_file(path: PathBuf) -> EngineResult<AgentFile> {
    let digest = agent_binary::digest(&path)?;
    Ok(AgentFile { path, digest })
}

/// The id in a file, which is made when it is missing.
fn owner(path: &Path) -> EngineResult<String> {
    let failed = host_error(OPEN, path);
    match fs::read_to_string(path) {
        Ok(text) => {
            let id = text
                .trim()
                .parse::<Uuid>()
                .map_err(|error| EngineError::failed(OPEN, format!("{}: {error}", path.display())))?;
            Ok(id.to_string())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let id = Uuid::new_v4().to_string();
            write_durably(path, id.as_bytes()).map_err(failed)?;
            Ok(id)
        }
        Err(error) => Err(failed(error)),
    }
}

#[async_trait]
impl Engine for IncusEngine {
    fn offers(&self) -> &Offers {
        &self.offers
    }

    async fn boot_inputs(&self, isolation: Isolation) -> EngineResult<String> {
        let isolation = self.offers.require(isolation)?.isolation;
        let (image, agent) = (self.guest_image(isolation).await?, self.agent()?);
        Ok(hex(&Sha256::digest(format!("incus {} {}", image.key(), agent.digest))))
    }

    async fn image_id(&self) -> EngineResult<String> {
        Ok(self.guest_image(Isolation::Shared).await?.id)
    }

    async fn create(&self, spec: &MachineSpec) -> EngineResult<()> {
        self.create_instance(&self.offers.effective(spec)?, None).await
    }

    async fn create_on(&self, spec: &MachineSpec, host: &str) -> EngineResult<()> {
        self.create_instance(&self.offers.effective(spec)?, Some(host)).await
    }

    async fn hosts(&self) -> EngineResult<Vec<HostObservation>> {
        self.observe_hosts().await
    }

    async fn host_of(&self, id: ComputerId) -> EngineResult<Option<String>> {
        self.locate(id).await
    }

    async fn move_machine(&self, id: ComputerId, to: &str) -> EngineResult<()> {
        self.move_instance(id, to).await
    }

    async fn start(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        self.start_instance(&self.offers.effective(spec)?, boot, BootMode::FromDisk).await
    }

    async fn stop(&self, id: ComputerId, grace: Duration) -> EngineResult<()> {
        self.stop_machine(id, grace).await
    }

    async fn destroy(&self, id: ComputerId) -> EngineResult<()> {
        self.destroy_instance(id).await
    }

    async fn observe(&self, id: ComputerId) -> EngineResult<Observation> {
        let permit = self.observations.acquire().await;
        let _permit = permit.map_err(|error| EngineError::failed("observe the machine", error))?;
        self.observe_instance(id).await
    }

    async fn check_capacity(&self, id: ComputerId, rollback_to: Option<Uuid>) -> EngineResult<()> {
        match rollback_to {
            Some(snapshot) => self.check_snapshot(id, snapshot).await,
            None => Ok(()),
        }
    }

    async fn list(&self) -> EngineResult<Vec<ComputerId>> {
        self.list_instances().await
    }

    async fn wait_stopped(&self, id: ComputerId) -> EngineResult<()> {
        self.wait_until_stopped(id).await;
        Ok(())
    }

    async fn suspend(&self, id: ComputerId) -> EngineResult<()> {
        self.suspend_instance(id).await
    }

    async fn resume(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        self.start_instance(&self.offers.effective(spec)?, boot, BootMode::FromMemory).await
    }

    async fn discard_memory(&self, id: ComputerId) -> EngineResult<()> {
        self.discard_saved(id).await
    }

    async fn resize(&self, id: ComputerId, change: Change) -> EngineResult<Effect> {
        self.resize_instance(id, change).await
    }

    async fn set_egress(&self, _id: ComputerId, policy: Option<&EgressPolicy>) -> EngineResult<()> {
        match policy {
            // No computer has a policy.
            None => Ok(()),
            Some(_) => Err(EngineError::Unsupported("restrict the network of machines")),
        }
    }

    async fn copy_disk(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        self.copy_instance(from, &self.offers.effective(to)?).await
    }

    async fn fork(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        self.fork_instance(from, &self.offers.effective(to)?).await
    }

    async fn launch(&self, from: ComputerId, snapshot: Uuid, to: &MachineSpec) -> EngineResult<()> {
        self.launch_instance(from, snapshot, &self.offers.effective(to)?).await
    }

    async fn snapshot(&self, id: ComputerId, snapshot: Uuid, memory: bool) -> EngineResult<Snapshot> {
        self.take_snapshot(id, snapshot, memory).await
    }

    async fn rollback(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        self.roll_back(id, snapshot).await
    }

    async fn remove_snapshot(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        self.drop_snapshot(id, snapshot).await
    }

    async fn snapshots(&self, id: ComputerId) -> EngineResult<Vec<Uuid>> {
        self.list_snapshots(id).await
    }

    async fn watch_hosts(&self) {
        self.cluster.look().await;
    }

    fn host_outage(&self, id: ComputerId) -> Option<HostOutage> {
        self.cluster.outage(id)
    }

    async fn host_state(&self, name: &str) -> EngineResult<Option<HostState>> {
        self.cluster.state_now(name).await
    }

    async fn replicate(
        &self,
        id: ComputerId,
        present: Option<&str>,
        besides: &BTreeSet<String>,
    ) -> EngineResult<String> {
        self.refresh_replica(id, present, besides).await
    }

    async fn replicas(&self) -> EngineResult<Vec<ComputerId>> {
        self.list_replicas().await
    }

    async fn remove_replica(&self, id: ComputerId) -> EngineResult<()> {
        self.drop_replica(id).await
    }

    async fn begin_from_replica(&self, id: ComputerId) -> EngineResult<()> {
        self.promote_replica(id).await
    }

    async fn check_host(&self, thorough: bool) -> EngineResult<Vec<EngineFindings>> {
        let (host, settings) = (self.host.clone(), self.settings.clone());
        let run = move || {
            let (run, left_out): (Vec<Check<'_>>, Vec<Check<'_>>) =
                checks(&host, &settings).into_iter().partition(|check| thorough || check.is_quick);
            EngineFindings {
                offer: Self::default_offer(&settings),
                findings: run.into_iter().map(Check::run).collect(),
                left_out: left_out.into_iter().map(|check| check.what.into()).collect(),
            }
        };
        let found = spawn_blocking(run).await;
        let found = found.map_err(|_| EngineError::failed("check the host", "the thread panicked"))?;
        Ok(vec![found])
    }

    async fn find_leftovers(&self, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<LeftoverRecord>> {
        let instances = self.list_instances().await?;
        let leftover = |id: ComputerId| LeftoverRecord {
            kind: "instance".into(),
            location: self.cluster.name(id),
            reason: "no computer has this id".into(),
            remedy: "remove it".into(),
        };
        let leftovers = instances.into_iter().filter(|id| !owned.contains(id)).map(leftover);
        Ok(leftovers.take(MAX_LEFTOVERS).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::time::deadline::SharedDeadline;

    #[tokio::test]
    async fn an_engine_keeps_its_id_and_says_what_it_cannot_do() {
        let temp = tempfile::tempdir().unwrap();
        let program = temp.path().join("program");
        fs::write(&program, "agent").unwrap();
        let host = HostSettings::new(temp.path().join("state"), temp.path().join("image"), &program);
        let settings = IncusSettings { url: "/nowhere/unix.socket".to_owned(), ..IncusSettings::default() };
        let open = || IncusEngine::open(host.clone(), settings.clone(), OpenMode::Run).unwrap();
        let (first, second) = (open().owner.clone(), open());
        assert_eq!(first, second.owner);
        let offers = second.offers();
        assert_eq!(offers.isolations(), [Isolation::Shared]);
        let shared = offers.capabilities(Isolation::Shared);
        assert!(!shared.suspend && !shared.memory_snapshot && shared.copy_while_running);
        let sandbox = IncusEngine::offer(Isolation::Sandbox).capabilities;
        assert!(sandbox.suspend && sandbox.memory_snapshot && !sandbox.boot_snapshot);
        let id = ComputerId::random();
        assert!(second.set_egress(id, None).await.is_ok());
        // A server that does not answer says nothing about a machine.
        assert!(matches!(second.observe(id).await.unwrap_err(), EngineError::Failed { .. }));
        let early = tokio::time::timeout(Duration::from_millis(50), second.wait_stopped(id)).await;
        assert!(early.is_err());
    }

    #[tokio::test]
    async fn an_engine_changes_nothing_after_the_lease_of_its_controller() {
        let temp = tempfile::tempdir().unwrap();
        let (program, socket) = (temp.path().join("program"), temp.path().join("unix.socket"));
        fs::write(&program, "agent").unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let mut host = HostSettings::new(temp.path().join("state"), temp.path().join("image"), &program);
        host.acts_until = SharedDeadline::passed();
        let url = socket.to_string_lossy().into_owned();
        let engine =
            IncusEngine::open(host, IncusSettings { url, ..IncusSettings::default() }, OpenMode::Run)
                .unwrap();
        let refused = engine.client.patch("/1.0/instances/a", &serde_json::json!({}), None).await;
        assert!(refused.unwrap_err().to_string().contains("lease"));
    }
}
