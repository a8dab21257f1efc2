//! How do lines get into the log? In batches, twice a second, from a bounded queue.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::auth::failures::Failures;
use crate::auth::source::Source;
use crate::{App, Shared};
use hotdesk_base::clock::now_ms;
use hotdesk_domain::audit::Entry;
use hotdesk_domain::error::Result;

/// Between two writes: what a killed controller may lose.
pub const WRITTEN_EVERY: Duration = Duration::from_millis(500);
/// Lines that wait: 16,000 changes a second, and some seconds of a store that is away. 8192 x about 500 bytes are 4 MB.
const MAX_WAITING: usize = 8192;
/// Lines that one transaction writes, so that others get their turn in between.
const BATCH: usize = 500;
/// Lines a minute that one source gets for requests of nobody known, which cost it nothing.
const MAX_ANONYMOUS: u32 = 20;
/// Lines a minute that all sources together get for those: addresses cost little, and 600 lines are 0.3 MB on their way to the
/// 10,000 that are kept in the store.
const MAX_ANONYMOUS_OF_ALL: u32 = 600;
/// Lines of nobody's that wait beside the others, whose places they do not take while a store is away.
const MAX_ANONYMOUS_WAITING: usize = 1024;
/// In what time [`MAX_ANONYMOUS`] and [`MAX_ANONYMOUS_OF_ALL`] are counted.
const MINUTE: Duration = Duration::from_secs(60);
/// Milliseconds of a day.
const DAY_MS: i64 = 24 * 3_600_000;

/// Lines on their way into the store.
#[derive(Debug)]
pub struct Log {
    queue: Mutex<Queue>,
    anonymous: Failures<Source>,
    anonymous_of_all: Failures<()>,
    /// One writes at a time: who waits for it finds its own lines written.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Queue {
    /// The oldest first, until they are stored.
    waiting: VecDeque<Entry>,
    /// How many of them are nobody's.
    nobodys: usize,
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
    /// Takes a line in. It never waits: past the bound the line is lost, and that is told. Of nobody's requests each source gets
    /// some lines a minute, and all together some; the others are counted, and that is all that a flood of them does.
    pub(super) fn add(&self, entry: Entry, from: Source) {
        let nobodys = entry.is_nobodys();
        if nobodys && !self.has_room_for_nobody(&from) {
            metrics::counter!("hotdesk_audit_anonymous_skipped_total").increment(1);
            return;
        }
        let mut queue = self.queue();
        if nobodys {
            queue.nobodys += 1;
        } else if queue.waiting.len() - queue.nobodys >= MAX_WAITING {
            queue.lost += 1;
            metrics::counter!("hotdesk_audit_lost_total").increment(1);
            return;
        }
        queue.waiting.push_back(entry);
    }

    fn has_room_for_nobody(&self, from: &Source) -> bool {
        let now = Instant::now();
        if self.queue().nobodys >= MAX_ANONYMOUS_WAITING || self.anonymous_of_all.attempt(&(), now).is_err() {
            return false;
        }
        let one_more = self.anonymous.attempt(from, now).is_ok();
        if !one_more {
            // What is not written takes nobody else's line.
            self.anonymous_of_all.forgive(&());
        }
        one_more
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many lines wait. Those that were lost since it was last asked are told.
    fn waiting(&self) -> usize {
        let mut queue = self.queue();
        let lost = std::mem::take(&mut queue.lost);
        if lost > 0 {
            tracing::error!(
                lost,
                "more was done than could be written down: lines of the audit log are lost"
            );
        }
        queue.waiting.len()
    }

    /// The oldest lines that wait, at most so many. They wait on.
    fn oldest(&self, most: usize) -> Vec<Entry> {
        self.queue().waiting.iter().take(most).cloned().collect()
    }

    /// So many of the oldest lines are stored.
    fn stored(&self, count: usize) {
        let mut queue = self.queue();
        let count = count.min(queue.waiting.len());
        let nobodys = queue.waiting.drain(..count).filter(Entry::is_nobodys).count();
        queue.nobodys -= nobodys;
    }
}

impl App {
    /// Writes down all that waits. A caller that leaves meanwhile takes no line along: at worst one batch is written twice.
    ///
    /// # Errors
    /// When the store fails; what is not written waits on.
    pub async fn write_audit(&self) -> Result<()> {
        let _turn = self.audit.turn.lock().await;
        // What comes meanwhile is for the next turn, so that a busy house does not keep this one.
        let mut left = self.audit.waiting();
        while left > 0 {
            let batch = self.audit.oldest(left.min(BATCH));
            self.store.add_audit(&batch).await?;
            self.audit.stored(batch.len());
            left -= batch.len();
        }
        Ok(())
    }
}

/// As [`App::write_audit`], in the background.
///
/// # Errors
/// When the store fails.
pub async fn write(app: Shared) -> Result<()> {
    app.write_audit().await
}

/// Forgets what is older, or more, than the configuration keeps.
///
/// # Errors
/// When the store fails.
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
    fn a_line_waits_until_it_is_stored() {
        let (log, from) = (Log::default(), Source::parse("192.0.2.1"));
        (0..3).for_each(|at| log.add(line(at), from));
        assert_eq!(log.waiting(), 3);
        for attempt in ["one that breaks off", "the next"] {
            assert_eq!(times(&log.oldest(2)), [0, 1], "{attempt}");
        }
        log.add(line(3), from);
        log.stored(2);
        assert_eq!(times(&log.oldest(BATCH)), [2, 3]);
        log.stored(2);
        assert_eq!(log.waiting(), 0);
    }

    #[test]
    fn a_flood_from_everywhere_takes_nobody_s_place() {
        let log = Log::default();
        let from = |n: usize| Source::parse(&format!("2001:db8:{:x}:{:x}::1", n / 65_536, n % 65_536));
        for n in 0..100_000 {
            log.add(Entry { account: None, ..line(0) }, from(n));
        }
        assert_eq!(log.waiting(), MAX_ANONYMOUS_OF_ALL as usize);
        (0..10_000).for_each(|at| log.add(line(at), from(0)));
        assert_eq!(log.waiting(), MAX_ANONYMOUS_OF_ALL as usize + MAX_WAITING);
        // A try to sign in to an account is that account's matter, and stands with what is known.
        let tried = Entry { account: None, owner: Some(AccountId::random()), ..line(0) };
        log.stored(log.waiting());
        assert_eq!((log.waiting(), log.queue().nobodys), (0, 0));
        log.add(tried, from(0));
        assert_eq!(log.waiting(), 1);
        log.stored(1);
        // While the store is away those of nobody known wait in a part of the room, however many minutes pass.
        let minutes = (MAX_ANONYMOUS_WAITING / MAX_ANONYMOUS_OF_ALL as usize) + 2;
        for _ in 0..minutes {
            let fresh = Log { queue: Mutex::new(std::mem::take(&mut *log.queue())), ..Log::default() };
            (0..1000).for_each(|n| fresh.add(Entry { account: None, ..line(0) }, from(n)));
            *log.queue() = std::mem::take(&mut *fresh.queue());
        }
        assert_eq!(log.waiting(), MAX_ANONYMOUS_WAITING);
    }

    #[test]
    fn lines_that_wait_are_bounded_and_nobody_s_by_their_source() {
        let (log, from) = (Log::default(), Source::parse("192.0.2.1"));
        for at in 0..100 {
            log.add(Entry { account: None, ..line(at) }, from);
        }
        assert_eq!(log.waiting(), 20);
        (0..10_000).for_each(|at| log.add(line(at), from));
        assert_eq!((log.waiting(), log.oldest(1)[0].account), (MAX_WAITING + 20, None));
    }
}
