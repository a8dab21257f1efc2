//! Replicas of instances on a second member: refresh, removal, and the begin from one.
//!
//! ```text
//!   hd-<id> on m1 -- snapshot r-<time> -- copy with refresh --> hr-<id>-1 on m2, label state = r-<time>
//!                                                                   |  m1 is gone
//!                              restore r-<time>, rename to hd-<id>-1 (documents/names.rs)
//! ```
//! A refresh sends what changed since the snapshot of the last one, which both sides keep. It may be interrupted at any moment:
//! the label names the last snapshot that came whole.

use std::collections::BTreeSet;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use crate::incus::IncusEngine;
use crate::incus::client::ClientError;
use crate::incus::documents::{self, FAILED, FROM, Instance, MADE, OWNER, SAVED, STATE};
use crate::{EngineError, EngineResult};
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::host::outage::HostState;
use hotdesk_domain::host::replica::{choose_host, needs_new_copy};

const REFRESH: &str = "refresh the replica";
const LIST: &str = "list the replicas";
const REMOVE: &str = "remove the replica";
const BEGIN: &str = "begin from the replica";
/// Timeout of a copy: the first one sends the whole disk, also the files of the image.
const COPY_TIMEOUT: Duration = Duration::from_secs(3600);
/// Timeout of an operation on snapshots and names.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(600);

impl IncusEngine {
    pub(super) async fn refresh_replica(
        &self,
        id: ComputerId,
        present: Option<&str>,
        besides: &BTreeSet<String>,
    ) -> EngineResult<String> {
        let failed = |error: ClientError| error.at(REFRESH);
        let Some((source, _)) = self.find_made(id, REFRESH).await? else { return Err(EngineError::Absent) };
        let (members, instances) = self.cluster.members();
        let mut preferred = members.clone();
        preferred.retain(|name, _| !besides.contains(name));
        let host = choose_host(&preferred, &instances, &source.location, present)
            .or_else(|| choose_host(&members, &instances, &source.location, present))
            .ok_or_else(|| EngineError::failed(REFRESH, "no second member of the cluster answers"))?;
        let (from, to) = (self.cluster.name(id), documents::replica_name(id, self.cluster.number(id) + 1));
        let replica = documents::path_of(&to);
        if self.cluster.is_out(&to) {
            return Err(EngineError::failed(REFRESH, "the member of the replica does not answer"));
        }
        let earlier = self.find_replica(&to, REFRESH).await?;
        let failures = earlier.as_ref().and_then(|earlier| earlier.label(FAILED)?.parse().ok()).unwrap_or(0);
        if needs_new_copy(earlier.as_ref().map(|earlier| earlier.location.as_str()), &host, failures) {
            // The controller first forgets it: its record must not show a replica that is not there.
            return Err(EngineError::Damaged(format!("the replica {to} must be copied anew")));
        }
        if let Some(base) = source.base() {
            self.bring_base(base, Some(&host), REFRESH).await?;
        }
        let state = documents::state_name(clock::now().as_i64());
        let snapshots = format!("{}/snapshots", documents::path_of(&from));
        let request = json!({ "name": state, "stateful": false });
        self.client.run(Method::POST, &snapshots, Some(&request), CHANGE_TIMEOUT).await.map_err(failed)?;
        let document = documents::replica(&to, &self.owner, (from.as_str(), &source), id);
        let path = format!("/1.0/instances?target={host}");
        let copied = self.client.run(Method::POST, &path, Some(&document), COPY_TIMEOUT).await;
        self.cluster.note_location(&to, &host);
        if let Err(error) = copied {
            let label = json!({ "config": { FAILED: (failures + 1).to_string() } });
            if let Err(unmarked) = self.client.patch(&replica, &label, None).await {
                tracing::debug!(computer = %id, error = %unmarked, "could not mark the replica");
            }
            return Err(failed(error));
        }
        let label = json!({ "config": { STATE: state, FAILED: "", FROM: source.location } });
        self.client.patch(&replica, &label, None).await.map_err(failed)?;
        self.drop_states(&from, Some(&state)).await;
        Ok(host)
    }

    /// An instance of this name, which this engine made; `None` when there is none.
    async fn find_replica(&self, name: &str, step: &'static str) -> EngineResult<Option<Instance>> {
        let found = match self.client.get(&documents::path_of(name)).await {
            Ok(found) => found,
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(error.at(step)),
        };
        let instance: Instance =
            serde_json::from_value(found).map_err(|error| EngineError::failed(step, error))?;
        if instance.label(OWNER) != Some(self.owner.as_str()) {
            return Err(EngineError::failed(step, format!("{name} belongs to another controller")));
        }
        self.cluster.note_location(name, &instance.location);
        Ok(Some(instance))
    }

    /// Removes the snapshots for replicas of an instance but this one. A failure leaves some for the next refresh.
    async fn drop_states(&self, name: &str, but: Option<&str>) {
        if let Err(error) = self.try_drop_states(name, but).await {
            tracing::debug!(instance = name, %error, "could not remove an old snapshot for the replica");
        }
    }

    async fn try_drop_states(&self, name: &str, but: Option<&str>) -> Result<(), ClientError> {
        let snapshots = format!("{}/snapshots", documents::path_of(name));
        let listed = self.client.get(&snapshots).await?;
        let paths = listed.as_array().into_iter().flatten().filter_map(Value::as_str);
        let states = paths.filter_map(documents::state_of_path).filter(|state| Some(*state) != but);
        let old: Vec<String> = states.map(|state| format!("{snapshots}/{state}")).collect();
        for path in old {
            self.client.run(Method::DELETE, &path, None, CHANGE_TIMEOUT).await?;
        }
        Ok(())
    }

    /// Deletes a stopped instance with its snapshots; a missing one counts as deleted.
    async fn delete(&self, name: &str, step: &'static str) -> EngineResult<()> {
        match self.client.run(Method::DELETE, &documents::path_of(name), None, CHANGE_TIMEOUT).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_missing() => Ok(()),
            Err(error) => Err(error.at(step)),
        }
    }

    pub(super) async fn list_replicas(&self) -> EngineResult<Vec<ComputerId>> {
        let path = format!("/1.0/instances?filter=config.{OWNER}%20eq%20{}", self.owner);
        let listed = self.client.get(&path).await.map_err(|error| error.at(LIST))?;
        let paths: Vec<String> =
            serde_json::from_value(listed).map_err(|error| EngineError::failed(LIST, error))?;
        let names = paths.iter().filter_map(|path| documents::name_of_path(path));
        let mut ids: Vec<ComputerId> = names.filter_map(documents::replica_of).map(|(id, _)| id).collect();
        ids.sort();
        ids.dedup();
        Ok(ids)
    }

    pub(super) async fn drop_replica(&self, id: ComputerId) -> EngineResult<()> {
        for name in self.cluster.list_names().await? {
            let is_own = documents::replica_of(&name).is_some_and(|(of, _)| of == id);
            if is_own && !self.cluster.is_out(&name) && self.find_replica(&name, REMOVE).await?.is_some() {
                self.delete(&name, REMOVE).await?;
            }
        }
        self.cluster.forget_lost(id);
        let machine = self.cluster.name(id);
        if !self.cluster.is_out(&machine) {
            self.drop_states(&machine, None).await;
        }
        Ok(())
    }

    /// Removes the replica and the superseded instances of a computer whose machine is removed. Those of members that do not
    /// answer stay: the controller removes replicas later, and superseded instances at its next start.
    pub(super) async fn remove_copies(&self, id: ComputerId, step: &'static str) -> EngineResult<()> {
        for name in self.cluster.list_names().await? {
            let of = documents::machine_of(&name).or_else(|| documents::replica_of(&name));
            let is_own = of.is_some_and(|(of, _)| of == id);
            if !is_own {
                continue;
            }
            if self.cluster.is_out(&name) {
                tracing::warn!(instance = name, "it stays, because its host does not answer");
                continue;
            }
            if self.find_replica(&name, step).await?.is_some() {
                // A superseded one may run since its member returned.
                let request = json!({ "action": "stop", "timeout": -1, "force": true });
                let state = format!("{}/state", documents::path_of(&name));
                if let Err(error) = self.client.run(Method::PUT, &state, Some(&request), CHANGE_TIMEOUT).await
                {
                    tracing::debug!(instance = name, %error, "it was stopped already");
                }
                self.delete(&name, step).await?;
            }
        }
        self.cluster.forget_lost(id);
        Ok(())
    }

    pub(super) async fn promote_replica(&self, id: ComputerId) -> EngineResult<()> {
        let failed = |error: ClientError| error.at(BEGIN);
        // Fresh: the answer to an earlier call's renaming may have been lost.
        let known = self.cluster.number(id);
        let names = self.cluster.list_names().await?;
        let number = self.cluster.number(id);
        if names.contains(&self.cluster.name(id)) {
            // The present machine: an earlier call has begun from the replica, or nothing was lost.
            self.cluster.forget_lost(id);
        } else if self.complete_move(id, false, BEGIN).await? {
            return Err(EngineError::failed(BEGIN, "its interrupted move is complete; start it again"));
        }
        // Fresh, too: a machine that was moved off the host since the last look runs elsewhere.
        self.cluster.locate_again(&self.cluster.name(id)).await?;
        let Some(outage) = self.cluster.outage(id) else {
            // With a new number, the machine is the former replica, whose member answers.
            return if number > known { Ok(()) } else { Err(EngineError::failed(BEGIN, "its host answers")) };
        };
        let state = self.cluster.state_now(&outage.host).await?;
        if !matches!(state, Some(HostState::Offline | HostState::Removed)) {
            return Err(EngineError::failed(BEGIN, format!("the host {} is not offline", outage.host)));
        }
        let replica = documents::replica_name(id, number + 1);
        if !names.contains(&replica) {
            return Err(EngineError::Absent);
        }
        let Some(instance) = self.find_replica(&replica, BEGIN).await? else {
            return Err(EngineError::Absent);
        };
        let path = documents::path_of(&replica);
        match instance.label(STATE) {
            // A later refresh may have come in part.
            Some(state) => {
                let restore = json!({ "restore": state });
                self.client.run(Method::PUT, &path, Some(&restore), CHANGE_TIMEOUT).await.map_err(failed)?;
            }
            // An interrupted call has restored it: it has the labels of the machine at its time.
            None if instance.is_made() => {}
            None => return Err(EngineError::Damaged(format!("the first copy to {replica} is not whole"))),
        }
        // The state may be that of a suspended machine, whose memory is not continued on another member.
        let label = json!({ "config": { MADE: "1", FAILED: "", SAVED: "", FROM: "" } });
        self.client.patch(&path, &label, None).await.map_err(failed)?;
        let rename = json!({ "name": documents::name(id, number + 1) });
        self.client.run(Method::POST, &path, Some(&rename), CHANGE_TIMEOUT).await.map_err(failed)?;
        self.links.close(id)?;
        self.cluster.note_location(&documents::name(id, number + 1), &instance.location);
        self.cluster.note_number(id, number + 1);
        Ok(())
    }
}
