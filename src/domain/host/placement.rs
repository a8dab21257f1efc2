//! Choice of the host of a computer.
//!
//! A host must answer and have no drain. Of these, one with enough memory comes before one without, because memory of
//! computers is not reserved and a full cluster still takes small ones. Then comes one without the replica of the computer: a
//! move to the host of the replica would end the replica, and a new one needs the whole disk again. Then comes one with fewer
//! computers that it stays apart from, if the client asked for that. Then the larger share of free memory and processors
//! decides, whichever is scarcer, with an advantage for a host that has the guest image.

use crate::computer::lifecycle::Status;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::host::drain::DrainState;

/// Share of a host by which one with the guest image may be fuller than one without. A first boot without the image takes
/// some ten seconds longer, once for each image, so it decides only among hosts that are about equally free.
const IMAGE_ADVANTAGE: f64 = 0.01;
/// `Retry-After` when no host takes computers, in seconds.
const NO_HOST_RETRY_SECONDS: u32 = 30;

/// Whether a computer of this status takes processors and memory.
pub fn takes_memory(status: Status) -> bool {
    match status {
        Status::Creating
        | Status::Starting
        | Status::Running
        | Status::Stopping
        | Status::Restarting
        | Status::Suspending => true,
        Status::Stopped | Status::Suspended | Status::Deleting | Status::Error => false,
    }
}

/// What is known of a host when a computer is placed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostCandidate {
    /// Its name.
    pub name: String,
    /// Whether it answers.
    pub is_online: bool,
    /// Its drain, if the operator asked for one.
    pub drain: Option<DrainState>,
    /// Number of processors.
    pub cpus: u32,
    /// vCPUs of its computers that run, start or end.
    pub cpu_promised: f64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of memory that programs can get now.
    pub memory_free_bytes: u64,
    /// Bytes of memory of its computers that run, start or end. They take it as they use it.
    pub memory_promised_bytes: u64,
    /// Whether the guest image is ready on it.
    pub has_image: bool,
    /// Number of its computers from which the new one stays apart. 0 unless the client asked for that.
    pub avoided: usize,
}

impl HostCandidate {
    /// Whether new computers may begin on it.
    pub fn takes_computers(&self) -> bool {
        self.is_online && self.drain.is_none()
    }

    /// Memory that is neither used nor promised to computers that have not used it yet.
    fn available_bytes(&self) -> u64 {
        self.memory_free_bytes.min(self.memory_bytes.saturating_sub(self.memory_promised_bytes))
    }

    /// The share of the host that is free, of memory or of processors, whichever is scarcer. Negative when more vCPUs
    /// are promised than it has.
    fn headroom(&self) -> f64 {
        let memory = self.available_bytes() as f64 / self.memory_bytes.max(1) as f64;
        let cpus = f64::from(self.cpus.max(1));
        memory.min((cpus - self.cpu_promised) / cpus)
    }

    fn score(&self) -> f64 {
        self.headroom() + if self.has_image { IMAGE_ADVANTAGE } else { 0.0 }
    }
}

/// Chooses the host of a computer with this much memory. `besides` is a host that it leaves, `replica` the host of its replica.
///
/// # Errors
/// `Unavailable` (`no_capacity`) when no host takes computers.
pub fn choose_host<'a>(
    candidates: &'a [HostCandidate],
    memory_bytes: u64,
    besides: Option<&str>,
    replica: Option<&str>,
) -> Result<&'a str> {
    let takers = candidates
        .iter()
        .filter(|candidate| candidate.takes_computers() && besides != Some(candidate.name.as_str()));
    let best = takers.max_by(|one, other| {
        let fits = |candidate: &HostCandidate| candidate.available_bytes() >= memory_bytes;
        let keeps_replica = |candidate: &HostCandidate| replica != Some(candidate.name.as_str());
        let by_room = fits(one)
            .cmp(&fits(other))
            .then(keeps_replica(one).cmp(&keeps_replica(other)))
            .then(other.avoided.cmp(&one.avoided))
            .then(one.score().total_cmp(&other.score()));
        // Among equals the first by name, so that a choice can be repeated.
        by_room.then_with(|| other.name.cmp(&one.name))
    });
    best.map(|candidate| candidate.name.as_str()).ok_or_else(|| {
        let which = if besides.is_some() { "other host" } else { "host" };
        Error::unavailable(format!("No {which} takes computers: each is offline or drained"))
            .code(ErrorCode::NoCapacity)
            .retry_after(NO_HOST_RETRY_SECONDS)
    })
}

/// Checks that a computer can be moved to the host of this name.
///
/// # Errors
/// `NotFound` for an unknown host; `Conflict` for one that is offline or has a drain.
pub fn check_target(candidates: &[HostCandidate], name: &str) -> Result<()> {
    let found = candidates.iter().find(|candidate| candidate.name == name);
    let Some(found) = found else { return Err(unknown_host()) };
    if !found.is_online {
        return Err(Error::conflict(format!("Host {name} does not answer; choose another one")));
    }
    if found.drain.is_some() {
        let text = format!("Host {name} is being drained; restore it first, or choose another one");
        return Err(Error::conflict(text));
    }
    Ok(())
}

/// Returns the error for a host that does not exist.
pub fn unknown_host() -> Error {
    Error::not_found("Host not found")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    const GB: u64 = 1 << 30;

    /// A host with 16 processors and 64 GB, of which this much is free.
    fn host(name: &str, free: u64) -> HostCandidate {
        HostCandidate {
            name: name.to_owned(),
            is_online: true,
            cpus: 16,
            memory_bytes: 64 * GB,
            memory_free_bytes: free * GB,
            ..HostCandidate::default()
        }
    }

    #[test]
    fn a_computer_begins_where_the_scarcer_resource_is_least_used() {
        let drained = |name| HostCandidate { drain: Some(DrainState::Drained), ..host(name, 64) };
        let draining = |name| HostCandidate { drain: Some(DrainState::Draining), ..host(name, 64) };
        let offline = |name| HostCandidate { is_online: false, ..host(name, 64) };
        let busy = |name| HostCandidate { cpu_promised: 15.0, ..host(name, 64) };
        let overbooked = |name, cpu_promised| HostCandidate { cpu_promised, ..host(name, 64) };
        let promised = |name| HostCandidate { memory_promised_bytes: 60 * GB, ..host(name, 64) };
        let image = |name, free| HostCandidate { has_image: true, ..host(name, free) };
        for (candidates, memory, expected) in [
            (vec![host("m1", 20), host("m2", 40)], 4, Some("m2")),
            // Among equals the first by name.
            (vec![host("m2", 40), host("m1", 40)], 4, Some("m1")),
            (vec![busy("m1"), host("m2", 40)], 4, Some("m2")),
            // Its computers have not used their memory yet.
            (vec![promised("m1"), host("m2", 20)], 4, Some("m2")),
            (vec![drained("m1"), draining("m2"), offline("m3"), host("m4", 2)], 4, Some("m4")),
            // Enough memory comes first.
            (vec![overbooked("m1", 40.0), host("m2", 3)], 4, Some("m1")),
            // No host has enough.
            (vec![host("m1", 2), host("m2", 3)], 4, Some("m2")),
            (vec![overbooked("m1", 40.0), overbooked("m2", 32.0)], 4, Some("m2")),
            (vec![host("m1", 40), image("m2", 40)], 4, Some("m2")),
            (vec![host("m1", 40), image("m2", 36)], 4, Some("m1")),
            (vec![drained("m1"), offline("m2")], 4, None),
            (Vec::new(), 4, None),
        ] {
            let chosen = choose_host(&candidates, memory * GB, None, None);
            match expected {
                Some(expected) => assert_eq!(chosen.unwrap(), expected, "{candidates:?}"),
                None => assert_eq!(chosen.unwrap_err().code, Some(ErrorCode::NoCapacity)),
            }
        }
    }

    #[test]
    fn a_computer_that_leaves_a_host_does_not_return_to_it() {
        let hosts = [host("m1", 60), host("m2", 2)];
        assert_eq!(choose_host(&hosts, 4 * GB, Some("m1"), None).unwrap(), "m2");
        let refused = choose_host(&hosts[..1], 4 * GB, Some("m1"), None).unwrap_err();
        assert!(refused.message.contains("No other host"), "{refused}");
    }

    #[test]
    fn a_computer_moves_to_the_host_of_its_replica_only_for_room() {
        for (replica, hosts, expected) in [
            ("m2", vec![host("m1", 60), host("m2", 50), host("m3", 20)], "m3"),
            ("m2", vec![host("m1", 60), host("m2", 50), host("m3", 2)], "m2"),
            ("m2", vec![host("m1", 60), host("m2", 50)], "m2"),
            ("m3", vec![host("m1", 60), host("m2", 50), host("m3", 60)], "m2"),
        ] {
            let chosen = choose_host(&hosts, 4 * GB, Some("m1"), Some(replica)).unwrap();
            assert_eq!(chosen, expected, "{replica} {hosts:?}");
        }
    }

    #[test]
    fn a_computer_stays_apart_from_others_where_there_is_room() {
        let beside = |name, free, avoided| HostCandidate { avoided, ..host(name, free) };
        let drained = |name| HostCandidate { drain: Some(DrainState::Drained), ..host(name, 64) };
        for (candidates, expected) in [
            // A host with none of them comes before one with more room.
            (vec![beside("m1", 60, 1), host("m2", 20)], "m2"),
            (vec![beside("m1", 60, 3), beside("m2", 20, 2), beside("m3", 20, 4)], "m2"),
            // Among those with as many, the room decides.
            (vec![beside("m1", 20, 1), beside("m2", 60, 1)], "m2"),
            // It is a preference: enough memory and a host that takes computers come first.
            (vec![beside("m1", 60, 1), host("m2", 2)], "m1"),
            (vec![beside("m1", 60, 1), drained("m2")], "m1"),
        ] {
            assert_eq!(choose_host(&candidates, 4 * GB, None, None).unwrap(), expected, "{candidates:?}");
        }
    }

    #[test]
    fn a_target_exists_answers_and_has_no_drain() {
        let hosts = [
            host("m1", 60),
            HostCandidate { is_online: false, ..host("m2", 60) },
            HostCandidate { drain: Some(DrainState::Draining), ..host("m3", 60) },
        ];
        for (name, expected) in [
            ("m1", None),
            ("m2", Some(Kind::Conflict)),
            ("m3", Some(Kind::Conflict)),
            ("m4", Some(Kind::NotFound)),
        ] {
            let refused = check_target(&hosts, name).err().map(|error| error.kind);
            assert_eq!(refused, expected, "{name}");
        }
    }
}
