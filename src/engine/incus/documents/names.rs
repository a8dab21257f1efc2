//! Names and paths of instances and their snapshots, and the computers that they belong to.
//!
//! ```text
//!   hd-<id>       the machine of a computer        hr-<id>-1   its replica on another member
//!   hd-<id>-1     the machine, since it began from the replica hr-<id>-1; hd-<id> is superseded and never started again
//! ```
//! The machine of a computer is the instance with the highest number. Names are the only things that the database of a cluster
//! tells of the instances of a member that does not answer.

use uuid::Uuid;

use hotdesk_base::ids::ComputerId;

const NAME_PREFIX: &str = "hd-";
const REPLICA_PREFIX: &str = "hr-";
const SNAPSHOT_PREFIX: &str = "s-";
/// Snapshots from which replicas are refreshed.
const STATE_PREFIX: &str = "r-";
const INSTANCES: &str = "/1.0/instances/";
/// Characters of a computer's id.
const ID_LENGTH: usize = 36;

/// Name of the instance of a computer, which began from a replica `number` times.
pub(in crate::incus) fn name(id: ComputerId, number: u32) -> String {
    if number == 0 { format!("{NAME_PREFIX}{id}") } else { format!("{NAME_PREFIX}{id}-{number}") }
}

/// Name of the replica that becomes the instance of this number.
pub(in crate::incus) fn replica_name(id: ComputerId, number: u32) -> String {
    format!("{REPLICA_PREFIX}{id}-{number}")
}

/// Path of an instance.
pub(in crate::incus) fn path_of(name: &str) -> String {
    format!("{INSTANCES}{name}")
}

/// The name in an instance's path.
pub(in crate::incus) fn name_of_path(path: &str) -> Option<&str> {
    path.strip_prefix(INSTANCES)?.split('?').next()
}

/// The computer and the number of an instance's name.
pub(in crate::incus) fn machine_of(name: &str) -> Option<(ComputerId, u32)> {
    let text = name.strip_prefix(NAME_PREFIX)?;
    let id = text.get(..ID_LENGTH)?.parse().ok()?;
    match text.get(ID_LENGTH..)? {
        "" => Some((id, 0)),
        number => Some((id, number.strip_prefix('-')?.parse().ok()?)),
    }
}

/// The computer and the number of a replica's name.
pub(in crate::incus) fn replica_of(name: &str) -> Option<(ComputerId, u32)> {
    let text = name.strip_prefix(REPLICA_PREFIX)?;
    let id = text.get(..ID_LENGTH)?.parse().ok()?;
    Some((id, text.get(ID_LENGTH..)?.strip_prefix('-')?.parse().ok()?))
}

/// The computer of an instance's name.
pub(in crate::incus) fn id_of(name: &str) -> Option<ComputerId> {
    machine_of(name).map(|(id, _)| id)
}

/// The computer of an instance's path in a list.
pub(in crate::incus) fn id_of_path(path: &str) -> Option<ComputerId> {
    id_of(name_of_path(path)?)
}

/// Name of a snapshot.
pub(in crate::incus) fn snapshot_name(snapshot: Uuid) -> String {
    format!("{SNAPSHOT_PREFIX}{snapshot}")
}

/// The snapshot of a path in a list.
pub(in crate::incus) fn snapshot_of_path(path: &str) -> Option<Uuid> {
    last_segment(path)?.strip_prefix(SNAPSHOT_PREFIX)?.parse().ok()
}

/// Name of a snapshot from which a replica is refreshed, by its time in Unix milliseconds.
pub(in crate::incus) fn state_name(millis: i64) -> String {
    format!("{STATE_PREFIX}{millis}")
}

/// The name of such a snapshot in a path of a list.
pub(in crate::incus) fn state_of_path(path: &str) -> Option<&str> {
    last_segment(path).filter(|name| name.starts_with(STATE_PREFIX))
}

fn last_segment(path: &str) -> Option<&str> {
    path.split('?').next()?.rsplit('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_computers_and_snapshots() {
        let id = ComputerId::random();
        for number in [0, 1, 12] {
            let name = name(id, number);
            assert_eq!(machine_of(&name), Some((id, number)));
            assert_eq!(id_of_path(&path_of(&name)), Some(id));
            assert_eq!(id_of_path(&format!("{}?project=desks", path_of(&name))), Some(id));
            assert_eq!(replica_of(&name), None);
        }
        // A replica is no machine.
        let replica = replica_name(id, 1);
        assert_eq!((machine_of(&replica), replica_of(&replica)), (None, Some((id, 1))));
        for other in ["/1.0/instances/web", "/1.0/instances/hd-web", "/1.0/networks/desk0"] {
            assert_eq!(id_of_path(other), None, "{other}");
        }
        assert_eq!(machine_of(&format!("hd-{id}x")), None);
        let snapshot = Uuid::new_v4();
        let listed = format!("{}/snapshots/{}", path_of(&name(id, 0)), snapshot_name(snapshot));
        assert_eq!(snapshot_of_path(&listed), Some(snapshot));
        assert_eq!(snapshot_of_path(&format!("{listed}?project=desks")), Some(snapshot));
        assert_eq!(state_of_path(&listed), None);
        let state = format!("{}/snapshots/{}?project=desks", path_of(&name(id, 0)), state_name(7));
        assert_eq!((snapshot_of_path(&state), state_of_path(&state)), (None, Some("r-7")));
    }
}
