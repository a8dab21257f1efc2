//! Listings of timelines.

use super::{TimelineEntry, TimelineFilter};
use crate::{Store, failed, id};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};

row! {
    struct Row {
        number: i64,
        at: i64,
        lost_before: i64,
        actor_kind: Option<String>,
        actor_id: Option<String>,
        before_picture: Option<String>,
        after_picture: Option<String>,
        record: String,
    }
}

const SELECT: &str = "SELECT number, at, lost_before, actor_kind, actor_id, before_picture, \
    after_picture, record FROM timeline_entries WHERE computer_id = $1 ";

const FILTER: &str = "AND number < $2 AND number > $3 AND ($4 IS NULL OR screen = $4) \
    AND ($5 IS NULL OR actor_kind = $5) AND ($6 IS NULL OR actor_id = $6) AND ($7 IS NULL OR at >= $7) \
    AND ($8 IS NULL OR at <= $8) ORDER BY number";

impl TryFrom<Row> for TimelineEntry {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let actor = row.actor_kind.map(|kind| {
            let text = row.actor_id.map_or_else(|| kind.clone(), |id| format!("{kind}:{id}"));
            let bad =
                || Error::internal(format!("timeline entry {} holds a bad actor: {text:?}", row.number));
            text.parse().map_err(|_| bad())
        });
        Ok(Self {
            number: row.number,
            at: UnixMillis::new(row.at),
            lost_before: row.lost_before,
            by: actor.transpose()?,
            before: row.before_picture.as_deref().map(id).transpose()?,
            after: row.after_picture.as_deref().map(id).transpose()?,
            record: row.record,
        })
    }
}

impl Store {
    /// Returns the entries of a computer that match a filter.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn timeline(
        &self,
        computer: ComputerId,
        filter: &TimelineFilter,
    ) -> Result<Vec<TimelineEntry>> {
        let order = if filter.oldest_first { "" } else { " DESC" };
        let query = format!("{SELECT}{FILTER}{order} LIMIT $9");
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(query))
            .bind(computer.to_string())
            .bind(filter.before.unwrap_or(i64::MAX))
            .bind(filter.after.unwrap_or(0))
            .bind(filter.screen.as_deref())
            .bind(filter.by.as_ref().map(|by| by.kind.as_str()))
            .bind(filter.by.as_ref().and_then(|by| by.id.as_deref()))
            .bind(filter.from.map(UnixMillis::as_i64))
            .bind(filter.to.map(UnixMillis::as_i64))
            .bind(i64::from(filter.limit))
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list a timeline"))?;
        rows.into_iter().map(TimelineEntry::try_from).collect()
    }

    /// Returns an entry of a computer; `None` when it does not exist any more.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn timeline_entry(&self, computer: ComputerId, number: i64) -> Result<Option<TimelineEntry>> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} AND number = $2")))
            .bind(computer.to_string())
            .bind(number)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read an entry of a timeline"))?;
        row.map(TimelineEntry::try_from).transpose()
    }

    /// Counts the entries of actions after `since` with a smaller number than `before`.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn count_timeline_entries(
        &self,
        computer: ComputerId,
        since: UnixMillis,
        before: i64,
    ) -> Result<i64> {
        let (count,): (i64,) = sqlx::query_as(
            "SELECT COUNT(*) FROM timeline_entries WHERE computer_id = $1 AND at > $2 AND number < $3",
        )
        .bind(computer.to_string())
        .bind(since.as_i64())
        .bind(before)
        .fetch_one(&self.pool)
        .await
        .map_err(failed("count the entries of a timeline"))?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{BOUNDS, entry, numbers};
    use super::super::{NewTimelineEntry, TimelineFilter};
    use crate::fleet::threads::fixture::Fixture;
    use hotdesk_base::ids::KeyId;
    use hotdesk_base::time::UnixMillis;
    use hotdesk_domain::identity::access::actor::{Actor, ActorFilter};

    #[tokio::test]
    async fn filters_select_screens_actors_and_times() {
        let fixture = Fixture::new().await;
        let (store, computer) = (&fixture.store, fixture.computer);
        let key = KeyId::random();
        let other = NewTimelineEntry { screen: "screen-100".to_owned(), ..entry(2, Some(Actor::Key(key))) };
        let entries = [entry(1, Some(Actor::Key(KeyId::random()))), other, entry(3, Some(Actor::Template))];
        store.add_timeline_entries(computer, "a", &entries, BOUNDS).await.unwrap();
        let by = |kind: &str, id: Option<String>| Some(ActorFilter { kind: kind.to_owned(), id });
        let none = TimelineFilter::default;
        for (filter, expected) in [
            (none(), &[3, 2, 1][..]),
            (TimelineFilter { oldest_first: true, after: Some(1), ..none() }, &[2, 3]),
            (TimelineFilter { before: Some(3), ..none() }, &[2, 1]),
            (TimelineFilter { screen: Some("screen-100".to_owned()), ..none() }, &[2]),
            (TimelineFilter { by: by("key", None), ..none() }, &[2, 1]),
            (TimelineFilter { by: by("key", Some(key.to_string())), ..none() }, &[2]),
            (TimelineFilter { by: by("person", None), ..none() }, &[]),
            (TimelineFilter { from: Some(UnixMillis::new(20)), ..none() }, &[3, 2]),
            (TimelineFilter { to: Some(UnixMillis::new(20)), ..none() }, &[2, 1]),
        ] {
            let what = format!("{filter:?}");
            assert_eq!(numbers(&fixture, filter).await, expected, "{what}");
        }
        let since = UnixMillis::new(10);
        assert_eq!(store.count_timeline_entries(computer, since, 3).await.unwrap(), 1);
    }
}
