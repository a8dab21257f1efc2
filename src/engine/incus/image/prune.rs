//! Removal of published images, and of volumes with guest images, that no computer and no configuration needs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hyper::Method;
use serde_json::{Map, Value, json};

use super::members::{VolumeRecord, read};
use super::{GuestImage, Publisher, mark, property};
use crate::incus::client::ClientError;
use crate::incus::documents::{IMAGE_BASE, IMAGE_ID, IMAGE_OWNER, Instance, Power};
use crate::{EngineError, EngineResult};

const PRUNE: &str = "remove old images";
/// Timeout of the removal of an image: each member removes its copy.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(300);

/// An image that an installation published, and what a removal of old ones did with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunedImage {
    /// Its fingerprint.
    pub fingerprint: String,
    /// Its alias; `None` after an interrupted publication.
    pub alias: Option<String>,
    /// Bytes of its archive.
    pub bytes: u64,
    /// What was done with it.
    pub outcome: PruneOutcome,
}

/// The volumes of a guest image that nothing needs, and what a removal of old ones did with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunedVolume {
    /// The name of the volume on each member.
    pub name: String,
    /// The members that have no such volume any more, in ascending order; `none` where there is no cluster.
    pub removed_from: Vec<String>,
    /// Why some stay; `None` when none does.
    pub failure: Option<String>,
}

/// What a removal of old images did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// All images that the installation published.
    pub images: Vec<PrunedImage>,
    /// The volumes with guest images that no image and no instance of the project needs.
    pub volumes: Vec<PrunedVolume>,
}

/// What a removal of old images did with one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneOutcome {
    /// It is removed from all members.
    Removed,
    /// It stays: it is that of the configuration.
    Configured,
    /// It stays: this many instances began from it.
    InUse(usize),
    /// It stays for another installation, which published it too. Its mark of this one is removed.
    Shared,
}

impl Publisher<'_> {
    /// Removes the images that this installation marked, except for those of `configured` and for those from which an instance of the project
    /// began, whoever made the instance. Then removes the volumes that neither an image that is left nor an instance needs.
    ///
    /// # Errors
    /// `Failed` when a member does not answer, so that nobody knows what its instances need; then nothing is removed.
    pub(in crate::incus) async fn prune(&self, configured: &[GuestImage]) -> EngineResult<PruneReport> {
        let at = |error: ClientError| error.at(PRUNE);
        // First: an image is published before its volumes, so the list of images has that of each of these.
        let volumes = self.volumes().list().await.map_err(at)?;
        let images = self.client.get("/1.0/images?recursion=1").await.map_err(at)?;
        let listed = self.client.get("/1.0/instances?recursion=1").await.map_err(at)?;
        let instances: Vec<Instance> = read(listed).map_err(at)?;
        let needs = needs(&instances)?;
        let mut needed_volumes: BTreeSet<String> = configured.iter().filter_map(GuestImage::base).collect();
        needed_volumes.extend(instances.iter().filter_map(|instance| instance.base().map(str::to_owned)));
        let configured: Vec<String> = configured.iter().map(GuestImage::key).collect();
        let mark = mark(self.owner);
        let mut pruned = Vec::new();
        for record in images.as_array().into_iter().flatten() {
            let Some(fingerprint) = record["fingerprint"].as_str() else { continue };
            let outcome = property(record, &mark).map(|_| decide(record, &configured, &needs, &mark));
            if outcome != Some(PruneOutcome::Removed) {
                needed_volumes.extend(property(record, IMAGE_BASE).map(str::to_owned));
            }
            // Others are not this installation's.
            let Some(outcome) = outcome else { continue };
            let path = format!("/1.0/images/{fingerprint}");
            match outcome {
                PruneOutcome::Removed => {
                    let done = self.client.run(Method::DELETE, &path, None, REMOVE_TIMEOUT).await;
                    match done {
                        Ok(_) => {}
                        Err(error) if error.is_missing() => {}
                        Err(error) => return Err(at(error)),
                    }
                }
                PruneOutcome::Shared => {
                    let document = without_mark(record, &mark);
                    self.client.run(Method::PUT, &path, Some(&document), REMOVE_TIMEOUT).await.map_err(at)?;
                }
                PruneOutcome::Configured | PruneOutcome::InUse(_) => {}
            }
            pruned.push(PrunedImage {
                fingerprint: fingerprint.to_owned(),
                alias: record["aliases"][0]["name"].as_str().map(str::to_owned),
                bytes: record["size"].as_u64().unwrap_or_default(),
                outcome,
            });
        }
        let volumes = self.prune_volumes(&volumes, &needed_volumes).await;
        Ok(PruneReport { images: pruned, volumes })
    }

    /// Removes the volumes with guest images whose names are not needed. Incus refuses to remove one that an instance of another
    /// project uses.
    async fn prune_volumes(&self, listed: &[VolumeRecord], needed: &BTreeSet<String>) -> Vec<PrunedVolume> {
        let volumes = self.volumes();
        let mut pruned = Vec::new();
        for (name, records) in unneeded(listed, needed) {
            let (mut removed_from, mut failure) = (Vec::new(), None);
            for record in records {
                match volumes.remove(name, record.member()).await {
                    Ok(()) => removed_from.push(record.member().unwrap_or("none").to_owned()),
                    // Its member may have stopped answering.
                    Err(error) => failure = Some(error.to_string()),
                }
            }
            removed_from.sort();
            pruned.push(PrunedVolume { name: name.to_owned(), removed_from, failure });
        }
        pruned
    }
}

/// The volumes that nothing needs, by their name.
fn unneeded<'a>(
    volumes: &'a [VolumeRecord],
    needed: &BTreeSet<String>,
) -> BTreeMap<&'a str, Vec<&'a VolumeRecord>> {
    let mut by_name: BTreeMap<&str, Vec<&VolumeRecord>> = BTreeMap::new();
    for volume in volumes.iter().filter(|volume| !needed.contains(&volume.name)) {
        by_name.entry(volume.name.as_str()).or_default().push(volume);
    }
    // One that is used on one member may be needed by a move to another.
    by_name.retain(|_, records| !records.iter().any(|record| record.is_used()));
    by_name
}

/// How many instances began from an image, by its fingerprint and by the id of its build.
///
/// # Errors
/// `Failed` when the configuration of an instance is not known.
fn needs(instances: &[Instance]) -> EngineResult<BTreeMap<&str, usize>> {
    let mut needs = BTreeMap::new();
    for instance in instances {
        if instance.power() == Power::Unknown {
            let detail = format!(
                "the member {:?} does not answer, and its computers may need any image; run this again when it does",
                instance.location
            );
            return Err(EngineError::failed(PRUNE, detail));
        }
        for origin in instance.origins() {
            *needs.entry(origin).or_default() += 1;
        }
    }
    Ok(needs)
}

fn decide(
    record: &Value,
    configured: &[String],
    needs: &BTreeMap<&str, usize>,
    own_mark: &str,
) -> PruneOutcome {
    let build = property(record, IMAGE_ID);
    if configured.iter().any(|key| build == Some(key)) {
        return PruneOutcome::Configured;
    }
    let uses = |name: Option<&str>| name.and_then(|name| needs.get(name).copied()).unwrap_or_default();
    let in_use = uses(record["fingerprint"].as_str()).max(uses(build));
    if in_use > 0 {
        return PruneOutcome::InUse(in_use);
    }
    let is_shared = record["properties"]
        .as_object()
        .is_some_and(|all| all.keys().any(|key| key.starts_with(IMAGE_OWNER) && key != own_mark));
    if is_shared { PruneOutcome::Shared } else { PruneOutcome::Removed }
}

/// The document of an image without a mark.
fn without_mark(record: &Value, mark: &str) -> Value {
    let mut properties: Map<String, Value> = record["properties"].as_object().cloned().unwrap_or_default();
    properties.remove(mark);
    json!({
        "auto_update": record["auto_update"],
        "public": record["public"],
        "expires_at": record["expires_at"],
        "profiles": record["profiles"],
        "properties": properties,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(fingerprint: &str, build: &str, owners: &[&str]) -> Value {
        let mut properties = json!({ "hotdesk.image": build });
        for owner in owners {
            properties[mark(owner)] = json!("1");
        }
        json!({ "fingerprint": fingerprint, "public": false, "properties": properties })
    }

    fn instance(config: Value, status: &str) -> Instance {
        serde_json::from_value(json!({ "status": status, "location": "m1", "config": config })).unwrap()
    }

    #[test]
    fn images_stay_while_a_computer_a_configuration_or_another_installation_needs_them() {
        let instances = [
            instance(json!({"volatile.base_image": "f-used"}), "Stopped"),
            instance(json!({"image.hotdesk.image": "b-copied"}), "Running"),
            instance(json!({"volatile.base_image": "f-both", "image.hotdesk.image": "b-both"}), "Running"),
        ];
        let needs = needs(&instances).unwrap();
        for (record, expected) in [
            (image("f-now", "b-now", &["own"]), PruneOutcome::Configured),
            (image("f-used", "b-used", &["own"]), PruneOutcome::InUse(1)),
            (image("f-copied", "b-copied", &["own"]), PruneOutcome::InUse(1)),
            (image("f-both", "b-both", &["own", "other"]), PruneOutcome::InUse(1)),
            (image("f-shared", "b-shared", &["own", "other"]), PruneOutcome::Shared),
            (image("f-old", "b-old", &["own"]), PruneOutcome::Removed),
        ] {
            assert_eq!(decide(&record, &["b-now".to_owned()], &needs, &mark("own")), expected, "{record}");
        }
    }

    #[test]
    fn a_member_that_does_not_answer_may_need_any_image() {
        let refused = needs(&[instance(json!({}), "Error")]).unwrap_err();
        assert!(format!("{refused:#}").contains("m1"), "{refused:#}");
    }

    #[test]
    fn volumes_stay_while_an_image_or_an_instance_needs_them_on_any_member() {
        let volume = |name: &str, member: &str, used_by: &[&str]| json!({"name": name, "location": member, "used_by": used_by});
        let listed = json!([
            volume("needed", "m1", &[]),
            volume("old", "m1", &[]),
            volume("old", "m2", &[]),
            volume("of-another-project", "m1", &["/1.0/instances/a?project=other"]),
            volume("of-another-project", "m2", &[]),
        ]);
        let volumes: Vec<VolumeRecord> = serde_json::from_value(listed).unwrap();
        let needed = BTreeSet::from(["needed".to_owned()]);
        let found = unneeded(&volumes, &needed);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), ["old"]);
        let members: Vec<_> = found["old"].iter().map(|volume| volume.member()).collect();
        assert_eq!(members, [Some("m1"), Some("m2")]);
    }

    #[test]
    fn only_the_own_mark_is_removed() {
        let left = without_mark(&image("f", "b", &["own", "other"]), &mark("own"));
        assert_eq!(left["properties"], json!({"hotdesk.image": "b", "hotdesk.owner.other": "1"}));
        assert_eq!(left["public"], false);
    }
}
