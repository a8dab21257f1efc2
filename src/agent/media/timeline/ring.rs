//! Bounded memory of the newest entries of a timeline, with consecutive numbers.

use std::collections::VecDeque;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use uuid::Uuid;

use super::FinishedEntry;
use hotdesk_domain::desktop::screen::timeline::{MAX_PAGE_BYTES, MAX_PAGE_ENTRIES};
use hotdesk_wire::agent::timeline::{GuestTimeline, GuestTimelineEntry, GuestTimelineQuery};

/// Most entries. The controller fetches every second, so they are minutes of the fastest clients.
const MAX_ENTRIES: usize = 256;
/// Most bytes: all entries with two pictures of the usual 5 KB take a third of it, so only screens of noise,
/// whose pictures are larger, keep fewer entries.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of an entry besides its pictures, names and areas.
const ENTRY_BYTES: usize = 512;
/// Bytes of an area as JSON.
const AREA_BYTES: usize = 48;

/// The newest entries, oldest first.
#[derive(Debug)]
pub(super) struct Ring {
    series: String,
    entries: VecDeque<(u64, Arc<FinishedEntry>)>,
    bytes: usize,
    /// Number of the next entry.
    next: u64,
}

impl Ring {
    pub(super) fn new() -> Self {
        Self { series: Uuid::new_v4().to_string(), entries: VecDeque::new(), bytes: 0, next: 1 }
    }

    /// Adds an entry; the oldest ones make room.
    pub(super) fn push(&mut self, entry: Arc<FinishedEntry>) {
        self.bytes += size(&entry);
        self.entries.push_back((self.next, entry));
        self.next += 1;
        while self.entries.len() > MAX_ENTRIES || self.bytes > MAX_BYTES {
            let Some((_, oldest)) = self.entries.pop_front() else { break };
            self.bytes -= size(&oldest);
        }
    }

    /// Leaves out the number of an entry that was lost.
    pub(super) fn skip(&mut self) {
        self.next += 1;
    }

    /// Returns the entries after the one that a client knows.
    pub(super) fn page(&self, query: &GuestTimelineQuery) -> GuestTimeline {
        let is_same = query.series.as_deref() == Some(self.series.as_str());
        let after = query.after.filter(|_| is_same).unwrap_or(0);
        let mut bytes = 0;
        let mut later = self.entries.iter().skip_while(|(number, _)| *number <= after).peekable();
        let mut entries = Vec::new();
        while let Some((number, entry)) = later.next_if(|(_, entry)| {
            bytes += size(entry);
            entries.len() < MAX_PAGE_ENTRIES && (bytes <= MAX_PAGE_BYTES || entries.is_empty())
        }) {
            entries.push(answer(*number, entry));
        }
        let more = later.peek().is_some();
        GuestTimeline { series: self.series.clone(), entries, more, in_progress: 0 }
    }
}

/// Approximate bytes of an entry.
fn size(entry: &FinishedEntry) -> usize {
    let pictures: usize = [&entry.before, &entry.after].into_iter().flatten().map(|it| it.len()).sum();
    let title = entry.record.window_after.as_ref().and_then(|window| window.title.as_ref());
    let keys: usize = entry.record.keys.iter().flatten().map(String::len).sum();
    ENTRY_BYTES + pictures + title.map_or(0, String::len) + keys + entry.record.changed.len() * AREA_BYTES
}

fn answer(number: u64, entry: &FinishedEntry) -> GuestTimelineEntry {
    GuestTimelineEntry {
        number,
        age_ms: u64::try_from(entry.began.elapsed().as_millis()).unwrap_or(u64::MAX),
        by: entry.by.map(|actor| actor.to_string()),
        record: entry.record.clone(),
        before: entry.before.as_ref().map(|picture| STANDARD.encode(picture)),
        after: entry.after.as_ref().map(|picture| STANDARD.encode(picture)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hotdesk_wire::desktop::action::timeline::ActionRecord;
    use std::time::Instant;

    fn entry(picture: usize) -> Arc<FinishedEntry> {
        Arc::new(FinishedEntry {
            by: None,
            began: Instant::now(),
            record: ActionRecord::default(),
            before: None,
            after: (picture > 0).then(|| Bytes::from(vec![0; picture])),
        })
    }

    fn numbers(page: &GuestTimeline) -> Vec<u64> {
        page.entries.iter().map(|entry| entry.number).collect()
    }

    fn after(series: &str, number: u64) -> GuestTimelineQuery {
        GuestTimelineQuery { series: Some(series.to_owned()), after: Some(number), wait_seconds: None }
    }

    #[test]
    fn entries_are_read_after_the_known_one_of_the_same_series() {
        let mut ring = Ring::new();
        for _ in 0..3 {
            ring.push(entry(0));
        }
        ring.skip();
        ring.push(entry(0));
        let all = ring.page(&GuestTimelineQuery::default());
        assert_eq!((numbers(&all), all.more), (vec![1, 2, 3, 5], false));
        assert_eq!(numbers(&ring.page(&after(&all.series, 2))), [3, 5]);
        assert_eq!(numbers(&ring.page(&after("other", 2))), [1, 2, 3, 5]);
        assert_eq!(numbers(&ring.page(&after(&all.series, 5))), [0_u64; 0]);
        assert_ne!(Ring::new().page(&GuestTimelineQuery::default()).series, all.series);
    }

    #[test]
    fn the_oldest_entries_make_room_and_a_page_is_bounded() {
        let mut ring = Ring::new();
        for _ in 0..MAX_ENTRIES + 2 {
            ring.push(entry(0));
        }
        let page = ring.page(&GuestTimelineQuery::default());
        assert_eq!((page.entries[0].number, page.entries.len(), page.more), (3, MAX_PAGE_ENTRIES, true));
        for _ in 0..3 {
            ring.push(entry(MAX_BYTES / 2));
        }
        let page = ring.page(&GuestTimelineQuery::default());
        assert_eq!((page.entries.len(), page.more), (1, false), "two do not fit with what an entry takes");
        ring.push(entry(MAX_PAGE_BYTES));
        ring.push(entry(1));
        let page = ring.page(&GuestTimelineQuery::default());
        assert_eq!((page.entries.len(), page.more), (1, true), "a large entry is a page of its own");
    }
}
