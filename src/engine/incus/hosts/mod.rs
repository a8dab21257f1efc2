//! Hosts of instances: members of a cluster with their free resources, and moves of instances between them; in a submodule
//! tokens for new members.
//!
//! ```text
//!   move:  wait for an earlier move of the instance -- there already? --> done
//!          label the instance with the target (If-Match) -- migration by Incus -- look where it is -- remove the label
//! ```
//! Incus copies the instance under a temporary name, removes the original, and renames the copy. If the source's member dies
//! before the renaming, the next look at the instance does it.
//!
//! A start refuses an instance with the label while Incus still moves it. So a controller that died during a move, or waited
//! too long for it, never boots an instance whose disk is being sent.

mod join;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::incus::IncusEngine;
use crate::incus::client::{Client, ClientError};
use crate::incus::documents::{
    self, COMPUTER, FENCED, FROM, ImageRecord, Instance, MADE, MOVING, OWNER, Power,
};
use crate::incus::settings::IncusSettings;
use crate::{EngineError, EngineResult, HostObservation};
use hotdesk_base::ids::ComputerId;
pub use join::JoinToken;
pub(super) use join::new_token;

const LIST: &str = "list the hosts";
const LOCATE: &str = "find the host of the machine";
const MOVE: &str = "move the machine";
/// Longest move. A disk of 300 GB takes about three hours at the 30 MB/s that a busy member sent.
const MOVE_TIMEOUT: Duration = Duration::from_secs(4 * 3600);
/// Time between two looks at a move of an earlier controller.
const MOVE_PAUSE: Duration = Duration::from_secs(2);
/// Timeout of the renaming of a copy.
const RENAME_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for the resources of one member. Others answer for a member that is down after 10 to 20 s, by an error.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(15);
/// Start of the names that Incus gives the copies of moves until their last step.
const COPY_PREFIX: &str = "move-of-";
const MEMBERS_PATH: &str = "/1.0/cluster/members?recursion=1";

/// A member, as the API lists it.
#[derive(Debug, Deserialize)]
struct MemberRecord {
    server_name: String,
    status: String,
    #[serde(default)]
    message: String,
}

impl MemberRecord {
    /// The observation of a member about whose resources nothing is known yet.
    fn observation(self) -> HostObservation {
        let is_online = self.status.eq_ignore_ascii_case("online");
        let message = if is_online { String::new() } else { format!("{}: {}", self.status, self.message) };
        HostObservation { name: self.server_name, is_online, message, ..HostObservation::default() }
    }
}

/// The server's own name, and whether it is in a cluster.
struct ServerIdentity {
    name: String,
    is_clustered: bool,
}

impl ServerIdentity {
    async fn read(client: &Client, step: &'static str) -> EngineResult<Self> {
        let server = client.get("/1.0").await.map_err(|error| error.at(step))?;
        let environment = &server["environment"];
        let name = environment["server_name"].as_str().unwrap_or_default().to_owned();
        Ok(Self { name, is_clustered: environment["server_clustered"] == true })
    }
}

/// The hosts of a server or of its cluster, in ascending order of their names. `image` is the published guest image;
/// `silent` are members that are known not to answer, which are not asked.
pub(super) async fn list_hosts(
    client: &Client,
    settings: &IncusSettings,
    image: Option<&ImageRecord>,
    silent: &BTreeSet<String>,
) -> EngineResult<Vec<HostObservation>> {
    let server = ServerIdentity::read(client, LIST).await?;
    if !server.is_clustered {
        let alone = HostObservation { name: server.name, is_online: true, ..HostObservation::default() };
        return Ok(vec![measure(client, settings, image, alone, false).await]);
    }
    let listed = client.get(MEMBERS_PATH).await.map_err(|error| error.at(LIST))?;
    let members: Vec<MemberRecord> =
        serde_json::from_value(listed).map_err(|error| EngineError::failed(LIST, error))?;
    let measured = members.into_iter().map(|member| {
        let host = member.observation();
        let is_silent = silent.contains(&host.name);
        async move {
            if !host.is_online {
                host
            } else if is_silent {
                HostObservation { is_online: false, message: "it does not answer".to_owned(), ..host }
            } else {
                measure(client, settings, image, host, true).await
            }
        }
    });
    let mut hosts = join_all(measured).await;
    hosts.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(hosts)
}

/// Adds the resources of a host. One that does not tell them does not answer.
async fn measure(
    client: &Client,
    settings: &IncusSettings,
    image: Option<&ImageRecord>,
    host: HostObservation,
    is_clustered: bool,
) -> HostObservation {
    let target = if is_clustered { format!("?target={}", host.name) } else { String::new() };
    let pool = &settings.pool;
    let asked = async {
        let resources = client.get(&format!("/1.0/resources{target}")).await?;
        let space = client.get(&format!("/1.0/storage-pools/{pool}/resources{target}")).await?;
        let has_image = match image {
            None => false,
            Some(image) => {
                let volumes = format!("/1.0/storage-pools/{pool}/volumes");
                // A pool that keeps no volumes of images has none, which costs only time.
                client.get(&format!("{volumes}/image/{}{target}", image.fingerprint)).await.is_ok()
                    && match &image.base {
                        Some(base) => {
                            let found = client.get(&format!("{volumes}/custom/{base}{target}")).await;
                            found.is_ok_and(|volume| volume["config"][MADE] == "1")
                        }
                        None => true,
                    }
            }
        };
        Ok::<_, ClientError>((resources, space, has_image))
    };
    match tokio::time::timeout(MEMBER_TIMEOUT, asked).await {
        Ok(Ok((resources, space, has_image))) => with_resources(host, &resources, &space, has_image),
        Ok(Err(error)) => HostObservation { is_online: false, message: error.to_string(), ..host },
        Err(_) => {
            let message = format!("it does not answer within {} s", MEMBER_TIMEOUT.as_secs());
            HostObservation { is_online: false, message, ..host }
        }
    }
}

fn with_resources(
    host: HostObservation,
    resources: &Value,
    space: &Value,
    has_image: bool,
) -> HostObservation {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let (memory, disk) = (&resources["memory"], &space["space"]);
    HostObservation {
        cpus: u32::try_from(number(&resources["cpu"]["total"])).unwrap_or(u32::MAX),
        memory_bytes: number(&memory["total"]),
        memory_free_bytes: number(&memory["total"]).saturating_sub(number(&memory["used"])),
        disk_bytes: number(&disk["total"]),
        disk_free_bytes: number(&disk["total"]).saturating_sub(number(&disk["used"])),
        has_image,
        ..host
    }
}

/// The query that places an instance on a host.
pub(super) fn target_query(host: &str) -> String {
    format!("?target={host}")
}

impl IncusEngine {
    pub(super) async fn observe_hosts(&self) -> EngineResult<Vec<HostObservation>> {
        // Hosts are listed also while the image is not published.
        let image = match self.guest_image(self.offers.default().isolation).await {
            Ok(image) => image.find(&self.client).await.ok(),
            Err(_) => None,
        };
        // The watch notices a silence before the cluster does. Each placement would wait for such a member.
        list_hosts(&self.client, &self.settings, image.as_ref(), &self.cluster.silent()).await
    }

    pub(super) async fn locate(&self, id: ComputerId) -> EngineResult<Option<String>> {
        let Some((instance, _)) = self.find_or_complete(id, LOCATE).await? else { return Ok(None) };
        match instance.member() {
            Some(member) => Ok(Some(member.to_owned())),
            None => Ok(Some(ServerIdentity::read(&self.client, LOCATE).await?.name)),
        }
    }

    /// The path that makes an instance on a host, or where the server chooses. Without a cluster there is only one host.
    pub(super) async fn path_on(&self, host: Option<&str>, step: &'static str) -> EngineResult<String> {
        const INSTANCES: &str = "/1.0/instances";
        let Some(host) = host else { return Ok(INSTANCES.to_owned()) };
        let is_clustered = ServerIdentity::read(&self.client, step).await?.is_clustered;
        Ok(if is_clustered { format!("{INSTANCES}{}", target_query(host)) } else { INSTANCES.to_owned() })
    }

    pub(super) async fn move_instance(&self, id: ComputerId, to: &str) -> EngineResult<()> {
        self.wait_for_earlier_move(id, Instant::now() + MOVE_TIMEOUT).await?;
        let Some((instance, tag)) = self.find_or_complete(id, MOVE).await? else {
            return Err(EngineError::Absent);
        };
        let Some(member) = instance.member() else {
            return Err(EngineError::Unsupported("move machines of a server without a cluster"));
        };
        if member == to {
            return if instance.label(MOVING).is_some() { self.end_move(id, to).await } else { Ok(()) };
        }
        match instance.power() {
            Power::Stopped => {}
            Power::Running => return Err(EngineError::failed(MOVE, "it runs")),
            Power::Unknown => {
                let detail = format!("its host {member} does not answer, and the disk is there");
                return Err(EngineError::failed(MOVE, detail));
            }
        }
        // Incus would move it to a member without its guest image, and refuse to start it there.
        if let Some(base) = instance.base() {
            self.bring_base(base, Some(to), MOVE).await?;
        }
        self.links.close(id)?;
        // Refused when another controller has changed the instance since: it may be starting it.
        let (path, tag) = (self.cluster.path(id), Some(tag).filter(|tag| !tag.is_empty()));
        let label = json!({ "config": { MOVING: to } });
        self.client.patch(&path, &label, tag.as_deref()).await.map_err(|error| error.at(MOVE))?;
        let request = json!({ "name": self.cluster.name(id), "migration": true, "live": false });
        let target = format!("{path}{}", target_query(to));
        let Err(error) = self.client.run(Method::POST, &target, Some(&request), MOVE_TIMEOUT).await else {
            return self.end_move(id, to).await;
        };
        // Only the answer may have been lost: the server goes on with what it began.
        self.wait_for_earlier_move(id, Instant::now() + MOVE_TIMEOUT).await?;
        let Some((now, _)) = self.find_or_complete(id, MOVE).await? else { return Err(EngineError::Absent) };
        self.end_move(id, now.member().unwrap_or_default()).await?;
        if now.member() == Some(to) { Ok(()) } else { Err(error.at(MOVE)) }
    }

    /// The instance of a computer whose creation has finished. Where a move has removed it, and left only the copy, the copy gets
    /// its name first.
    pub(super) async fn find_or_complete(
        &self,
        id: ComputerId,
        step: &'static str,
    ) -> EngineResult<Option<(Instance, String)>> {
        let found = self.find(id, step).await?;
        // A superseded instance has the highest number while the machine has a temporary name.
        let is_superseded = found.as_ref().is_some_and(|(instance, _)| instance.label(FENCED).is_some());
        if (found.is_none() || is_superseded) && self.complete_move(id, is_superseded, step).await? {
            return self.find_made(id, step).await;
        }
        Ok(found.filter(|(instance, _)| instance.is_made() && !is_superseded))
    }

    /// Gives the copy of an interrupted move the name of the machine. Returns whether there was one.
    pub(in crate::incus) async fn complete_move(
        &self,
        id: ComputerId,
        is_superseded: bool,
        step: &'static str,
    ) -> EngineResult<bool> {
        let failed = |error: ClientError| error.at(step);
        // By their names: a list by labels leaves out instances of members that do not answer.
        let names = self.cluster.list_names().await?;
        for copy in names.iter().filter(|name| name.starts_with(COPY_PREFIX)) {
            let path = documents::path_of(copy);
            let found = match self.client.get(&path).await {
                Ok(found) => found,
                Err(error) if error.is_missing() => continue,
                // Nobody knows whose copy it is.
                Err(error) => return Err(failed(error)),
            };
            let instance: Instance =
                serde_json::from_value(found).map_err(|error| EngineError::failed(step, error))?;
            let is_own = instance.label(OWNER) == Some(self.owner.as_str())
                && instance.label(COMPUTER) == Some(id.to_string().as_str());
            let Some(to) = instance.label(MOVING).filter(|_| is_own && instance.is_made()) else { continue };
            let number = self.cluster.number(id) + u32::from(is_superseded);
            let name = documents::name(id, number);
            if self.is_being_moved(&documents::path_of(&name)).await? {
                return Err(EngineError::failed(step, format!("Incus is moving it to {to}")));
            }
            tracing::warn!(computer = %id, copy, "completing a move that was interrupted before its last step");
            let rename = json!({ "name": name });
            self.client.run(Method::POST, &path, Some(&rename), RENAME_TIMEOUT).await.map_err(failed)?;
            self.cluster.note_location(&name, &instance.location);
            self.cluster.note_number(id, number);
            return Ok(true);
        }
        Ok(false)
    }

    /// Removes the label of a move that has ended, and labels the replica, if there is one, with the member of the machine.
    async fn end_move(&self, id: ComputerId, at: &str) -> EngineResult<()> {
        let label = json!({ "config": { MOVING: "" } });
        self.client.patch(&self.cluster.path(id), &label, None).await.map_err(|error| error.at(MOVE))?;
        let replica = documents::replica_name(id, self.cluster.number(id) + 1);
        if self.cluster.has(&replica) && !self.cluster.is_out(&replica) {
            let label = json!({ "config": { FROM: at } });
            if let Err(error) = self.client.patch(&documents::path_of(&replica), &label, None).await {
                tracing::debug!(computer = %id, %error, "could not label the replica; its next refresh does");
            }
        }
        Ok(())
    }

    /// Waits while Incus moves an instance.
    async fn wait_for_earlier_move(&self, id: ComputerId, deadline: Instant) -> EngineResult<()> {
        while self.is_being_moved(&self.cluster.path(id)).await? {
            if Instant::now() >= deadline {
                let detail = format!("an earlier move still runs after {} s", MOVE_TIMEOUT.as_secs());
                return Err(EngineError::failed(MOVE, detail));
            }
            tokio::time::sleep(MOVE_PAUSE).await;
        }
        Ok(())
    }

    /// Refuses to boot an instance that Incus is moving.
    pub(super) async fn refuse_while_moving(
        &self,
        id: ComputerId,
        instance: &Instance,
        step: &'static str,
    ) -> EngineResult<()> {
        let Some(to) = instance.label(MOVING) else { return Ok(()) };
        if self.is_being_moved(&self.cluster.path(id)).await? {
            Err(EngineError::failed(step, format!("Incus is moving it to {to}")))
        } else {
            Ok(())
        }
    }

    /// Whether Incus moves an instance now.
    async fn is_being_moved(&self, path: &str) -> EngineResult<bool> {
        let listed = self.client.get("/1.0/operations?recursion=1").await.map_err(|error| error.at(MOVE))?;
        Ok(has_move(&listed, path))
    }
}

/// Whether operations, which are listed by their states, have a running migration or creation of an instance: a move is the one
/// on the one member and the other on the other.
fn has_move(operations: &Value, instance: &str) -> bool {
    has_operation(operations, instance, &["Migrating", "Creating"])
}

/// Whether operations have a running one of an instance whose description begins with one of these words.
pub(super) fn has_operation(operations: &Value, instance: &str, words: &[&str]) -> bool {
    let all = operations.as_object().into_iter().flat_map(|by_state| by_state.values());
    all.filter_map(Value::as_array).flatten().any(|operation| {
        let is_running = operation["status_code"].as_u64().is_some_and(|code| code < 200);
        let description = operation["description"].as_str().unwrap_or_default();
        let is_wanted = words.iter().any(|word| description.starts_with(*word));
        let resources = operation["resources"].as_object();
        let mut paths =
            resources.into_iter().flat_map(|kinds| kinds.values()).filter_map(Value::as_array).flatten();
        is_running
            && is_wanted
            && paths.any(|path| path.as_str().is_some_and(|path| is_path_of(path, instance)))
    })
}

/// Whether a path, which may have a query, is that of an instance.
fn is_path_of(path: &str, instance: &str) -> bool {
    path.split('?').next() == Some(instance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_counts_as_online_by_its_status() {
        for (status, is_online) in
            [("Online", true), ("ONLINE", true), ("Offline", false), ("Evacuated", false), ("Blocked", false)]
        {
            let record = json!({"server_name": "m1", "status": status, "message": "Fully operational"});
            let host = serde_json::from_value::<MemberRecord>(record).unwrap().observation();
            assert_eq!((host.is_online, host.message.is_empty()), (is_online, is_online), "{status}");
        }
    }

    #[test]
    fn resources_are_those_that_the_api_names() {
        let resources = json!({"cpu": {"total": 8}, "memory": {"total": 1000, "used": 400}});
        let space = json!({"space": {"total": 500, "used": 100}});
        let host = with_resources(HostObservation::default(), &resources, &space, true);
        assert_eq!((host.cpus, host.memory_bytes, host.memory_free_bytes), (8, 1000, 600));
        assert_eq!((host.disk_bytes, host.disk_free_bytes, host.has_image), (500, 400, true));
        let unknown = with_resources(HostObservation::default(), &json!({}), &json!({}), false);
        assert_eq!((unknown.cpus, unknown.memory_free_bytes), (0, 0));
    }

    #[test]
    fn only_running_moves_of_the_instance_count() {
        let instance = "/1.0/instances/hd-1";
        let operation = |code: u16, description: &str, path: &str| {
            let resources = json!({"instances": [path]});
            json!({"running": [{"status_code": code, "description": description, "resources": resources}]})
        };
        for (operations, expected) in [
            (operation(103, "Migrating instance", instance), true),
            (operation(103, "Migrating instance", "/1.0/instances/hd-1?project=desks"), true),
            (operation(103, "Creating instance", instance), true),
            (operation(200, "Migrating instance", instance), false),
            (operation(103, "Executing command", instance), false),
            (operation(103, "Migrating instance", "/1.0/instances/hd-12"), false),
            (json!({}), false),
            (Value::Null, false),
        ] {
            assert_eq!(has_move(&operations, instance), expected, "{operations}");
        }
    }
}
