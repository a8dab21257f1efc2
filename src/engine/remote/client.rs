//! The side of the controller: an [`Engine`] that calls the host helper.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::UnixStream;
use tokio::time::Instant;
use uuid::Uuid;

use crate::remote::frames::{self, MAX_DATA, MAX_REPLY, MAX_REQUEST};
use crate::remote::protocol::{Call, KeyText, Reply, Request, VERSION};
use crate::{
    Boot, Change, DiskWatch, Effect, Endpoint, Engine, EngineError, EngineFindings, EngineResult, Extents,
    FileKey, LeftoverRecord, MachineSpec, Observation, Offer, Offers, SavedFile, SavedState, Snapshot,
};
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::template::network::egress::EgressPolicy;

/// For a helper that restarts to listen again: it opens its engine first, on a busy host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);
/// Attempts of a call whose helper died before it answered. A second death is probably the call's fault, and one attempt
/// may have reached the socket of a helper that was already dying.
const ATTEMPTS: u32 = 3;

/// Keys in one call: their text is half of the longest request.
const KEYS_AT_ONCE: usize = 1000;

const STEP: &str = "reach the host helper";

/// An engine that the host helper has.
#[derive(Debug)]
pub struct RemoteEngine {
    connection: HelperConnection,
    offers: Offers,
    guarded: Mutex<GuardedMachines>,
}

/// The way to the host helper.
#[derive(Debug)]
struct HelperConnection {
    socket: PathBuf,
    session: Uuid,
}

/// What the guard of the host's disk did, as the helper's last replies said.
#[derive(Debug, Default)]
struct GuardedMachines {
    frozen: BTreeSet<ComputerId>,
    /// Machines that it killed, until somebody asks.
    killed: BTreeSet<ComputerId>,
}

/// A call without an answer.
enum CallFailure {
    /// The helper ended, or closed the connection, before it answered.
    Lost(io::Error),
    /// The helper cannot be reached, or must not be trusted.
    Unreachable(EngineError),
}

impl HelperConnection {
    /// Calls the helper, and again when it died before it answered.
    async fn call(&self, call: Call, data: &[u8]) -> EngineResult<(Reply, Vec<u8>)> {
        let request = Request { version: VERSION, session: self.session, call };
        let mut attempt = 1;
        loop {
            match self.send(&request, data).await {
                Ok((Reply::Failure(failure), _)) => return Err(failure.into()),
                Ok(answer) => return Ok(answer),
                Err(CallFailure::Unreachable(error)) => return Err(error),
                Err(CallFailure::Lost(error)) if attempt < ATTEMPTS => {
                    tracing::warn!(%error, "the host helper ended during a call, which is repeated");
                    attempt += 1;
                    tokio::time::sleep(CONNECT_PAUSE).await;
                }
                Err(CallFailure::Lost(error)) => {
                    return Err(EngineError::failed(STEP, format!("{}: {error}", self.socket.display())));
                }
            }
        }
    }

    async fn send(&self, request: &Request, data: &[u8]) -> Result<(Reply, Vec<u8>), CallFailure> {
        let mut stream = self.open().await.map_err(CallFailure::Unreachable)?;
        frames::write(&mut stream, request, data, MAX_REQUEST).await.map_err(|error| {
            if error.kind() == io::ErrorKind::InvalidInput {
                CallFailure::Unreachable(EngineError::failed("send a request to the host helper", error))
            } else {
                CallFailure::Lost(error)
            }
        })?;
        frames::read(&mut stream, MAX_REPLY).await.map_err(CallFailure::Lost)
    }

    /// Opens a connection, and waits for a helper that restarts.
    async fn open(&self) -> EngineResult<UnixStream> {
        let failed =
            |error: io::Error| EngineError::failed(STEP, format!("{}: {error}", self.socket.display()));
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let stream = loop {
            match UnixStream::connect(&self.socket).await {
                Ok(stream) => break stream,
                Err(error) if is_absent(&error) && Instant::now() < deadline => {
                    tokio::time::sleep(CONNECT_PAUSE).await;
                }
                Err(error) => return Err(failed(error)),
            }
        };
        // Another process that listens there would get the tokens of agents.
        let owner = stream.peer_cred().map_err(failed)?.uid();
        let own = rustix::process::geteuid().as_raw();
        if owner != 0 && owner != own {
            let detail =
                format!("{} belongs to the user with id {owner}, not to root", self.socket.display());
            return Err(EngineError::failed(STEP, detail));
        }
        Ok(stream)
    }
}

impl RemoteEngine {
    /// Connects to the helper that listens on a socket, and asks what it offers.
    ///
    /// # Errors
    /// `Failed` when no helper answers within 30 seconds, it has another version, or it does not run as root.
    pub async fn connect(socket: PathBuf) -> EngineResult<Self> {
        let connection = HelperConnection { socket, session: Uuid::new_v4() };
        let (Reply::Offers(offers), _) = connection.call(Call::Describe {}, &[]).await? else {
            return Err(unexpected("offers"));
        };
        let offers = offers.into_iter().map(Offer::try_from).collect::<EngineResult<_>>()?;
        Ok(Self { connection, offers: Offers::several(offers)?, guarded: Mutex::default() })
    }

    fn guarded(&self) -> MutexGuard<'_, GuardedMachines> {
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call(&self, call: Call) -> EngineResult<Reply> {
        self.call_with(call, &[]).await.map(|(reply, _)| reply)
    }

    async fn call_with(&self, call: Call, data: &[u8]) -> EngineResult<(Reply, Vec<u8>)> {
        self.connection.call(call, data).await
    }

    async fn complete(&self, call: Call) -> EngineResult<()> {
        let Reply::Complete = self.call(call).await? else {
            return Err(unexpected("complete"));
        };
        Ok(())
    }

    async fn endpoint(&self, call: Call) -> EngineResult<Endpoint> {
        let Reply::Endpoint(endpoint) = self.call(call).await? else {
            return Err(unexpected("endpoint"));
        };
        Ok(endpoint.into())
    }
}

/// Whether nobody listens on the socket, as while a helper restarts, or its queue is full.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotFound, WouldBlock};
    matches!(error.kind(), ConnectionRefused | NotFound | WouldBlock)
}

fn unexpected(expected: &str) -> EngineError {
    EngineError::failed("understand the host helper", format!("its reply is not {expected:?}"))
}

#[async_trait]
impl Engine for RemoteEngine {
    fn offers(&self) -> &Offers {
        &self.offers
    }

    async fn boot_inputs(&self, isolation: Isolation) -> EngineResult<String> {
        let call = Call::BootInputs { isolation: isolation.name().to_owned() };
        let Reply::BootInputs(digest) = self.call(call).await? else {
            return Err(unexpected("boot inputs"));
        };
        Ok(digest)
    }

    async fn image_id(&self) -> EngineResult<String> {
        let Reply::ImageId(digest) = self.call(Call::ImageId {}).await? else {
            return Err(unexpected("the id of the image"));
        };
        Ok(digest)
    }

    async fn add_keys(&self, keys: &[FileKey]) -> EngineResult<()> {
        for some in keys.chunks(KEYS_AT_ONCE) {
            self.complete(Call::AddKeys { keys: some.iter().map(KeyText::from).collect() }).await?;
        }
        Ok(())
    }

    async fn encrypt(&self, id: ComputerId, key: &FileKey) -> EngineResult<()> {
        self.complete(Call::Encrypt { id: id.0, key: key.into() }).await
    }

    async fn remove_unused_keys(&self) -> EngineResult<()> {
        self.complete(Call::RemoveUnusedKeys {}).await
    }

    async fn create(&self, spec: &MachineSpec) -> EngineResult<()> {
        self.complete(Call::Create { spec: spec.into() }).await
    }

    async fn start(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        self.endpoint(Call::Start { spec: spec.into(), boot: boot.into() }).await
    }

    async fn stop(&self, id: ComputerId, grace: Duration) -> EngineResult<()> {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        self.complete(Call::Stop { id: id.0, grace_ms }).await
    }

    async fn destroy(&self, id: ComputerId) -> EngineResult<()> {
        self.complete(Call::Destroy { id: id.0 }).await
    }

    async fn observe(&self, id: ComputerId) -> EngineResult<Observation> {
        let Reply::Observation(observation) = self.call(Call::Observe { id: id.0 }).await? else {
            return Err(unexpected("observation"));
        };
        Ok(observation.into())
    }

    async fn check_capacity(&self, id: ComputerId, rollback_to: Option<Uuid>) -> EngineResult<()> {
        self.complete(Call::CheckCapacity { id: id.0, rollback_to }).await
    }

    async fn list(&self) -> EngineResult<Vec<ComputerId>> {
        let Reply::Machines(ids) = self.call(Call::List {}).await? else {
            return Err(unexpected("machines"));
        };
        Ok(ids.into_iter().map(ComputerId).collect())
    }

    /// Asks again whenever the helper ends: its successor knows the machine.
    async fn wait_stopped(&self, id: ComputerId) -> EngineResult<()> {
        let call = Call::WaitStopped { id: id.0 };
        let request = Request { version: VERSION, session: self.connection.session, call };
        loop {
            match self.connection.send(&request, &[]).await {
                Ok((Reply::Stopped { killed }, _)) => {
                    if killed {
                        self.guarded().killed.insert(id);
                    }
                    return Ok(());
                }
                Ok((Reply::Failure(failure), _)) => return Err(failure.into()),
                Ok(_) => return Err(unexpected("stopped")),
                // While there is no helper, nobody can know; the next attempt waits for one.
                Err(CallFailure::Lost(_)) => tokio::time::sleep(CONNECT_PAUSE).await,
                Err(CallFailure::Unreachable(error)) => {
                    tracing::warn!(computer = %id, error = format_args!("{error:#}"), "cannot watch a machine; retried");
                    tokio::time::sleep(CONNECT_TIMEOUT).await;
                }
            }
        }
    }

    async fn maintain(&self) -> EngineResult<()> {
        self.complete(Call::Maintain {}).await
    }

    async fn watch_disk(&self) -> EngineResult<DiskWatch> {
        let Reply::Disk { free, next_ms, frozen } = self.call(Call::WatchDisk {}).await? else {
            return Err(unexpected("disk"));
        };
        let watch = DiskWatch { free, frozen: frozen.len(), next: Duration::from_millis(next_ms) };
        self.guarded().frozen = frozen.into_iter().map(ComputerId).collect();
        Ok(watch)
    }

    fn is_frozen(&self, id: ComputerId) -> bool {
        self.guarded().frozen.contains(&id)
    }

    fn take_killed(&self, id: ComputerId) -> bool {
        self.guarded().killed.remove(&id)
    }

    async fn suspend(&self, id: ComputerId) -> EngineResult<()> {
        self.complete(Call::Suspend { id: id.0 }).await
    }

    async fn resume(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        self.endpoint(Call::Resume { spec: spec.into(), boot: boot.into() }).await
    }

    async fn discard_memory(&self, id: ComputerId) -> EngineResult<()> {
        self.complete(Call::DiscardMemory { id: id.0 }).await
    }

    async fn saved_state(&self, id: ComputerId) -> EngineResult<Option<SavedState>> {
        let Reply::SavedState(state) = self.call(Call::SavedState { id: id.0 }).await? else {
            return Err(unexpected("saved state"));
        };
        Ok(state)
    }

    async fn read_saved(&self, id: ComputerId, file: &str, from: u64, most: usize) -> EngineResult<Extents> {
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let call = Call::ReadSaved { id: id.0, file: file.to_owned(), from, most };
        let (Reply::Extents(places), bytes) = self.call_with(call, &[]).await? else {
            return Err(unexpected("extents"));
        };
        Ok(Extents { places, bytes })
    }

    async fn evict(&self, id: ComputerId) -> EngineResult<()> {
        self.complete(Call::Evict { id: id.0 }).await
    }

    async fn write_saved(&self, id: ComputerId, file: &SavedFile, data: Extents) -> EngineResult<()> {
        let Extents { places, bytes } = data;
        let call = Call::WriteSaved { id: id.0, file: file.clone(), places };
        let (Reply::Complete, _) = self.call_with(call, &bytes).await? else {
            return Err(unexpected("complete"));
        };
        Ok(())
    }

    async fn finish_fetch(&self, id: ComputerId, with_memory: bool) -> EngineResult<()> {
        self.complete(Call::FinishFetch { id: id.0, with_memory }).await
    }

    async fn sync_fetched(&self, id: ComputerId) -> EngineResult<()> {
        self.complete(Call::SyncFetched { id: id.0 }).await
    }

    async fn resize(&self, id: ComputerId, change: Change) -> EngineResult<Effect> {
        let Reply::Effect(effect) = self.call(Call::Resize { id: id.0, change }).await? else {
            return Err(unexpected("effect"));
        };
        Ok(effect)
    }

    async fn set_egress(&self, id: ComputerId, policy: Option<&EgressPolicy>) -> EngineResult<()> {
        self.complete(Call::SetEgress { id: id.0, policy: policy.map(ToString::to_string) }).await
    }

    async fn copy_disk(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        self.complete(Call::CopyDisk { from: from.0, to: to.into() }).await
    }

    async fn fork(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        self.complete(Call::Fork { from: from.0, to: to.into() }).await
    }

    async fn launch(&self, from: ComputerId, snapshot: Uuid, to: &MachineSpec) -> EngineResult<()> {
        self.complete(Call::Launch { from: from.0, snapshot, to: to.into() }).await
    }

    async fn snapshot(&self, id: ComputerId, snapshot: Uuid, memory: bool) -> EngineResult<Snapshot> {
        let Reply::Snapshot(taken) = self.call(Call::Snapshot { id: id.0, snapshot, memory }).await? else {
            return Err(unexpected("snapshot"));
        };
        Ok(taken)
    }

    async fn rollback(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        self.complete(Call::Rollback { id: id.0, snapshot }).await
    }

    async fn remove_snapshot(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        self.complete(Call::RemoveSnapshot { id: id.0, snapshot }).await
    }

    async fn snapshots(&self, id: ComputerId) -> EngineResult<Vec<Uuid>> {
        let Reply::Snapshots(snapshots) = self.call(Call::Snapshots { id: id.0 }).await? else {
            return Err(unexpected("snapshots"));
        };
        Ok(snapshots)
    }

    async fn keep_layer(&self, id: ComputerId, layer: LayerId) -> EngineResult<u64> {
        let Reply::Layer(bytes) = self.call(Call::KeepLayer { id: id.0, layer: layer.0 }).await? else {
            return Err(unexpected("layer"));
        };
        Ok(bytes)
    }

    async fn base_id(&self, name: &str) -> EngineResult<Option<String>> {
        let Reply::BaseId(id) = self.call(Call::BaseId { name: name.to_owned() }).await? else {
            return Err(unexpected("the id of an imported image"));
        };
        Ok(id)
    }

    async fn keep_base(&self, name: &str, id: &str, layer: LayerId) -> EngineResult<u64> {
        let call = Call::KeepBase { name: name.to_owned(), id: id.to_owned(), layer: layer.0 };
        let Reply::Layer(bytes) = self.call(call).await? else {
            return Err(unexpected("layer"));
        };
        Ok(bytes)
    }

    async fn keep_programs(
        &self,
        list: &str,
        below: &[LayerId],
        layer: LayerId,
    ) -> EngineResult<Option<u64>> {
        if list.len() > MAX_DATA {
            return Ok(None);
        }
        let below = below.iter().map(|layer| layer.0).collect();
        let call = Call::KeepPrograms { below, layer: layer.0 };
        let (Reply::WrittenLayer(bytes), _) = self.call_with(call, list.as_bytes()).await? else {
            return Err(unexpected("layer"));
        };
        Ok(bytes)
    }

    async fn remove_layer(&self, layer: LayerId) -> EngineResult<()> {
        self.complete(Call::RemoveLayer { layer: layer.0 }).await
    }

    async fn layers(&self) -> EngineResult<Vec<LayerId>> {
        let Reply::Layers(layers) = self.call(Call::Layers {}).await? else {
            return Err(unexpected("layers"));
        };
        Ok(layers.into_iter().map(LayerId).collect())
    }

    async fn check_host(&self, thorough: bool) -> EngineResult<Vec<EngineFindings>> {
        let Reply::Findings(found) = self.call(Call::CheckHost { thorough }).await? else {
            return Err(unexpected("findings"));
        };
        found.into_iter().map(EngineFindings::try_from).collect()
    }

    async fn find_leftovers(&self, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<LeftoverRecord>> {
        let owned = owned.iter().map(|id| id.0).collect();
        let Reply::Leftovers(found) = self.call(Call::FindLeftovers { owned }).await? else {
            return Err(unexpected("leftovers"));
        };
        Ok(found)
    }
}
