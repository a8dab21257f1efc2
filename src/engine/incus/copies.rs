//! Copies, forks, snapshots, and changes of the size of instances.
//!
//! ```text
//!   snapshot with memory:  guest stands still, memory on the disk -- label with the snapshot -- snapshot by Incus -- guest goes on
//!   fork:                  guest stands still, memory on the disk -- copy by Incus --------------------------------- guest goes on
//!                                                                                              label: the copy is whole
//!   rollback:              snapshot restored by Incus -- label: its memory is saved
//! ```
//! A copy or a snapshot counts only after the launcher has confirmed that the guest stood still all the time. Where anything ends
//! before, the guest goes on, and the controller removes the rest with the row that it belongs to. A rollback is repeated.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::incus::IncusEngine;
use crate::incus::client::ClientError;
use crate::incus::documents::{self, Instance, Power, SAVED, SNAPSHOT as SNAPSHOT_LABEL, SnapshotLabel};
use crate::incus::hosts::{has_operation, target_query};
use crate::incus::lifecycle::check_supported;
use crate::{Change, Effect, EngineError, EngineResult, MachineSpec, Snapshot};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::isolation::Isolation;

const COPY: &str = "copy the disk";
const COPY_MEMORY: &str = "copy memory";
const SNAPSHOT: &str = "take a snapshot";
const ROLLBACK: &str = "roll the disk back";
const REMOVE: &str = "remove the snapshot";
const RESIZE: &str = "change the size of the machine";
/// Timeout of an operation on snapshots: a pool without copy-on-write copies a whole disk.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(600);

/// Pause before a second attempt to remove a snapshot on whose instance Incus works.
const SNAPSHOT_PAUSE: Duration = Duration::from_millis(500);
/// Attempts to label an instance whose configuration Incus changes at the same time.
const LABEL_TRIES: u32 = 5;
/// Status of a change whose `If-Match` is that of an earlier configuration.
const CHANGED: u16 = 412;

/// A snapshot, as the API describes it.
#[derive(Debug, Deserialize)]
struct SnapshotRecord {
    /// Bytes; negative where the pool cannot say.
    #[serde(default)]
    size: i64,
    /// The configuration of the instance at the time of the snapshot.
    #[serde(default)]
    config: BTreeMap<String, String>,
    #[serde(default)]
    devices: BTreeMap<String, BTreeMap<String, String>>,
}

impl SnapshotRecord {
    fn label(&self, snapshot: Uuid) -> Option<SnapshotLabel> {
        SnapshotLabel::read(self.config.get(SNAPSHOT_LABEL)?, snapshot)
    }

    fn describe(&self, snapshot: Uuid) -> Snapshot {
        match self.label(snapshot) {
            Some(label) => Snapshot { bytes: label.bytes, memory: label.memory.is_some() },
            // An earlier version took it.
            None => Snapshot { bytes: u64::try_from(self.size).unwrap_or_default(), memory: false },
        }
    }

    /// The generation whose memory it has.
    fn memory(&self, snapshot: Uuid) -> Option<u64> {
        self.label(snapshot)?.memory
    }

    /// The instance at the time of the snapshot, on the member of the instance of today.
    fn into_instance(self, now: &Instance) -> Instance {
        let (location, architecture) = (now.location.clone(), now.architecture.clone());
        let Self { config, devices, size: _ } = self;
        Instance { status: "Stopped".to_owned(), architecture, location, config, devices }
    }
}

impl IncusEngine {
    pub(super) async fn copy_instance(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        check_supported(to)?;
        let Some((source, _)) = self.find_made(from, COPY).await? else { return Err(EngineError::Absent) };
        if source.isolation() != to.isolation {
            return Err(EngineError::Unsupported("change the isolation of an instance"));
        }
        if !self.needs_instance(to.id).await? {
            return Ok(());
        }
        let document = self.copy_document(to, (self.cluster.name(from).as_str(), &source), None).await?;
        self.make(to.id, &copy_path(&source), &document, COPY).await
    }

    /// Document of a copy of an instance or a snapshot, after the copy's address is claimed.
    async fn copy_document(
        &self,
        to: &MachineSpec,
        source: (&str, &Instance),
        memory: Option<u64>,
    ) -> EngineResult<Value> {
        let network = match self.bridge().await? {
            Some(bridge) => Some(self.addresses.claim(&self.client, &bridge, to.id).await?),
            None => None,
        };
        Ok(documents::copy(&self.settings, to, &self.owner, source, network.as_ref(), memory))
    }

    pub(super) async fn fork_instance(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        check_supported(to)?;
        let Some((source, _)) = self.find_made(from, COPY_MEMORY).await? else {
            return Err(EngineError::Absent);
        };
        check_memory_copy(&source, to)?;
        if !self.needs_copy_with_memory(to.id).await? {
            return Ok(());
        }
        let generation = running_generation(&source)?;
        let name = self.cluster.name(from);
        // Before the guest stands still.
        let document = self.copy_document(to, (name.as_str(), &source), Some(generation)).await?;
        let paused = self.pause_guest(from, generation, COPY_MEMORY).await?;
        let path = copy_path(&source);
        let copied = paused.during(self.make_unlabelled(&path, &document, COPY_MEMORY)).await;
        if let Err(error) = copied {
            if let Err(left) = self.remove(to.id).await {
                tracing::warn!(
                    computer = %to.id,
                    error = format_args!("{left:#}"),
                    "an incomplete fork stays until it is removed with its computer"
                );
            }
            return Err(error);
        }
        self.label_made(to.id, COPY_MEMORY).await
    }

    pub(super) async fn launch_instance(
        &self,
        from: ComputerId,
        snapshot: Uuid,
        to: &MachineSpec,
    ) -> EngineResult<()> {
        check_supported(to)?;
        let Some((source, _)) = self.find_made(from, COPY_MEMORY).await? else {
            return Err(EngineError::Absent);
        };
        check_memory_copy(&source, to)?;
        let record = self.find_snapshot(from, snapshot).await.map_err(|error| error.at(COPY_MEMORY))?;
        let found = record.and_then(|record| Some((record.memory(snapshot)?, record.into_instance(&source))));
        let Some((generation, then)) = found else {
            return Err(EngineError::Damaged(format!("there is no snapshot {snapshot} with memory")));
        };
        if !self.needs_copy_with_memory(to.id).await? {
            return Ok(());
        }
        let name = format!("{}/{}", self.cluster.name(from), documents::snapshot_name(snapshot));
        let document = self.copy_document(to, (name.as_str(), &then), Some(generation)).await?;
        self.make(to.id, &copy_path(&source), &document, COPY_MEMORY).await
    }

    /// Whether a copy with memory must be made. Removes one that is not whole.
    async fn needs_copy_with_memory(&self, id: ComputerId) -> EngineResult<bool> {
        if self.needs_instance(id).await? {
            return Ok(true);
        }
        let Some((made, _)) = self.find_made(id, COPY_MEMORY).await? else { return Ok(true) };
        let is_suspended = made.power() == Power::Stopped && self.saved_memory(id, &made).await?.is_some();
        if is_suspended {
            Ok(false)
        } else {
            Err(EngineError::failed(COPY_MEMORY, "the copy is there, without saved memory"))
        }
    }

    pub(super) async fn take_snapshot(
        &self,
        id: ComputerId,
        snapshot: Uuid,
        with_memory: bool,
    ) -> EngineResult<Snapshot> {
        let Some((instance, _)) = self.find_made(id, SNAPSHOT).await? else {
            return Err(EngineError::Absent);
        };
        if with_memory && instance.isolation() != Isolation::Sandbox {
            return Err(EngineError::Unsupported("snapshot memory"));
        }
        if let Some(record) = self.find_snapshot(id, snapshot).await.map_err(|error| error.at(SNAPSHOT))? {
            return Ok(record.describe(snapshot));
        }
        if !with_memory {
            return self.make_snapshot(id, snapshot, None).await;
        }
        let generation = running_generation(&instance)?;
        let paused = self.pause_guest(id, generation, SNAPSHOT).await?;
        let made = paused.during(self.make_snapshot(id, snapshot, Some(generation))).await;
        if made.is_err()
            && let Err(left) = self.drop_snapshot(id, snapshot).await
        {
            tracing::warn!(
                computer = %id,
                error = format_args!("{left:#}"),
                "an incomplete snapshot stays until it is removed"
            );
        }
        made
    }

    /// Labels an instance with a snapshot, and takes it. `memory` is the generation whose memory is on the disk, while its guest
    /// stands still.
    async fn make_snapshot(
        &self,
        id: ComputerId,
        snapshot: Uuid,
        memory: Option<u64>,
    ) -> EngineResult<Snapshot> {
        let failed = |error: ClientError| error.at(SNAPSHOT);
        let label = SnapshotLabel { snapshot, bytes: self.own_bytes(id).await, memory };
        let change = json!({ "config": { SNAPSHOT_LABEL: label.to_string() } });
        let is_same_boot = |now: &Instance| match memory {
            Some(generation) => now.power() == Power::Running && now.generation() == Some(generation),
            None => true,
        };
        self.label_while(id, &change, is_same_boot, SNAPSHOT).await?;
        let request = json!({ "name": documents::snapshot_name(snapshot), "stateful": false });
        let path = format!("{}/snapshots", self.cluster.path(id));
        self.client.run(Method::POST, &path, Some(&request), SNAPSHOT_TIMEOUT).await.map_err(failed)?;
        let made = self.find_snapshot(id, snapshot).await.map_err(failed)?;
        let made = made.ok_or_else(|| EngineError::failed(SNAPSHOT, "it is gone"))?;
        match made.label(snapshot) {
            Some(found) if found == label => Ok(made.describe(snapshot)),
            Some(_) | None => Err(EngineError::failed(SNAPSHOT, "somebody else has changed its label")),
        }
    }

    /// Bytes of an instance that neither its image nor a snapshot has; 0 where the pool cannot say.
    async fn own_bytes(&self, id: ComputerId) -> u64 {
        let state = self.client.get(&format!("{}/state", self.cluster.path(id))).await;
        state.ok().and_then(|state| state["disk"]["root"]["usage"].as_u64()).unwrap_or_default()
    }

    /// Changes the labels of an instance, if what is expected of it holds at the time of the change.
    async fn label_while(
        &self,
        id: ComputerId,
        change: &Value,
        is_expected: impl Fn(&Instance) -> bool,
        step: &'static str,
    ) -> EngineResult<()> {
        for _ in 0..LABEL_TRIES {
            let Some((instance, tag)) = self.find_made(id, step).await? else {
                return Err(EngineError::Absent);
            };
            if !is_expected(&instance) {
                return Err(EngineError::failed(step, "it was started or stopped at the same time"));
            }
            let tag = Some(tag.as_str()).filter(|tag| !tag.is_empty());
            match self.client.patch(&self.cluster.path(id), change, tag).await {
                Err(ClientError::Refused { status: CHANGED, .. }) => {}
                changed => return changed.map_err(|error| error.at(step)),
            }
        }
        Err(EngineError::failed(step, "its configuration changes all the time"))
    }

    async fn find_snapshot(
        &self,
        id: ComputerId,
        snapshot: Uuid,
    ) -> Result<Option<SnapshotRecord>, ClientError> {
        match self.client.get(&self.snapshot_path(id, snapshot)).await {
            Ok(found) => Ok(serde_json::from_value(found).ok()),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The record of a snapshot to which a machine is rolled back.
    async fn snapshot_record(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<SnapshotRecord> {
        let found = self.find_snapshot(id, snapshot).await.map_err(|error| error.at(ROLLBACK))?;
        found.ok_or_else(|| EngineError::Damaged(format!("there is no snapshot {snapshot}")))
    }

    /// Refuses a rollback to a snapshot that is not there.
    pub(super) async fn check_snapshot(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        self.cluster.ensure_names().await?;
        self.snapshot_record(id, snapshot).await.map(drop)
    }

    pub(super) async fn roll_back(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        let Some((instance, _)) = self.find_made(id, ROLLBACK).await? else {
            return Err(EngineError::Absent);
        };
        // Incus would stop it for the rollback and start it again.
        if instance.power() != Power::Stopped {
            return Err(EngineError::failed(ROLLBACK, "the machine is not stopped"));
        }
        self.refuse_while_moving(id, &instance, ROLLBACK).await?;
        let record = self.snapshot_record(id, snapshot).await?;
        let request = json!({ "restore": documents::snapshot_name(snapshot) });
        let path = self.cluster.path(id);
        let done = self.client.run(Method::PUT, &path, Some(&request), SNAPSHOT_TIMEOUT).await;
        done.map_err(|error| error.at(ROLLBACK))?;
        // Disk and labels are those of the snapshot from here on.
        match (instance.isolation(), record.memory(snapshot)) {
            (Isolation::Sandbox, Some(generation)) => self.label_restored_memory(id, generation).await,
            // The snapshot may be of a suspended machine.
            (Isolation::Sandbox, None) => self.discard_saved(id).await,
            (Isolation::Shared | Isolation::Vm, _) => Ok(()),
        }
    }

    /// Labels a machine as suspended that was rolled back to a snapshot with memory.
    async fn label_restored_memory(&self, id: ComputerId, generation: u64) -> EngineResult<()> {
        let change = json!({ "config": { SAVED: generation.to_string() } });
        let is_stopped = |now: &Instance| now.power() == Power::Stopped;
        self.label_while(id, &change, is_stopped, ROLLBACK).await?;
        let Some((instance, _)) = self.find_made(id, ROLLBACK).await? else {
            return Err(EngineError::Absent);
        };
        match self.saved_memory(id, &instance).await? {
            Some(_) => Ok(()),
            None => Err(EngineError::failed(ROLLBACK, "the memory is missing, though its label is there")),
        }
    }

    pub(super) async fn drop_snapshot(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        self.cluster.ensure_names().await?;
        let (path, deadline) = (self.snapshot_path(id, snapshot), Instant::now() + SNAPSHOT_TIMEOUT);
        loop {
            match self.client.run(Method::DELETE, &path, None, SNAPSHOT_TIMEOUT).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_missing() => {
                    // Incus may still be taking it, for a controller that has ended.
                    if !self.is_taking_snapshot(id).await? {
                        return Ok(());
                    }
                }
                Err(error) if error.is_busy() => {}
                Err(error) => return Err(error.at(REMOVE)),
            }
            if Instant::now() >= deadline {
                return Err(EngineError::failed(REMOVE, "Incus still works on the instance"));
            }
            tokio::time::sleep(SNAPSHOT_PAUSE).await;
        }
    }

    /// Whether Incus takes a snapshot of a machine now.
    async fn is_taking_snapshot(&self, id: ComputerId) -> EngineResult<bool> {
        let listed =
            self.client.get("/1.0/operations?recursion=1").await.map_err(|error| error.at(REMOVE))?;
        Ok(has_operation(&listed, &self.cluster.path(id), &["Snapshotting"]))
    }

    pub(super) async fn list_snapshots(&self, id: ComputerId) -> EngineResult<Vec<Uuid>> {
        const STEP: &str = "list the snapshots";
        self.cluster.ensure_names().await?;
        let listed = match self.client.get(&format!("{}/snapshots", self.cluster.path(id))).await {
            Ok(listed) => listed,
            Err(error) if error.is_missing() => return Ok(Vec::new()),
            Err(error) => return Err(error.at(STEP)),
        };
        let paths: Vec<String> =
            serde_json::from_value(listed).map_err(|error| EngineError::failed(STEP, error))?;
        let mut found: Vec<Uuid> =
            paths.iter().filter_map(|path| documents::snapshot_of_path(path)).collect();
        found.sort();
        Ok(found)
    }

    /// Changes a machine that runs at once. A stopped one gets its size at its next start.
    pub(super) async fn resize_instance(&self, id: ComputerId, change: Change) -> EngineResult<Effect> {
        let Some((instance, _)) = self.find_made(id, RESIZE).await? else { return Err(EngineError::Absent) };
        check_growth(&instance, change)?;
        if instance.power() == Power::Stopped {
            return Ok(Effect::AtNextStart);
        }
        if instance.isolation() == Isolation::Sandbox && matches!(change, Change::Memory(_) | Change::Disk(_))
        {
            // gVisor's kernel reads its memory size at boot and caches its view of the disk.
            return Ok(Effect::AtNextStart);
        }
        let Some(document) = documents::resize(&instance, change) else { return Ok(Effect::Live) };
        let Err(error) = self.client.patch(&self.cluster.path(id), &document, None).await else {
            return Ok(Effect::Live);
        };
        if let Change::Memory(limit) = change
            && let Some(used) = self.memory_in_use(id).await
            && used > limit
        {
            return Err(EngineError::MemoryInUse { used, limit });
        }
        Err(error.at(RESIZE))
    }

    async fn memory_in_use(&self, id: ComputerId) -> Option<u64> {
        let state = self.client.get(&format!("{}/state", self.cluster.path(id))).await.ok()?;
        state["memory"]["usage"].as_u64()
    }

    fn snapshot_path(&self, id: ComputerId, snapshot: Uuid) -> String {
        format!("{}/snapshots/{}", self.cluster.path(id), documents::snapshot_name(snapshot))
    }
}

/// The path that makes a copy on the member of its source. On another member, the copy would be a transfer of the whole disk.
fn copy_path(source: &Instance) -> String {
    format!("/1.0/instances{}", source.member().map(target_query).unwrap_or_default())
}

/// Refuses a source whose memory cannot be saved, and a copy that could not continue from it.
fn check_memory_copy(source: &Instance, to: &MachineSpec) -> EngineResult<()> {
    if source.isolation() != Isolation::Sandbox {
        return Err(EngineError::Unsupported("copy memory"));
    }
    if to.isolation != Isolation::Sandbox {
        let detail = format!("isolation {} cannot read the memory of sandbox", to.isolation.name());
        return Err(EngineError::failed(COPY_MEMORY, detail));
    }
    Ok(())
}

/// The generation of an instance that runs.
fn running_generation(instance: &Instance) -> EngineResult<u64> {
    let why = match (instance.power(), instance.generation()) {
        (Power::Running, Some(generation)) => return Ok(generation),
        (Power::Running, None) => "no controller of hotdesk has started it".to_owned(),
        (Power::Stopped, _) => "the machine does not run".to_owned(),
        (Power::Unknown, _) => format!("its member {:?} does not answer", instance.location),
    };
    Err(EngineError::failed(COPY_MEMORY, why))
}

/// Refuses to make a disk smaller.
fn check_growth(instance: &Instance, change: Change) -> EngineResult<()> {
    let (Change::Disk(bytes), Some(root)) = (change, instance.root_bytes()) else { return Ok(()) };
    let disk = root.saturating_sub(instance.bytes_besides_disk());
    if bytes >= disk {
        return Ok(());
    }
    Err(EngineError::failed(RESIZE, format!("{bytes} bytes is less than {disk}, and a disk cannot shrink")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(text: Value) -> Instance {
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_snapshot_has_the_size_and_the_memory_of_its_own_label() {
        let (snapshot, other) = (Uuid::new_v4(), Uuid::new_v4());
        let of = |label: &str| -> SnapshotRecord {
            serde_json::from_value(json!({ "size": -1, "config": { SNAPSHOT_LABEL: label } })).unwrap()
        };
        let with_memory = of(&format!("{snapshot} 500 7"));
        assert_eq!(with_memory.describe(snapshot), Snapshot { bytes: 500, memory: true });
        assert_eq!(with_memory.memory(snapshot), Some(7));
        // A label that an interrupted snapshot left in the instance.
        assert_eq!(with_memory.describe(other), Snapshot { bytes: 0, memory: false });
        assert_eq!(of(&format!("{snapshot} 500 disk")).memory(snapshot), None);
    }

    #[test]
    fn memory_is_copied_from_a_sandbox_that_runs_to_a_sandbox() {
        let spec = |isolation| MachineSpec {
            id: ComputerId::random(),
            isolation,
            cpu: 1.0,
            memory_bytes: 1,
            disk_bytes: 1,
            bandwidth_mbps: 0,
            layers: Vec::new(),
            egress: None,
        };
        let config = json!({"user.hotdesk.isolation": "sandbox", "user.hotdesk.generation": "7"});
        let source = instance(json!({"status": "Running", "config": config}));
        assert!(check_memory_copy(&source, &spec(Isolation::Sandbox)).is_ok());
        assert!(check_memory_copy(&source, &spec(Isolation::Shared)).is_err());
        assert_eq!(running_generation(&source).unwrap(), 7);
        assert!(running_generation(&instance(json!({"status": "Stopped", "config": config}))).is_err());
        let shared = instance(json!({"status": "Running"}));
        let refused = check_memory_copy(&shared, &spec(Isolation::Sandbox)).unwrap_err();
        assert!(matches!(refused, EngineError::Unsupported(_)), "{refused:#}");
    }

    #[test]
    fn a_disk_never_shrinks() {
        let of = |config: &Value, size: &str| {
            instance(json!({"status": "Running", "config": config, "devices": {"root": {"size": size}}}))
        };
        let shared = of(&json!({"image.hotdesk.bytes": "500", "limits.memory": "100"}), "1500");
        let sandbox = json!({
            "user.hotdesk.isolation": "sandbox", "image.hotdesk.bytes": "500", "limits.memory": "100",
        });
        for own in [shared, of(&sandbox, "1600")] {
            assert!(check_growth(&own, Change::Disk(1000)).is_ok());
            assert!(check_growth(&own, Change::Disk(999)).is_err());
            assert!(check_growth(&own, Change::Memory(1)).is_ok());
        }
    }
}
