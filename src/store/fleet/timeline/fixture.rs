//! Entries of a timeline, for tests.

use uuid::Uuid;

use super::{NewTimelineEntry, TimelineBounds, TimelineFilter};
use crate::fleet::threads::fixture::Fixture;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::identity::access::actor::Actor;

pub(super) const BOUNDS: TimelineBounds = TimelineBounds { entries: 3, bytes: 1000 };

pub(super) fn entry(series_number: u64, by: Option<Actor>) -> NewTimelineEntry {
    NewTimelineEntry {
        series_number,
        at: UnixMillis::new(i64::try_from(series_number).unwrap() * 10),
        by,
        screen: "default".to_owned(),
        record: "{}".to_owned(),
        before: None,
        after: Some((Uuid::new_v4(), 5)),
    }
}

pub(super) fn picture(entry: &NewTimelineEntry) -> Uuid {
    entry.after.unwrap().0
}

pub(super) async fn numbers(fixture: &Fixture, filter: TimelineFilter) -> Vec<i64> {
    let filter = TimelineFilter { limit: 10, ..filter };
    let found = fixture.store.timeline(fixture.computer, &filter).await.unwrap();
    found.into_iter().map(|entry| entry.number).collect()
}
