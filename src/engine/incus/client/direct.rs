//! Direct ways to the members of a cluster, so that the bytes of an exec do not pass through another member.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::transport::Transport;
use super::{Client, SMALL_READ};

/// Timeout of all steps. The server waits 5 s for the web sockets of an exec, so that there is time for the other way.
const REACH_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause before a member is tried again: many computers of one member begin at once when it starts.
const RETRY_PAUSE: Duration = Duration::from_secs(60);

/// The members without a direct way, and since when that is known.
#[derive(Debug, Default)]
pub(super) struct IndirectMembers(Mutex<BTreeMap<String, Instant>>);

impl IndirectMembers {
    fn contains(&self, member: &str) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(member).is_some_and(|since| since.elapsed() < RETRY_PAUSE)
    }

    /// Records that a member has no direct way.
    pub(super) fn note(&self, member: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(member.to_owned(), Instant::now());
    }
}

impl Client {
    /// The way to a member of the cluster with the certificates of this client; `None` when it cannot be reached, or is the
    /// member of this client.
    pub(super) async fn direct(&self, member: &str) -> Option<Transport> {
        // An operation of a server without a cluster has the member `none`.
        if matches!(member, "" | "none") || !self.transport.is_tls() || self.indirect.contains(member) {
            return None;
        }
        let reached = tokio::time::timeout(REACH_TIMEOUT, async {
            let described = self.get(&format!("/1.0/cluster/members/{member}")).await.ok()?;
            let transport = self.transport.to_member(described["url"].as_str()?)?;
            // A firewall may be in between; the handshake also checks the pinned certificate.
            let connection = transport.connect(SMALL_READ).await.ok()?;
            drop(connection);
            Some(transport)
        });
        let direct = reached.await.ok().flatten();
        if direct.is_none() {
            self.indirect.note(member);
        }
        direct
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_without_a_direct_way_is_remembered() {
        let members = IndirectMembers::default();
        assert!(!members.contains("m1"));
        members.note("m1");
        assert!(members.contains("m1") && !members.contains("m2"));
    }
}
