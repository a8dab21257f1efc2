//! Volumes with guest images, which instances with gVisor mount below their own files: one of the same name on each member.
//!
//! ```text
//!   absent -- upload, or copy from another member --> there -- label --> whole
//! ```
//! A volume without the label is being made, or its making was cut off. Then it is removed and made again.

use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::Value;

use super::members::{VolumeRecord, read};
use crate::incus::IncusEngine;
use crate::incus::client::{Client, ClientError};
use crate::incus::documents;
use crate::{EngineError, EngineResult};

/// Timeout of one member's volume: some gigabytes over a slow link, also when another controller makes it.
const MAKE_TIMEOUT: Duration = Duration::from_secs(1800);
/// Timeout of the removal of a volume.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(300);
const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// Looks in a row without an operation after which nobody makes a volume: its maker labels it after the operation, by a call
/// that may take 40 s.
const IDLE_LOOKS: u32 = 22;
/// Members from which a copy is tried, one after another: the first may not answer.
const MAX_SOURCES: usize = 3;

/// The volumes of a pool with guest images.
#[derive(Debug)]
pub(in crate::incus) struct BaseVolumes<'a> {
    client: &'a Client,
    pool: &'a str,
}

impl<'a> BaseVolumes<'a> {
    pub(in crate::incus) fn new(client: &'a Client, pool: &'a str) -> Self {
        Self { client, pool }
    }

    /// The volumes of all members with guest images, of all builds.
    pub(super) async fn list(&self) -> Result<Vec<VolumeRecord>, ClientError> {
        let listed = self.client.get(&format!("{}?recursion=1", self.path())).await?;
        let volumes: Vec<VolumeRecord> = read(listed)?;
        Ok(volumes.into_iter().filter(|volume| documents::is_base_name(&volume.name)).collect())
    }

    /// The volumes of a name.
    async fn named(&self, name: &str) -> Result<Vec<VolumeRecord>, ClientError> {
        let mut volumes = self.list().await?;
        volumes.retain(|volume| volume.name == name);
        Ok(volumes)
    }

    /// Makes a volume on a member from an archive; without a cluster there is no member.
    pub(super) async fn import(
        &self,
        name: &str,
        member: Option<&str>,
        archive: tokio::fs::File,
    ) -> Result<(), ClientError> {
        if self.settle(name, member).await? {
            return Ok(());
        }
        let path = format!("{}{}", self.path(), target(member));
        let Err(error) = self.client.import_volume(&path, name, archive).await else {
            return self.label(name, member).await;
        };
        // Another installation may have begun to make it in this moment.
        if error.is_taken() && self.settle(name, member).await? { Ok(()) } else { Err(error) }
    }

    /// Makes a volume on a member by a copy from another one, unless it is there. Returns whether it is there: `false` when no member
    /// has it. Without a member, Incus chooses where an instance is made, and the volume must be somewhere.
    pub(super) async fn bring(&self, name: &str, member: Option<&str>) -> Result<bool, ClientError> {
        let volumes = self.named(name).await?;
        let whole: Vec<&VolumeRecord> = volumes.iter().filter(|volume| volume.is_whole()).collect();
        let Some(member) = member else { return Ok(!whole.is_empty()) };
        // Only with a whole one elsewhere there is a cluster.
        if whole.is_empty() || whole.iter().any(|volume| volume.is_on(member)) {
            return Ok(!whole.is_empty());
        }
        let deadline = Instant::now() + MAKE_TIMEOUT;
        loop {
            if self.settle(name, Some(member)).await? {
                return Ok(true);
            }
            match self.copy(name, member).await {
                // Somebody else began to make it in this moment.
                Err(error) if error.is_taken() && Instant::now() < deadline => {}
                done => return done,
            }
        }
    }

    /// Copies a volume from one of the members that have it. Returns `false` when none has.
    async fn copy(&self, name: &str, member: &str) -> Result<bool, ClientError> {
        let path = format!("{}{}", self.path(), target(Some(member)));
        let mut failure = None;
        let volumes = self.named(name).await?;
        for source in volumes.iter().filter(|volume| volume.is_whole()).take(MAX_SOURCES) {
            let Some(from) = source.member() else { continue };
            let document = documents::base_copy(self.pool, name, from);
            match self.client.run(Method::POST, &path, Some(&document), MAKE_TIMEOUT).await {
                Ok(_) => return self.label(name, Some(member)).await.map(|()| true),
                Err(error) if error.is_taken() => return Err(error),
                // That member may not answer.
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(false), Err)
    }

    /// Waits until nobody makes a volume on a member, and removes one that is not whole. Returns whether a whole one is there.
    async fn settle(&self, name: &str, member: Option<&str>) -> Result<bool, ClientError> {
        let deadline = Instant::now() + MAKE_TIMEOUT;
        let mut idle_looks = 0;
        loop {
            let volumes = self.named(name).await?;
            let own = volumes.iter().find(|volume| member.is_none_or(|member| volume.is_on(member)));
            match own {
                None => return Ok(false),
                Some(volume) if volume.is_whole() => return Ok(true),
                Some(_) => {}
            }
            let operations = self.client.get("/1.0/operations?recursion=1").await?;
            let is_made_now = is_being_made(&operations, &self.path_of(name), member);
            idle_looks = if is_made_now { 0 } else { idle_looks + 1 };
            if idle_looks >= IDLE_LOOKS {
                self.remove(name, member).await?;
                return Ok(false);
            }
            if Instant::now() >= deadline {
                let message = format!("{name} is still being made after {} s", MAKE_TIMEOUT.as_secs());
                return Err(ClientError::Refused { status: 408, message });
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    /// Labels a volume as whole.
    async fn label(&self, name: &str, member: Option<&str>) -> Result<(), ClientError> {
        let path = format!("{}{}", self.path_of(name), target(member));
        self.client.patch(&path, &documents::base_label(), None).await
    }

    /// Removes a volume of a member. Incus refuses that while an instance uses it.
    pub(super) async fn remove(&self, name: &str, member: Option<&str>) -> Result<(), ClientError> {
        let path = format!("{}{}", self.path_of(name), target(member));
        match self.client.run(Method::DELETE, &path, None, REMOVE_TIMEOUT).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_missing() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn path(&self) -> String {
        format!("/1.0/storage-pools/{}/volumes/custom", self.pool)
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }
}

impl IncusEngine {
    /// Brings the volume with a guest image to a member that lacks it.
    ///
    /// # Errors
    /// `Failed` when no member has it, with the remedy.
    pub(in crate::incus) async fn bring_base(
        &self,
        name: &str,
        member: Option<&str>,
        step: &'static str,
    ) -> EngineResult<()> {
        let volumes = BaseVolumes::new(&self.client, &self.settings.pool);
        match volumes.bring(name, member).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(EngineError::failed(step, absent(name))),
            Err(error) => Err(error.at(step)),
        }
    }
}

/// The query for a member.
fn target(member: Option<&str>) -> String {
    member.map(|member| format!("?target={member}")).unwrap_or_default()
}

fn absent(name: &str) -> String {
    format!(
        "no member has the whole volume {name} with the guest image; run `hotdesk image publish` with the image of that build"
    )
}

/// Whether operations, which are listed by their states, have a running one that makes a volume on a member.
fn is_being_made(operations: &Value, volume: &str, member: Option<&str>) -> bool {
    let all = operations.as_object().into_iter().flat_map(|by_state| by_state.values());
    all.filter_map(Value::as_array).flatten().any(|operation| {
        let is_running = operation["status_code"].as_u64().is_some_and(|code| code < 200);
        // A copy is also an operation of the member that sends.
        let is_there = member.is_none_or(|member| operation["location"] == member);
        let volumes = operation["resources"]["storage_volumes"].as_array();
        let mut paths = volumes.into_iter().flatten().filter_map(Value::as_str);
        is_running && is_there && paths.any(|path| path.split('?').next() == Some(volume))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_volume_is_being_made_while_an_operation_of_its_member_runs() {
        let path = "/1.0/storage-pools/local/volumes/custom/hotdesk-base-1";
        let operation = |code: u16, location: &str, path: &str| {
            let resources = json!({"storage_volumes": [path]});
            json!({"running": [{"status_code": code, "location": location, "resources": resources}]})
        };
        for (operations, expected) in [
            (operation(103, "m2", path), true),
            (operation(103, "m2", &format!("{path}?project=desks")), true),
            // The member that sends.
            (operation(103, "m1", path), false),
            (operation(200, "m2", path), false),
            (operation(103, "m2", &format!("{path}2")), false),
            (json!({}), false),
            (Value::Null, false),
        ] {
            assert_eq!(is_being_made(&operations, path, Some("m2")), expected, "{operations}");
        }
        assert!(is_being_made(&operation(103, "none", path), path, None));
    }

    #[test]
    fn the_absence_of_a_volume_says_what_to_do() {
        let refused = absent("hotdesk-base-1");
        assert!(refused.contains("hotdesk-base-1") && refused.contains("hotdesk image publish"), "{refused}");
        assert_eq!((target(None), target(Some("m1"))), (String::new(), "?target=m1".to_owned()));
    }
}
