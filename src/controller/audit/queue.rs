//! Bounded queue of audit entries that wait to be stored.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::web::failures::Failures;
use crate::web::source::Source;
use hotdesk_domain::audit::Entry;

/// Most waiting entries: 16,000 changes a second, or some seconds without a database. 8192 entries of about
/// 500 bytes are 4 MB.
const MAX_WAITING: usize = 8192;
/// Entries a minute that one client address gets for anonymous requests, which cost it nothing.
const MAX_ANONYMOUS: u32 = 20;
/// Entries a minute for anonymous requests of all addresses. Addresses are cheap, and 600 entries are 0.3 MB
/// of the 10,000 that the database keeps of them.
const MAX_ANONYMOUS_OF_ALL: u32 = 600;
/// Most anonymous entries that wait. They do not take the places of others while the database is unavailable.
const MAX_ANONYMOUS_WAITING: usize = 1024;
/// Window of [`MAX_ANONYMOUS`] and [`MAX_ANONYMOUS_OF_ALL`].
const MINUTE: Duration = Duration::from_secs(60);

/// Entries that wait to be stored.
#[derive(Debug)]
pub(super) struct EntryQueue {
    entries: Mutex<Entries>,
    anonymous: Failures<Source>,
    anonymous_of_all: Failures<()>,
}

#[derive(Debug, Default)]
struct Entries {
    /// Oldest first; they stay until they are stored.
    waiting: VecDeque<Entry>,
    /// How many of them are anonymous.
    anonymous_waiting: usize,
    lost: u64,
}

impl Default for EntryQueue {
    fn default() -> Self {
        let anonymous = Failures::new(MAX_ANONYMOUS, MINUTE);
        let anonymous_of_all = Failures::new(MAX_ANONYMOUS_OF_ALL, MINUTE);
        Self { entries: Mutex::default(), anonymous, anonymous_of_all }
    }
}

impl EntryQueue {
    /// Adds an entry without waiting. Beyond the bound entries are dropped, and the loss is logged. Anonymous
    /// requests get a limited number of entries a minute; further ones are only counted, so a flood has no
    /// other effect.
    pub(super) fn add(&self, entry: Entry, from: Source) {
        let anonymous = entry.is_unattributed();
        if anonymous && !self.accepts_anonymous(&from) {
            metrics::counter!("hotdesk_audit_anonymous_skipped_total").increment(1);
            return;
        }
        let mut entries = self.entries();
        if anonymous {
            entries.anonymous_waiting += 1;
        } else if entries.waiting.len() - entries.anonymous_waiting >= MAX_WAITING {
            entries.lost += 1;
            metrics::counter!("hotdesk_audit_lost_total").increment(1);
            return;
        }
        entries.waiting.push_back(entry);
    }

    fn accepts_anonymous(&self, from: &Source) -> bool {
        let now = Instant::now();
        if self.entries().anonymous_waiting >= MAX_ANONYMOUS_WAITING
            || self.anonymous_of_all.attempt(&(), now).is_err()
        {
            return false;
        }
        let one_more = self.anonymous.attempt(from, now).is_ok();
        if !one_more {
            // A dropped entry does not use up the limit of all.
            self.anonymous_of_all.forgive(&());
        }
        one_more
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of waiting entries, and logs how many were lost since the last call.
    pub(super) fn waiting(&self) -> usize {
        let mut entries = self.entries();
        let lost = std::mem::take(&mut entries.lost);
        if lost > 0 {
            tracing::error!(lost, "the audit queue was full: entries of the audit log are lost");
        }
        entries.waiting.len()
    }

    /// Returns the oldest waiting entries. They stay in the queue.
    pub(super) fn oldest(&self, most: usize) -> Vec<Entry> {
        self.entries().waiting.iter().take(most).cloned().collect()
    }

    /// Removes the oldest entries after they were stored.
    pub(super) fn stored(&self, count: usize) {
        let mut entries = self.entries();
        let count = count.min(entries.waiting.len());
        let anonymous = entries.waiting.drain(..count).filter(Entry::is_unattributed).count();
        entries.anonymous_waiting -= anonymous;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::AccountId;
    use hotdesk_base::time::UnixMillis;
    use hotdesk_domain::audit::AuditOutcome;

    fn line(at: i64) -> Entry {
        Entry {
            at: UnixMillis::new(at),
            account: Some(AccountId::random()),
            credential: None,
            client: None,
            source: None,
            method: "POST".to_owned(),
            route: "/computers".to_owned(),
            action: None,
            owner: None,
            workspace: None,
            computer: None,
            target: None,
            stranger: false,
            outcome: AuditOutcome::CREATED,
            code: None,
            request_id: String::new(),
        }
    }

    fn times(lines: &[Entry]) -> Vec<i64> {
        lines.iter().map(|line| line.at.as_i64()).collect()
    }

    #[test]
    fn an_entry_waits_until_it_is_stored() {
        let (queue, from) = (EntryQueue::default(), Source::parse("192.0.2.1"));
        (0..3).for_each(|at| queue.add(line(at), from));
        assert_eq!(queue.waiting(), 3);
        for attempt in ["one that breaks off", "the next"] {
            assert_eq!(times(&queue.oldest(2)), [0, 1], "{attempt}");
        }
        queue.add(line(3), from);
        queue.stored(2);
        assert_eq!(times(&queue.oldest(MAX_WAITING)), [2, 3]);
        queue.stored(2);
        assert_eq!(queue.waiting(), 0);
    }

    #[test]
    fn an_anonymous_flood_takes_no_place_of_other_entries() {
        let queue = EntryQueue::default();
        let from = |n: usize| Source::parse(&format!("2001:db8:{:x}:{:x}::1", n / 65_536, n % 65_536));
        for n in 0..100_000 {
            queue.add(Entry { account: None, ..line(0) }, from(n));
        }
        assert_eq!(queue.waiting(), MAX_ANONYMOUS_OF_ALL as usize);
        (0..10_000).for_each(|at| queue.add(line(at), from(0)));
        assert_eq!(queue.waiting(), MAX_ANONYMOUS_OF_ALL as usize + MAX_WAITING);
        // A sign-in attempt belongs to its account, so it is not anonymous.
        let tried = Entry { account: None, owner: Some(AccountId::random()), ..line(0) };
        queue.stored(queue.waiting());
        assert_eq!((queue.waiting(), queue.entries().anonymous_waiting), (0, 0));
        queue.add(tried, from(0));
        assert_eq!(queue.waiting(), 1);
        queue.stored(1);
        // While the database is unavailable, anonymous entries fill only their part of the queue, however
        // many minutes pass.
        let minutes = (MAX_ANONYMOUS_WAITING / MAX_ANONYMOUS_OF_ALL as usize) + 2;
        for _ in 0..minutes {
            let fresh = EntryQueue {
                entries: Mutex::new(std::mem::take(&mut *queue.entries())),
                ..EntryQueue::default()
            };
            (0..1000).for_each(|n| fresh.add(Entry { account: None, ..line(0) }, from(n)));
            *queue.entries() = std::mem::take(&mut *fresh.entries());
        }
        assert_eq!(queue.waiting(), MAX_ANONYMOUS_WAITING);
    }

    #[test]
    fn waiting_entries_are_bounded_and_anonymous_ones_by_address() {
        let (queue, from) = (EntryQueue::default(), Source::parse("192.0.2.1"));
        for at in 0..100 {
            queue.add(Entry { account: None, ..line(at) }, from);
        }
        assert_eq!(queue.waiting(), 20);
        (0..10_000).for_each(|at| queue.add(line(at), from));
        assert_eq!((queue.waiting(), queue.oldest(1)[0].account), (MAX_WAITING + 20, None));
    }
}
