//! Names and paths of instances and their snapshots, and the computers that they belong to.

use uuid::Uuid;

use hotdesk_base::ids::ComputerId;

const NAME_PREFIX: &str = "hd-";
const SNAPSHOT_PREFIX: &str = "s-";
const INSTANCES: &str = "/1.0/instances/";

/// Name of the instance of a computer.
pub(in crate::incus) fn name(id: ComputerId) -> String {
    format!("{NAME_PREFIX}{id}")
}

/// Path of the instance of a computer.
pub(in crate::incus) fn path(id: ComputerId) -> String {
    format!("{INSTANCES}{}", name(id))
}

/// The computer of an instance's name.
pub(in crate::incus) fn id_of(name: &str) -> Option<ComputerId> {
    name.strip_prefix(NAME_PREFIX)?.parse().ok()
}

/// The computer of an instance's path in a list.
pub(in crate::incus) fn id_of_path(path: &str) -> Option<ComputerId> {
    id_of(path.strip_prefix(INSTANCES)?.split('?').next()?)
}

/// Name of a snapshot.
pub(in crate::incus) fn snapshot_name(snapshot: Uuid) -> String {
    format!("{SNAPSHOT_PREFIX}{snapshot}")
}

/// The snapshot of a path in a list.
pub(in crate::incus) fn snapshot_of_path(path: &str) -> Option<Uuid> {
    let name = path.split('?').next()?.rsplit('/').next()?;
    name.strip_prefix(SNAPSHOT_PREFIX)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_computers_and_snapshots() {
        let id = ComputerId::random();
        assert_eq!(id_of(&name(id)), Some(id));
        assert_eq!(id_of_path(&path(id)), Some(id));
        assert_eq!(id_of_path(&format!("{}?project=desks", path(id))), Some(id));
        for other in ["/1.0/instances/web", "/1.0/instances/hd-web", "/1.0/networks/desk0"] {
            assert_eq!(id_of_path(other), None, "{other}");
        }
        let snapshot = Uuid::new_v4();
        let listed = format!("{}/snapshots/{}", path(id), snapshot_name(snapshot));
        assert_eq!(snapshot_of_path(&listed), Some(snapshot));
        assert_eq!(snapshot_of_path(&format!("{listed}?project=desks")), Some(snapshot));
        assert_eq!(snapshot_of_path(&format!("{}/snapshots/daily", path(id))), None);
    }
}
