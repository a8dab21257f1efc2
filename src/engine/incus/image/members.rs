//! Members of a cluster, and which of them have an image in their storage pool.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use crate::incus::client::{Client, ClientError};

/// State of a member that takes new instances.
const ONLINE: &str = "Online";

/// A member and its copy of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::incus) struct MemberImage {
    pub(in crate::incus) name: String,
    /// Its status in the words of Incus, such as `Online`, `Offline` or `Evacuated`.
    pub(in crate::incus) status: String,
    /// Whether its pool has the unpacked image, so that a new computer is a clone of it.
    pub(in crate::incus) has_image: bool,
}

impl MemberImage {
    /// Whether the member takes new instances.
    pub(in crate::incus) fn is_online(&self) -> bool {
        self.status.eq_ignore_ascii_case(ONLINE)
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
struct VolumeRecord {
    name: String,
    /// The member; `none` or empty where there is no cluster, and in a pool that all members share.
    #[serde(default)]
    location: String,
}

/// Lists the members of a server, and which of them have an image in a pool.
pub(in crate::incus) async fn list_members(
    client: &Client,
    pool: &str,
    fingerprint: &str,
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
    let volumes = read(client.get(&format!("/1.0/storage-pools/{pool}/volumes/image?recursion=1")).await?)?;
    Ok(MemberList { is_clustered, members: with_image(records, &volumes, fingerprint) })
}

fn read<T: serde::de::DeserializeOwned>(listed: Value) -> Result<Vec<T>, ClientError> {
    // An empty list is null in some answers.
    let parsed: Result<Option<Vec<T>>, _> = serde_json::from_value(listed);
    parsed.map(Option::unwrap_or_default).map_err(|error| ClientError::Unreachable(error.to_string()))
}

fn with_image(records: Vec<MemberRecord>, volumes: &[VolumeRecord], fingerprint: &str) -> Vec<MemberImage> {
    let holders: BTreeSet<&str> = volumes
        .iter()
        .filter(|volume| volume.name == fingerprint)
        .map(|volume| volume.location.as_str())
        .collect();
    let is_everywhere = holders.contains("") || holders.contains("none");
    let mut members: Vec<MemberImage> = records
        .into_iter()
        .map(|record| MemberImage {
            has_image: is_everywhere || holders.contains(record.server_name.as_str()),
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
    fn a_member_has_an_image_when_its_pool_or_a_shared_one_has() {
        let records = || {
            let listed = json!([
                {"server_name": "m2", "status": "Offline"}, {"server_name": "m1", "status": "Online"},
            ]);
            read::<MemberRecord>(listed).unwrap()
        };
        let holders = |volumes: Value| {
            let volumes: Vec<VolumeRecord> = read(volumes).unwrap();
            let members = with_image(records(), &volumes, "f");
            assert_eq!(members.iter().map(MemberImage::is_online).collect::<Vec<_>>(), [true, false]);
            let with = members.into_iter().filter(|member| member.has_image);
            with.map(|member| member.name).collect::<Vec<_>>()
        };
        assert_eq!(holders(Value::Null), Vec::<String>::new());
        let volume = |name: &str, location: &str| json!({"name": name, "location": location});
        assert_eq!(holders(json!([volume("f", "m1"), volume("g", "m2")])), ["m1"]);
        assert_eq!(holders(json!([volume("f", "none")])), ["m1", "m2"]);
        assert_eq!(holders(json!([{"name": "f"}])), ["m1", "m2"]);
    }
}
