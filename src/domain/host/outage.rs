//! Outages of hosts: when a host counts as out, and what a computer's record says then.

use std::collections::BTreeMap;

use crate::computer::lifecycle::{Operation, Status};
use crate::computer::status_reason::StatusReason;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use hotdesk_base::time::UnixMillis;

/// Seconds after which a client may retry on a computer whose host is out.
const RETRY_SECONDS: u32 = 15;

/// What is known of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostState {
    /// It answers.
    Online,
    /// It does not answer, and the cluster has not given it up yet.
    Silent,
    /// The cluster says that it is offline. Its computers may still run.
    Offline,
    /// It was removed from the cluster, which has forgotten the machines there. Replicas of some are on other hosts.
    Removed,
}

impl HostState {
    /// Combines what the cluster says of a host with whether the host answered a call of ours; `None` where none was made.
    pub fn of(is_offline: bool, answered: Option<bool>) -> Self {
        match (is_offline, answered) {
            (true, _) => Self::Offline,
            (false, Some(false)) => Self::Silent,
            (false, Some(true) | None) => Self::Online,
        }
    }
}

/// A host that does not answer, or was removed from its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostOutage {
    /// Name of the host.
    pub host: String,
    /// Time of the first look that found it so.
    pub since: UnixMillis,
    /// Whether it was removed from its cluster. It does not return then.
    pub is_removed: bool,
}

/// The newest state of a computer on another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaState {
    /// The host of the replica.
    pub host: String,
    /// The age of its state: when its last refresh began.
    pub refreshed_at: UnixMillis,
}

/// Returns since when each host is out, after a look at all of them. A host that was out before keeps its time.
pub fn outages_after(
    before: &BTreeMap<String, UnixMillis>,
    seen: &BTreeMap<String, HostState>,
    now: UnixMillis,
) -> BTreeMap<String, UnixMillis> {
    let out = seen.iter().filter(|(_, state)| **state != HostState::Online);
    out.map(|(host, _)| (host.clone(), before.get(host).copied().unwrap_or(now))).collect()
}

/// Returns why a computer cannot be used now, for people; `None` where its host is no reason.
pub fn status_message(
    status: Status,
    reason: Option<StatusReason>,
    outage: Option<&HostOutage>,
    replica: Option<&ReplicaState>,
) -> Option<String> {
    let outage = outage?;
    let HostOutage { host, since, is_removed } = outage;
    if reason == Some(StatusReason::HostGone) {
        return Some(match replica {
            Some(replica) => format!(
                "its host {host} is gone; the next start continues from its replica on {}, with the state of {}",
                replica.host,
                replica.refreshed_at.iso8601()
            ),
            None => format!("its host {host} is gone, and it has no replica; it waits for its host"),
        });
    }
    if *is_removed {
        return Some(format!(
            "its host {host} was removed from its cluster; it can begin from its replica after the operator confirms that the \
             host is gone"
        ));
    }
    let since = since.iso8601();
    Some(match status {
        Status::Stopped | Status::Suspended | Status::Error => {
            format!("its host {host} does not answer since {since}")
        }
        Status::Creating
        | Status::Starting
        | Status::Running
        | Status::Stopping
        | Status::Restarting
        | Status::Deleting
        | Status::Suspending => {
            format!("its host {host} does not answer since {since}; it may still run")
        }
    })
}

/// Decides on an operation on a computer whose host is out. Returns whether it begins from the replica. A computer of a host that
/// was removed can be deleted: nothing of it is there.
///
/// # Errors
/// `Unavailable` (`host_unreachable`): the machine may still run, or there is no replica.
pub fn check_operation(
    operation: Operation,
    status: Status,
    reason: Option<StatusReason>,
    outage: &HostOutage,
    replica: Option<&ReplicaState>,
) -> Result<bool> {
    let is_gone = reason == Some(StatusReason::HostGone);
    let begins = match operation {
        Operation::Start | Operation::Restart => true,
        Operation::Stop | Operation::Suspend | Operation::Resume | Operation::Delete => false,
    };
    if is_gone && begins && replica.is_some() {
        return Ok(true);
    }
    if outage.is_removed && operation == Operation::Delete {
        return Ok(false);
    }
    Err(unreachable(status, reason, outage, replica))
}

/// Returns the lost host of a computer that began from its replica, if its record does not say so yet: the controller ended
/// in between. `before` is its stored host, `now` that of its machine.
pub fn begun_from<'a>(
    reason: Option<StatusReason>,
    before: Option<&'a str>,
    replica: Option<&ReplicaState>,
    now: Option<&str>,
) -> Option<&'a str> {
    let (replica, now) = (replica?, now?);
    before.filter(|before| reason == Some(StatusReason::HostGone) && *before != now && replica.host == now)
}

/// The error for a request that needs a computer's host, which is out.
pub fn unreachable(
    status: Status,
    reason: Option<StatusReason>,
    outage: &HostOutage,
    replica: Option<&ReplicaState>,
) -> Error {
    let why = status_message(status, reason, Some(outage), replica).unwrap_or_default();
    Error::unavailable(format!("Computer cannot be reached: {why}"))
        .code(ErrorCode::HostUnreachable)
        .retry_after(RETRY_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis::new(2_000);

    fn outage() -> HostOutage {
        HostOutage { host: "m2".to_owned(), since: UnixMillis::new(1_000), is_removed: false }
    }

    fn replica() -> ReplicaState {
        ReplicaState { host: "m3".to_owned(), refreshed_at: UnixMillis::EPOCH }
    }

    #[test]
    fn a_host_is_out_when_the_cluster_or_its_silence_says_so() {
        for (is_offline, answered, expected) in [
            (false, None, HostState::Online),
            (false, Some(true), HostState::Online),
            (false, Some(false), HostState::Silent),
            (true, None, HostState::Offline),
            (true, Some(true), HostState::Offline),
            (true, Some(false), HostState::Offline),
        ] {
            assert_eq!(HostState::of(is_offline, answered), expected, "{is_offline} {answered:?}");
        }
    }

    #[test]
    fn an_outage_has_the_time_of_the_first_look_that_found_it() {
        let before = BTreeMap::from([("m1".to_owned(), UnixMillis::new(5)), ("m2".to_owned(), NOW)]);
        let seen = [("m1", HostState::Offline), ("m2", HostState::Online), ("m3", HostState::Silent)];
        let seen = seen.map(|(host, state)| (host.to_owned(), state)).into();
        let expected = BTreeMap::from([("m1".to_owned(), UnixMillis::new(5)), ("m3".to_owned(), NOW)]);
        assert_eq!(outages_after(&before, &seen, NOW), expected);
    }

    #[test]
    fn a_record_says_what_is_known_of_its_machine() {
        let message = |status, reason, replica: Option<&ReplicaState>| {
            status_message(status, reason, Some(&outage()), replica).unwrap()
        };
        let runs = message(Status::Running, None, None);
        assert_eq!(runs, "its host m2 does not answer since 1970-01-01T00:00:01.000Z; it may still run");
        assert!(!message(Status::Stopped, None, None).contains("may still run"));
        let gone = Some(StatusReason::HostGone);
        assert!(message(Status::Stopped, gone, None).contains("waits for its host"));
        assert!(message(Status::Stopped, gone, Some(&replica())).contains("replica on m3"));
        assert_eq!(status_message(Status::Running, None, None, None), None);
        let removed = HostOutage { is_removed: true, ..outage() };
        let text = status_message(Status::Running, None, Some(&removed), Some(&replica())).unwrap();
        assert!(text.contains("m2 was removed") && text.contains("confirms"), "{text}");
        let text = status_message(Status::Stopped, gone, Some(&removed), Some(&replica())).unwrap();
        assert!(text.contains("replica on m3"), "{text}");
    }

    #[test]
    fn only_a_start_after_the_confirmation_begins_from_the_replica() {
        let gone = Some(StatusReason::HostGone);
        for operation in [
            Operation::Start,
            Operation::Stop,
            Operation::Restart,
            Operation::Suspend,
            Operation::Resume,
            Operation::Delete,
        ] {
            let begins = matches!(operation, Operation::Start | Operation::Restart);
            for (reason, replica, expected) in [
                (None, Some(replica()), false),
                (Some(StatusReason::AutoStop), Some(replica()), false),
                (gone, None, false),
                (gone, Some(replica()), begins),
            ] {
                let decided =
                    check_operation(operation, Status::Stopped, reason, &outage(), replica.as_ref());
                assert_eq!(decided.is_ok(), expected, "{operation:?} {reason:?} {replica:?}");
                if let Err(error) = decided {
                    assert_eq!(error.code, Some(ErrorCode::HostUnreachable));
                }
                // Of a host that was removed, nothing can be left by a delete.
                let removed = HostOutage { is_removed: true, ..outage() };
                let decided = check_operation(operation, Status::Stopped, reason, &removed, replica.as_ref());
                let is_delete = operation == Operation::Delete;
                assert_eq!(
                    decided.ok(),
                    (expected || is_delete).then_some(expected),
                    "{operation:?} {reason:?}"
                );
            }
        }
    }

    #[test]
    fn a_machine_on_the_host_of_its_replica_began_from_it() {
        let gone = Some(StatusReason::HostGone);
        for (reason, before, replica, now, expected) in [
            (gone, Some("m2"), Some(replica()), Some("m3"), Some("m2")),
            // It is where it was, because its host returned.
            (gone, Some("m2"), Some(replica()), Some("m2"), None),
            (gone, Some("m2"), Some(replica()), Some("m1"), None),
            (gone, Some("m2"), Some(replica()), None, None),
            (gone, Some("m3"), Some(replica()), Some("m3"), None),
            (gone, Some("m2"), None, Some("m3"), None),
            (gone, None, Some(replica()), Some("m3"), None),
            (None, Some("m2"), Some(replica()), Some("m3"), None),
        ] {
            let from = begun_from(reason, before, replica.as_ref(), now);
            assert_eq!(from, expected, "{reason:?} {before:?} {now:?}");
        }
    }
}
