//! Copies, snapshots, and changes of the size of instances.

use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::incus::IncusEngine;
use crate::incus::client::ClientError;
use crate::incus::documents::{self, Power};
use crate::incus::hosts::target_query;
use crate::incus::lifecycle::check_supported;
use crate::{Change, Effect, EngineError, EngineResult, MachineSpec, Snapshot};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::isolation::Isolation;

const COPY: &str = "copy the disk";
const SNAPSHOT: &str = "take a snapshot";
const ROLLBACK: &str = "roll the disk back";
const REMOVE: &str = "remove the snapshot";
const RESIZE: &str = "change the size of the machine";
/// Timeout of an operation on snapshots: a pool without copy-on-write copies a whole disk.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Deserialize)]
struct SnapshotRecord {
    /// Bytes; negative where the pool cannot say.
    #[serde(default)]
    size: i64,
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
        let network = match self.bridge().await? {
            Some(bridge) => Some(self.addresses.claim(&self.client, &bridge, to.id).await?),
            None => None,
        };
        let document = documents::copy(
            &self.settings,
            to,
            &self.owner,
            (self.cluster.name(from).as_str(), &source),
            network.as_ref(),
        );
        // On another member, the copy would be a transfer of the whole disk.
        let query = source.member().map(target_query).unwrap_or_default();
        let path = format!("/1.0/instances{query}");
        self.make(to.id, &path, &document, COPY).await
    }

    pub(super) async fn take_snapshot(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<Snapshot> {
        let failed = |error: ClientError| error.at(SNAPSHOT);
        if self.find_made(id, SNAPSHOT).await?.is_none() {
            return Err(EngineError::Absent);
        }
        let record = match self.find_snapshot(id, snapshot).await.map_err(failed)? {
            Some(record) => record,
            None => {
                let request = json!({ "name": documents::snapshot_name(snapshot), "stateful": false });
                let path = format!("{}/snapshots", self.cluster.path(id));
                self.client
                    .run(Method::POST, &path, Some(&request), SNAPSHOT_TIMEOUT)
                    .await
                    .map_err(failed)?;
                let made = self.find_snapshot(id, snapshot).await.map_err(failed)?;
                made.ok_or_else(|| EngineError::failed(SNAPSHOT, "it is gone"))?
            }
        };
        Ok(Snapshot { bytes: u64::try_from(record.size).unwrap_or_default(), memory: false })
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

    /// Refuses a rollback to a snapshot that is not there.
    pub(super) async fn check_snapshot(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        self.cluster.ensure_names().await?;
        match self.find_snapshot(id, snapshot).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(EngineError::Damaged(format!("there is no snapshot {snapshot}"))),
            Err(error) => Err(error.at(ROLLBACK)),
        }
    }

    pub(super) async fn roll_back(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        let Some((instance, _)) = self.find_made(id, ROLLBACK).await? else {
            return Err(EngineError::Absent);
        };
        // Incus would stop it for the rollback and start it again.
        if instance.power() != Power::Stopped {
            return Err(EngineError::failed(ROLLBACK, "the machine is not stopped"));
        }
        self.check_snapshot(id, snapshot).await?;
        let request = json!({ "restore": documents::snapshot_name(snapshot) });
        let path = self.cluster.path(id);
        let done = self.client.run(Method::PUT, &path, Some(&request), SNAPSHOT_TIMEOUT).await;
        done.map_err(|error| error.at(ROLLBACK))?;
        match instance.isolation() {
            // The snapshot may be of a suspended machine.
            Isolation::Sandbox => self.discard_saved(id).await,
            Isolation::Shared | Isolation::Vm => Ok(()),
        }
    }

    pub(super) async fn drop_snapshot(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        self.cluster.ensure_names().await?;
        let path = self.snapshot_path(id, snapshot);
        match self.client.run(Method::DELETE, &path, None, SNAPSHOT_TIMEOUT).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_missing() => Ok(()),
            Err(error) => Err(error.at(REMOVE)),
        }
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
