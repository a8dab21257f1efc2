//! Members of a cluster, and which of them have an image and its volume in their storage pool.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::incus::client::{Client, ClientError};
use crate::incus::documents::{ImageRecord, MADE};

/// State of a member that takes new instances.
const ONLINE: &str = "Online";

/// A member and its copies of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::incus) struct MemberImage {
    pub(in crate::incus) name: String,
    /// Its status in the words of Incus, such as `Online`, `Offline` or `Evacuated`.
    pub(in crate::incus) status: String,
    /// Whether its pool has the unpacked image, so that a new computer is a clone of it.
    pub(in crate::incus) has_image: bool,
    /// Whether its pool has the whole volume with the guest image, where the image has only the launcher.
    pub(in crate::incus) has_base: bool,
}

impl MemberImage {
    /// Whether the member takes new instances.
    pub(in crate::incus) fn is_online(&self) -> bool {
        self.status.eq_ignore_ascii_case(ONLINE)
    }

    /// Whether it has all that a new computer needs.
    pub(in crate::incus) fn is_ready(&self) -> bool {
        self.has_image && self.has_base
    }
}

/// The members of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::incus) struct MemberList {
    pub(in crate::incus) is_clustered: bool,
    /// In ascending order of their names; a server without a cluster is its own only member.
    pub(in crate::incus) members: Vec<MemberImage>,
}

#[derive(Debug, Deserialize)]
struct MemberRecord {
    server_name: String,
    status: String,
}

/// A volume of a storage pool.
#[derive(Debug, Deserialize)]
pub(super) struct VolumeRecord {
    pub(super) name: String,
    /// The member; `none` or empty where there is no cluster, and in a pool that all members share.
    #[serde(default)]
    location: String,
    #[serde(default)]
    config: BTreeMap<String, String>,
    /// Paths of what uses it.
    #[serde(default)]
    used_by: Vec<String>,
}

impl VolumeRecord {
    /// The member; `None` where there is only one volume for all.
    pub(super) fn member(&self) -> Option<&str> {
        Some(self.location.as_str()).filter(|location| !location.is_empty() && *location != "none")
    }

    /// Whether a member can use it.
    pub(super) fn is_on(&self, member: &str) -> bool {
        self.member().is_none_or(|own| own == member)
    }

    /// Whether it has all files of its image.
    pub(super) fn is_whole(&self) -> bool {
        self.config.get(MADE).is_some_and(|made| made == "1")
    }

    /// Whether an instance uses it.
    pub(super) fn is_used(&self) -> bool {
        !self.used_by.is_empty()
    }
}

/// Lists the members of a server, and which of them have an image and its volume in a pool.
pub(in crate::incus) async fn list_members(
    client: &Client,
    pool: &str,
    image: &ImageRecord,
) -> Result<MemberList, ClientError> {
    let server = client.get("/1.0").await?;
    let environment = &server["environment"];
    let is_clustered = environment["server_clustered"] == true;
    let records = if is_clustered {
        read(client.get("/1.0/cluster/members?recursion=1").await?)?
    } else {
        let server_name = environment["server_name"].as_str().unwrap_or_default().to_owned();
        vec![MemberRecord { server_name, status: ONLINE.to_owned() }]
    };
    let volumes = |kind: &str| format!("/1.0/storage-pools/{pool}/volumes/{kind}?recursion=1");
    let images: Vec<VolumeRecord> = read(client.get(&volumes("image")).await?)?;
    let bases: Vec<VolumeRecord> = match &image.base {
        Some(_) => read(client.get(&volumes("custom")).await?)?,
        None => Vec::new(),
    };
    Ok(MemberList { is_clustered, members: with_volumes(records, &images, &bases, image) })
}

/// Reads a list.
pub(super) fn read<T: serde::de::DeserializeOwned>(listed: Value) -> Result<Vec<T>, ClientError> {
    // An empty list is null in some answers.
    let parsed: Result<Option<Vec<T>>, _> = serde_json::from_value(listed);
    parsed.map(Option::unwrap_or_default).map_err(|error| ClientError::Unreachable(error.to_string()))
}

fn with_volumes(
    records: Vec<MemberRecord>,
    images: &[VolumeRecord],
    bases: &[VolumeRecord],
    image: &ImageRecord,
) -> Vec<MemberImage> {
    let mut members: Vec<MemberImage> = records
        .into_iter()
        .map(|record| MemberImage {
            has_image: images
                .iter()
                .any(|volume| volume.name == image.fingerprint && volume.is_on(&record.server_name)),
            has_base: image.base.as_deref().is_none_or(|base| {
                let mut own = bases.iter().filter(|volume| volume.name == base);
                own.any(|volume| volume.is_whole() && volume.is_on(&record.server_name))
            }),
            name: record.server_name,
            status: record.status,
        })
        .collect();
    members.sort_by(|one, other| one.name.cmp(&other.name));
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_volume_is_whole_by_its_label_and_is_that_of_its_member_or_of_all() {
        let volume = |document: Value| serde_json::from_value::<VolumeRecord>(document).unwrap();
        let own = volume(
            json!({"name": "v", "location": "m1", "config": {MADE: "1"}, "used_by": ["/1.0/instances/a"]}),
        );
        assert!(own.is_whole() && own.is_used() && own.is_on("m1") && !own.is_on("m2"));
        for location in ["", "none"] {
            let shared =
                volume(json!({"name": "v", "location": location, "config": {"security.shifted": "true"}}));
            assert!(!shared.is_whole() && !shared.is_used() && shared.is_on("m1"));
            assert_eq!(shared.member(), None);
        }
    }

    #[test]
    fn a_member_has_an_image_when_its_pool_or_a_shared_one_has() {
        let records = || {
            let listed = json!([
                {"server_name": "m2", "status": "Offline"}, {"server_name": "m1", "status": "Online"},
            ]);
            read::<MemberRecord>(listed).unwrap()
        };
        let holders = |volumes: Value| {
            let volumes: Vec<VolumeRecord> = read(volumes).unwrap();
            let image = ImageRecord { fingerprint: "f".to_owned(), bytes: 0, base: None };
            let members = with_volumes(records(), &volumes, &[], &image);
            assert_eq!(members.iter().map(MemberImage::is_online).collect::<Vec<_>>(), [true, false]);
            let with = members.into_iter().filter(MemberImage::is_ready);
            with.map(|member| member.name).collect::<Vec<_>>()
        };
        assert_eq!(holders(Value::Null), Vec::<String>::new());
        let volume = |name: &str, location: &str| json!({"name": name, "location": location});
        assert_eq!(holders(json!([volume("f", "m1"), volume("g", "m2")])), ["m1"]);
        assert_eq!(holders(json!([volume("f", "none")])), ["m1", "m2"]);
        assert_eq!(holders(json!([{"name": "f"}])), ["m1", "m2"]);
    }

    #[test]
    fn a_member_is_ready_with_the_image_and_its_whole_volume() {
        let listed =
            json!([{"server_name": "m1", "status": "Online"}, {"server_name": "m2", "status": "Online"}]);
        let image = ImageRecord { fingerprint: "f".to_owned(), bytes: 0, base: Some("b".to_owned()) };
        let images: Vec<VolumeRecord> = read(json!([{"name": "f"}])).unwrap();
        let whole = |location: &str| json!({"name": "b", "location": location, "config": {MADE: "1"}});
        for (volumes, expected) in [
            (json!([]), [false, false]),
            (json!([whole("m1"), {"name": "b", "location": "m2", "config": {}}]), [true, false]),
            (json!([whole("m1"), whole("m2")]), [true, true]),
        ] {
            let bases: Vec<VolumeRecord> = read(volumes).unwrap();
            let records = read::<MemberRecord>(listed.clone()).unwrap();
            let members = with_volumes(records, &images, &bases, &image);
            assert_eq!(members.iter().map(MemberImage::is_ready).collect::<Vec<_>>(), expected);
        }
    }
}
