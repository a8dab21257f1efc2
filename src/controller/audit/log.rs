//! Queue of audit entries, stored in batches twice a second.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::identity::auth::failures::Failures;
use crate::identity::auth::source::Source;
use crate::{App, AppState};
use hotdesk_base::clock::now_ms;
use hotdesk_domain::audit::Entry;
use hotdesk_domain::error::Result;

/// Time between two writes: what a killed controller may lose.
pub const WRITE_INTERVAL: Duration = Duration::from_millis(500);
/// Most waiting entries: 16,000 changes a second, or some seconds without a database. 8192 entries of about
/// 500 bytes are 4 MB.
const MAX_WAITING: usize = 8192;
/// Entries in one transaction, so that other writers get their turn.
const BATCH_SIZE: usize = 500;
/// Entries a minute that one client address gets for anonymous requests, which cost it nothing.
const MAX_ANONYMOUS: u32 = 20;
/// Entries a minute for anonymous requests of all addresses. Addresses are cheap, and 600 entries are 0.3 MB
/// of the 10,000 that the database keeps of them.
const MAX_ANONYMOUS_OF_ALL: u32 = 600;
/// Most anonymous entries that wait. They do not take the places of others while the database is unavailable.
const MAX_ANONYMOUS_WAITING: usize = 1024;
/// Window of [`MAX_ANONYMOUS`] and [`MAX_ANONYMOUS_OF_ALL`].
const MINUTE: Duration = Duration::from_secs(60);
/// Milliseconds of a day.
const DAY_MS: i64 = 24 * 3_600_000;

/// Entries that wait to be stored.
#[derive(Debug)]
pub struct Log {
    queue: Mutex<Queue>,
    anonymous: Failures<Source>,
    anonymous_of_all: Failures<()>,
    /// One task writes at a time. After waiting for it, a caller's own entries are stored.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Oldest first; they stay until they are stored.
    waiting: VecDeque<Entry>,
    /// How many of them are anonymous.
    anonymous_waiting: usize,
    lost: u64,
}

impl Default for Log {
    fn default() -> Self {
        let anonymous = Failures::new(MAX_ANONYMOUS, MINUTE);
        let anonymous_of_all = Failures::new(MAX_ANONYMOUS_OF_ALL, MINUTE);
        Self { queue: Mutex::default(), anonymous, anonymous_of_all, turn: tokio::sync::Mutex::default() }
    }
}

impl Log {
    /// Adds an entry without waiting. Beyond the bound entries are dropped, and the loss is logged. Anonymous
    /// requests get a limited number of entries a minute; further ones are only counted, so a flood has no
    /// other effect.
    pub(super) fn add(&self, entry: Entry, from: Source) {
        let anonymous = entry.is_unattributed();
        if anonymous && !self.accepts_anonymous(&from) {
            metrics::counter!("hotdesk_audit_anonymous_skipped_total").increment(1);
            return;
        }
        let mut queue = self.queue();
        if anonymous {
            queue.anonymous_waiting += 1;
        } else if queue.waiting.len() - queue.anonymous_waiting >= MAX_WAITING {
            queue.lost += 1;
            metrics::counter!("hotdesk_audit_lost_total").increment(1);
            return;
        }
        queue.waiting.push_back(entry);
    }

    fn accepts_anonymous(&self, from: &Source) -> bool {
        let now = Instant::now();
        if self.queue().anonymous_waiting >= MAX_ANONYMOUS_WAITING
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

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of waiting entries, and logs how many were lost since the last call.
    fn waiting(&self) -> usize {
        let mut queue = self.queue();
        let lost = std::mem::take(&mut queue.lost);
        if lost > 0 {
            tracing::error!(lost, "the audit queue was full: entries of the audit log are lost");
        }
        queue.waiting.len()
    }

    /// Returns the oldest waiting entries. They stay in the queue.
    fn oldest(&self, most: usize) -> Vec<Entry> {
        self.queue().waiting.iter().take(most).cloned().collect()
    }

    /// Removes the oldest entries after they were stored.
    fn stored(&self, count: usize) {
        let mut queue = self.queue();
        let count = count.min(queue.waiting.len());
        let anonymous = queue.waiting.drain(..count).filter(Entry::is_unattributed).count();
        queue.anonymous_waiting -= anonymous;
    }
}

impl App {
    /// Stores all waiting entries. Cancel-safe: at worst one batch is stored twice.
    ///
    /// # Errors
    /// `Internal` when the database fails; the entries stay in the queue.
    pub async fn write_audit(&self) -> Result<()> {
        let _turn = self.audit.turn.lock().await;
        // Entries that arrive meanwhile are for the next call, so that it ends under load.
        let mut left = self.audit.waiting();
        while left > 0 {
            let batch = self.audit.oldest(left.min(BATCH_SIZE));
            self.store.add_audit(&batch).await?;
            self.audit.stored(batch.len());
            left -= batch.len();
        }
        Ok(())
    }
}

/// Calls [`App::write_audit`] in the background.
///
/// # Errors
/// `Internal` when the database fails.
pub async fn write(app: AppState) -> Result<()> {
    app.write_audit().await
}

/// Removes entries beyond the configured age and number.
///
/// # Errors
/// `Internal` when the database fails.
pub async fn trim(app: &App) -> Result<()> {
    let kept = &app.config.audit;
    let before = now_ms().saturating_sub(i64::from(kept.days).saturating_mul(DAY_MS));
    app.store.trim_audit(before, kept.entries).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::AccountId;

    fn line(at: i64) -> Entry {
        Entry {
            at,
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
            status: Some(201),
            code: None,
            request_id: String::new(),
        }
    }

    fn times(lines: &[Entry]) -> Vec<i64> {
        lines.iter().map(|line| line.at).collect()
    }

    #[test]
    fn an_entry_waits_until_it_is_stored() {
        let (log, from) = (Log::default(), Source::parse("192.0.2.1"));
        (0..3).for_each(|at| log.add(line(at), from));
        assert_eq!(log.waiting(), 3);
        for attempt in ["one that breaks off", "the next"] {
            assert_eq!(times(&log.oldest(2)), [0, 1], "{attempt}");
        }
        log.add(line(3), from);
        log.stored(2);
        assert_eq!(times(&log.oldest(BATCH_SIZE)), [2, 3]);
        log.stored(2);
        assert_eq!(log.waiting(), 0);
    }

    #[test]
    fn an_anonymous_flood_takes_no_place_of_other_entries() {
        let log = Log::default();
        let from = |n: usize| Source::parse(&format!("2001:db8:{:x}:{:x}::1", n / 65_536, n % 65_536));
        for n in 0..100_000 {
            log.add(Entry { account: None, ..line(0) }, from(n));
        }
        assert_eq!(log.waiting(), MAX_ANONYMOUS_OF_ALL as usize);
        (0..10_000).for_each(|at| log.add(line(at), from(0)));
        assert_eq!(log.waiting(), MAX_ANONYMOUS_OF_ALL as usize + MAX_WAITING);
        // A sign-in attempt belongs to its account, so it is not anonymous.
        let tried = Entry { account: None, owner: Some(AccountId::random()), ..line(0) };
        log.stored(log.waiting());
        assert_eq!((log.waiting(), log.queue().anonymous_waiting), (0, 0));
        log.add(tried, from(0));
        assert_eq!(log.waiting(), 1);
        log.stored(1);
        // While the database is unavailable, anonymous entries fill only their part of the queue, however
        // many minutes pass.
        let minutes = (MAX_ANONYMOUS_WAITING / MAX_ANONYMOUS_OF_ALL as usize) + 2;
        for _ in 0..minutes {
            let fresh = Log { queue: Mutex::new(std::mem::take(&mut *log.queue())), ..Log::default() };
            (0..1000).for_each(|n| fresh.add(Entry { account: None, ..line(0) }, from(n)));
            *log.queue() = std::mem::take(&mut *fresh.queue());
        }
        assert_eq!(log.waiting(), MAX_ANONYMOUS_WAITING);
    }

    #[test]
    fn waiting_entries_are_bounded_and_anonymous_ones_by_address() {
        let (log, from) = (Log::default(), Source::parse("192.0.2.1"));
        for at in 0..100 {
            log.add(Entry { account: None, ..line(at) }, from);
        }
        assert_eq!(log.waiting(), 20);
        (0..10_000).for_each(|at| log.add(line(at), from));
        assert_eq!((log.waiting(), log.oldest(1)[0].account), (MAX_WAITING + 20, None));
    }
}
