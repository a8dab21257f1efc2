//! Replicas of computers on a second host: when one is refreshed, and where it is.

use std::collections::BTreeMap;
use std::time::Duration;

use super::outage::HostState;
use crate::computer::lifecycle::Status;
use crate::error::{Error, Result};
use hotdesk_base::time::UnixMillis;

/// Longest time between two refreshes of a replica: a week, in minutes. An older copy is of little use.
pub const MAX_INTERVAL_MINUTES: i64 = 10_080;
/// Longest pause after failed refreshes. A replica with a shorter interval is tried again after its interval.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(600);

/// Failed refreshes in a row after which a replica must be copied anew: a refresh fails for ever once the two sides share no
/// snapshot.
const MAX_FAILURES: u32 = 2;

/// Checks the minutes between two refreshes of a replica and returns them; 0 means no replica.
///
/// # Errors
/// `Invalid` below 0 or above [`MAX_INTERVAL_MINUTES`]; also above 0 for a computer whose engine cannot replicate.
pub fn check_interval(minutes: i64, can_replicate: bool) -> Result<i64> {
    if !(0..=MAX_INTERVAL_MINUTES).contains(&minutes) {
        return Err(Error::invalid(format!(
            "replicate.interval_minutes must be 0 to {MAX_INTERVAL_MINUTES}; 0 is off"
        )));
    }
    if minutes > 0 && !can_replicate {
        return Err(Error::invalid(
            "Computer cannot be replicated: its engine has no second host (docs/engines/incus.md)",
        ));
    }
    Ok(minutes)
}

/// The state with which a computer began on another host, because its own was gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The host that was lost.
    pub from: String,
    /// The age of the state: when the last refresh of the replica began.
    pub state_at: UnixMillis,
}

/// What decides when the replica of a computer is refreshed.
#[derive(Clone, Copy, Debug)]
pub struct RefreshCandidate {
    /// Status of the computer.
    pub status: Status,
    /// Minutes between two refreshes; 0 means no replica.
    pub interval_minutes: i64,
    /// The last refresh.
    pub refreshed_at: Option<UnixMillis>,
    /// The last attempt, which may have failed.
    pub tried_at: Option<UnixMillis>,
    /// Whether its host is out.
    pub is_out: bool,
}

/// Returns when the replica of a computer is to be refreshed next; `None` while it is not to be.
pub fn next_refresh(candidate: &RefreshCandidate) -> Option<UnixMillis> {
    let minutes = u64::try_from(candidate.interval_minutes).ok().filter(|minutes| *minutes > 0)?;
    let is_whole = match candidate.status {
        Status::Running | Status::Stopped | Status::Suspended => true,
        // Its disk changes by somebody else's hand, or may not be whole.
        Status::Creating
        | Status::Starting
        | Status::Stopping
        | Status::Restarting
        | Status::Deleting
        | Status::Error
        | Status::Suspending => false,
    };
    if candidate.is_out || !is_whole {
        return None;
    }
    let interval = Duration::from_secs(minutes * 60);
    let due = candidate.refreshed_at.map_or(UnixMillis::EPOCH, |at| at.plus(interval));
    let retry = candidate.tried_at.map_or(UnixMillis::EPOCH, |at| at.plus(interval.min(MAX_RETRY_PAUSE)));
    Some(due.max(retry))
}

/// Chooses the host of a replica: the one that has it already while it is online, else the online host with the fewest
/// instances, by name among equals. `None` when there is none besides the computer's own host.
pub fn choose_host(
    hosts: &BTreeMap<String, HostState>,
    instances: &BTreeMap<String, usize>,
    own: &str,
    present: Option<&str>,
) -> Option<String> {
    let is_fit = |host: &str| host != own && hosts.get(host) == Some(&HostState::Online);
    if let Some(present) = present.filter(|host| is_fit(host)) {
        return Some(present.to_owned());
    }
    let fit = hosts.keys().filter(|host| is_fit(host));
    fit.min_by_key(|host| instances.get(*host).copied().unwrap_or_default()).cloned()
}

/// Whether a replica, which is on the host `at` if there is one, cannot be refreshed on `host`: it must be removed first, and its
/// record before it.
pub fn needs_new_copy(at: Option<&str>, host: &str, failures: u32) -> bool {
    at.is_some_and(|at| at != host || failures >= MAX_FAILURES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_bounded_and_needs_an_engine_that_can() {
        for (minutes, can, ok) in [
            (0, false, true),
            (0, true, true),
            (1, true, true),
            (MAX_INTERVAL_MINUTES, true, true),
            (MAX_INTERVAL_MINUTES + 1, true, false),
            (-1, true, false),
            (1, false, false),
        ] {
            assert_eq!(check_interval(minutes, can).is_ok(), ok, "{minutes} {can}");
        }
    }

    #[test]
    fn a_refresh_is_due_after_the_interval_and_retried_with_a_pause() {
        let minute = 60_000;
        let at = |minutes: i64| Some(UnixMillis::new(minutes * minute));
        let idle = RefreshCandidate {
            status: Status::Running,
            interval_minutes: 5,
            refreshed_at: None,
            tried_at: None,
            is_out: false,
        };
        for (candidate, expected) in [
            (idle, at(0)),
            (RefreshCandidate { refreshed_at: at(10), tried_at: at(10), ..idle }, at(15)),
            (RefreshCandidate { tried_at: at(10), ..idle }, at(15)),
            // A long interval is not a long pause after a failure.
            (RefreshCandidate { interval_minutes: 60, tried_at: at(10), ..idle }, at(20)),
            (RefreshCandidate { interval_minutes: 0, ..idle }, None),
            (RefreshCandidate { is_out: true, ..idle }, None),
            (RefreshCandidate { status: Status::Starting, ..idle }, None),
            (RefreshCandidate { status: Status::Error, ..idle }, None),
            (RefreshCandidate { status: Status::Stopped, ..idle }, at(0)),
        ] {
            assert_eq!(next_refresh(&candidate), expected, "{candidate:?}");
        }
    }

    #[test]
    fn a_replica_that_moves_or_fails_is_copied_anew() {
        for (at, failures, expected) in [
            (None, 0, false),
            (Some("m2"), 0, false),
            (Some("m2"), 1, false),
            (Some("m2"), 2, true),
            (Some("m3"), 0, true),
        ] {
            assert_eq!(needs_new_copy(at, "m2", failures), expected, "{at:?} {failures}");
        }
    }

    #[test]
    fn a_replica_stays_where_it_is_and_else_goes_to_the_emptiest_host() {
        let hosts = |states: &[(&str, HostState)]| -> BTreeMap<String, HostState> {
            states.iter().map(|(host, state)| ((*host).to_owned(), *state)).collect()
        };
        let all = hosts(&[
            ("m1", HostState::Online),
            ("m2", HostState::Online),
            ("m3", HostState::Online),
            ("m4", HostState::Silent),
        ]);
        let instances = BTreeMap::from([("m1".to_owned(), 1), ("m2".to_owned(), 5), ("m3".to_owned(), 2)]);
        for (own, present, expected) in [
            ("m1", None, Some("m3")),
            ("m3", None, Some("m1")),
            ("m1", Some("m2"), Some("m2")),
            // It moved to the host of its replica.
            ("m2", Some("m2"), Some("m1")),
            ("m1", Some("m4"), Some("m3")),
        ] {
            let chosen = choose_host(&all, &instances, own, present);
            assert_eq!(chosen.as_deref(), expected, "{own} {present:?}");
        }
        let alone = hosts(&[("m1", HostState::Online), ("m2", HostState::Offline)]);
        assert_eq!(choose_host(&alone, &instances, "m1", Some("m2")), None);
    }
}
