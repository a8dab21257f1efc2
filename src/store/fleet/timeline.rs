//! Timelines of computers: actions on their screens, fetched from their agents.
//!
//! Methods that remove entries return the ids of their pictures. The caller removes the blobs; a sweep
//! removes those that a crash leaves.

use uuid::Uuid;

use super::threads::StoredPicture;
use crate::{Store, Write, failed, id};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::actor::{Actor, ActorFilter};

/// Bounds of one computer's timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineBounds {
    /// Most entries.
    pub entries: i64,
    /// Most bytes, with pictures.
    pub bytes: i64,
}

/// What is stored of an agent's timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineCursor {
    /// The agent's series of numbers.
    pub series: String,
    /// The last number of it.
    pub number: u64,
}

/// An entry to store.
#[derive(Clone, Debug)]
pub struct NewTimelineEntry {
    /// Number in the agent's series.
    pub series_number: u64,
    /// Start of the action.
    pub at: UnixMillis,
    /// Who acted.
    pub by: Option<Actor>,
    /// Id of the screen.
    pub screen: String,
    /// The action, as JSON.
    pub record: String,
    /// Blob of the screen before it, and its bytes.
    pub before: Option<(Uuid, i64)>,
    /// Blob of the screen after it, and its bytes.
    pub after: Option<(Uuid, i64)>,
}

/// A stored entry.
#[derive(Clone, Debug)]
pub struct TimelineEntry {
    /// Its number in the computer's timeline; later entries have higher numbers.
    pub number: i64,
    /// Start of the action.
    pub at: UnixMillis,
    /// Number of entries that were lost before it.
    pub lost_before: i64,
    /// Who acted.
    pub by: Option<Actor>,
    /// Blob of the screen before it.
    pub before: Option<Uuid>,
    /// Blob of the screen after it.
    pub after: Option<Uuid>,
    /// The action, as JSON.
    pub record: String,
}

/// Filter of a listing of a computer's timeline.
#[derive(Clone, Debug, Default)]
pub struct TimelineFilter {
    /// Only entries with a smaller number.
    pub before: Option<i64>,
    /// Only entries with a higher number.
    pub after: Option<i64>,
    /// Only entries of this screen.
    pub screen: Option<String>,
    /// Only entries of these actors.
    pub by: Option<ActorFilter>,
    /// Only actions since this time.
    pub from: Option<UnixMillis>,
    /// Only actions up to and including this time.
    pub to: Option<UnixMillis>,
    /// Whether the oldest entries are first.
    pub oldest_first: bool,
    /// Most entries to return.
    pub limit: u32,
}

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

row! {
    struct TotalsRow {
        next_number: i64,
        entries: i64,
        bytes: i64,
        series: String,
        series_number: i64,
    }
}

row! {
    struct OldestRow {
        number: i64,
        bytes: i64,
        before_picture: Option<String>,
        before_bytes: i64,
        after_picture: Option<String>,
        after_bytes: i64,
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
    /// Returns what is stored of the timeline of a computer's agent; `None` before the first entry.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn timeline_cursor(&self, computer: ComputerId) -> Result<Option<TimelineCursor>> {
        let row: Option<(String, i64)> =
            sqlx::query_as("SELECT series, series_number FROM timelines WHERE computer_id = $1")
                .bind(computer.to_string())
                .fetch_optional(&self.pool)
                .await
                .map_err(failed("read the cursor of a timeline"))?;
        Ok(row.map(|(series, number)| TimelineCursor { series, number: u64::try_from(number).unwrap_or(0) }))
    }

    /// Adds entries of an agent's series in their order, except those that are stored already. The oldest
    /// entries make room. Returns the pictures that no entry has any more, or never had.
    ///
    /// # Errors
    /// `NotFound` when the computer does not exist; `Unavailable` or `Internal` when the store fails. Nothing
    /// is changed then.
    pub async fn add_timeline_entries(
        &self,
        computer: ComputerId,
        series: &str,
        entries: &[NewTimelineEntry],
        bounds: TimelineBounds,
    ) -> Result<Vec<Uuid>> {
        let mut write = self.write().await?;
        let text = computer.to_string();
        let mut totals = write.timeline_totals(&text, series).await?;
        if totals.series != series {
            (totals.series, totals.series_number) = (series.to_owned(), 0);
        }
        let mut unused = Vec::new();
        for entry in entries {
            let number = i64::try_from(entry.series_number).unwrap_or(i64::MAX);
            let pictures = [entry.before, entry.after];
            if number <= totals.series_number {
                unused.extend(pictures.into_iter().flatten().map(|(picture, _)| picture));
                continue;
            }
            let lost = number - totals.series_number - 1;
            write.insert_timeline_entry(&text, totals.next_number, lost, entry).await?;
            let picture_bytes: i64 = pictures.into_iter().flatten().map(|(_, bytes)| bytes).sum();
            totals.bytes += length(&entry.record) + picture_bytes;
            totals.entries += 1;
            totals.next_number += 1;
            totals.series_number = number;
        }
        unused.extend(write.remove_oldest_entries(&text, &mut totals, bounds).await?);
        sqlx::query(
            "UPDATE timelines SET next_number = $2, entries = $3, bytes = $4, series = $5, \
             series_number = $6 WHERE computer_id = $1",
        )
        .bind(&text)
        .bind(totals.next_number)
        .bind(totals.entries)
        .bind(totals.bytes)
        .bind(&totals.series)
        .bind(totals.series_number)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("count a timeline's entries"))?;
        write.commit().await?;
        Ok(unused)
    }

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

    /// Returns the pictures of all timelines, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn timeline_pictures(&self) -> Result<Vec<StoredPicture>> {
        let rows: Vec<(String, i64, String)> = sqlx::query_as(
            "SELECT p.picture, p.bytes, w.account_id FROM ( \
             SELECT computer_id, at, before_picture AS picture, before_bytes AS bytes FROM timeline_entries \
             WHERE before_picture IS NOT NULL UNION ALL \
             SELECT computer_id, at, after_picture AS picture, after_bytes AS bytes FROM timeline_entries \
             WHERE after_picture IS NOT NULL) p \
             JOIN computers c ON c.id = p.computer_id JOIN workspaces w ON w.id = c.workspace_id \
             ORDER BY p.at",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list the pictures of timelines"))?;
        let pictures = rows.into_iter().map(|(picture, bytes, owner)| {
            Ok(StoredPicture { id: id(&picture)?, owner: id(&owner)?, bytes })
        });
        pictures.collect()
    }

    /// Takes pictures from their entries, which stay. Unknown pictures are not an error.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn detach_timeline_pictures(&self, pictures: &[Uuid]) -> Result<()> {
        if pictures.is_empty() {
            return Ok(());
        }
        let mut write = self.write().await?;
        for picture in pictures {
            for side in ["before", "after"] {
                write.detach_timeline_picture(side, &picture.to_string()).await?;
            }
        }
        write.commit().await
    }
}

impl Write {
    /// Returns the counters of a computer's timeline, which begins now if it has none.
    async fn timeline_totals(&mut self, computer: &str, series: &str) -> Result<TotalsRow> {
        let (computers,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM computers WHERE id = $1")
            .bind(computer)
            .fetch_one(&mut *self.tx)
            .await
            .map_err(failed("look for a timeline's computer"))?;
        if computers == 0 {
            return Err(Error::not_found("Desktop not found"));
        }
        let begin = "INSERT INTO timelines (computer_id, series) VALUES ($1, $2) \
                     ON CONFLICT (computer_id) DO NOTHING";
        sqlx::query(begin)
            .bind(computer)
            .bind(series)
            .execute(&mut *self.tx)
            .await
            .map_err(failed("begin a timeline"))?;
        sqlx::query_as(
            "SELECT next_number, entries, bytes, series, series_number FROM timelines WHERE computer_id = $1",
        )
        .bind(computer)
        .fetch_one(&mut *self.tx)
        .await
        .map_err(failed("read the counters of a timeline"))
    }

    async fn insert_timeline_entry(
        &mut self,
        computer: &str,
        number: i64,
        lost: i64,
        entry: &NewTimelineEntry,
    ) -> Result<()> {
        let picture = |of: Option<(Uuid, i64)>| of.map(|(picture, _)| picture.to_string());
        let bytes = |of: Option<(Uuid, i64)>| of.map_or(0, |(_, bytes)| bytes);
        sqlx::query(
            "INSERT INTO timeline_entries (computer_id, number, at, bytes, lost_before, screen, actor_kind, \
             actor_id, before_picture, before_bytes, after_picture, after_bytes, record) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        )
        .bind(computer)
        .bind(number)
        .bind(entry.at.as_i64())
        .bind(length(&entry.record))
        .bind(lost)
        .bind(&entry.screen)
        .bind(entry.by.map(Actor::kind))
        .bind(entry.by.and_then(Actor::id))
        .bind(picture(entry.before))
        .bind(bytes(entry.before))
        .bind(picture(entry.after))
        .bind(bytes(entry.after))
        .bind(&entry.record)
        .execute(&mut *self.tx)
        .await
        .map_err(failed("store an entry of a timeline"))?;
        Ok(())
    }

    /// Removes the oldest entries above the bounds. Returns their pictures.
    async fn remove_oldest_entries(
        &mut self,
        computer: &str,
        totals: &mut TotalsRow,
        bounds: TimelineBounds,
    ) -> Result<Vec<Uuid>> {
        let mut pictures = Vec::new();
        while totals.entries > bounds.entries || totals.bytes > bounds.bytes {
            let oldest: Option<OldestRow> = sqlx::query_as(
                "SELECT number, bytes, before_picture, before_bytes, after_picture, after_bytes \
                 FROM timeline_entries WHERE computer_id = $1 ORDER BY number LIMIT 1",
            )
            .bind(computer)
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("look for the oldest entry of a timeline"))?;
            let Some(oldest) = oldest else { break };
            sqlx::query("DELETE FROM timeline_entries WHERE computer_id = $1 AND number = $2")
                .bind(computer)
                .bind(oldest.number)
                .execute(&mut *self.tx)
                .await
                .map_err(failed("remove the oldest entry of a timeline"))?;
            for picture in [oldest.before_picture, oldest.after_picture].into_iter().flatten() {
                pictures.push(id(&picture)?);
            }
            totals.entries -= 1;
            totals.bytes -= oldest.bytes + oldest.before_bytes + oldest.after_bytes;
        }
        Ok(pictures)
    }

    /// Takes a picture from an entry. `side` is `before` or `after`.
    async fn detach_timeline_picture(&mut self, side: &str, picture: &str) -> Result<()> {
        let count = format!(
            "UPDATE timelines SET bytes = bytes - (SELECT e.{side}_bytes FROM timeline_entries e \
             WHERE e.{side}_picture = $1) WHERE computer_id = (SELECT e.computer_id FROM timeline_entries e \
             WHERE e.{side}_picture = $1)"
        );
        let detach = format!(
            "UPDATE timeline_entries SET {side}_picture = NULL, {side}_bytes = 0 WHERE {side}_picture = $1"
        );
        for statement in [count, detach] {
            sqlx::query(sqlx::AssertSqlSafe(statement))
                .bind(picture)
                .execute(&mut *self.tx)
                .await
                .map_err(failed("take a picture from an entry of a timeline"))?;
        }
        Ok(())
    }

    /// Returns the pictures in the timeline of a computer.
    pub(crate) async fn timeline_pictures_of(&mut self, computer: ComputerId) -> Result<Vec<Uuid>> {
        let rows: Vec<(Option<String>, Option<String>)> = sqlx::query_as(
            "SELECT before_picture, after_picture FROM timeline_entries WHERE computer_id = $1",
        )
        .bind(computer.to_string())
        .fetch_all(&mut *self.tx)
        .await
        .map_err(failed("list the pictures of a timeline"))?;
        rows.iter().flat_map(|(before, after)| [before, after]).flatten().map(|picture| id(picture)).collect()
    }
}

fn length(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::threads::fixture::Fixture;
    use super::*;
    use hotdesk_base::ids::KeyId;

    const BOUNDS: TimelineBounds = TimelineBounds { entries: 3, bytes: 1000 };

    fn entry(series_number: u64, by: Option<Actor>) -> NewTimelineEntry {
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

    fn picture(entry: &NewTimelineEntry) -> Uuid {
        entry.after.unwrap().0
    }

    async fn numbers(fixture: &Fixture, filter: TimelineFilter) -> Vec<i64> {
        let filter = TimelineFilter { limit: 10, ..filter };
        let found = fixture.store.timeline(fixture.computer, &filter).await.unwrap();
        found.into_iter().map(|entry| entry.number).collect()
    }

    #[tokio::test]
    async fn entries_are_stored_once_and_gaps_are_told() {
        let fixture = Fixture::new().await;
        let (store, computer) = (&fixture.store, fixture.computer);
        assert_eq!(store.timeline_cursor(computer).await.unwrap(), None);
        let (one, two, five) = (entry(1, None), entry(2, Some(Actor::Password)), entry(5, None));
        let first = [one.clone(), two.clone()];
        assert_eq!(
            store.add_timeline_entries(computer, "a", &first, BOUNDS).await.unwrap(),
            Vec::<Uuid>::new()
        );
        // A reader and the background fetch the same entry: the blobs of the second are not needed.
        let again = NewTimelineEntry { after: Some((Uuid::new_v4(), 5)), ..two.clone() };
        let unused = store.add_timeline_entries(computer, "a", &[again.clone(), five], BOUNDS).await.unwrap();
        assert_eq!(unused, [picture(&again)]);
        let cursor = TimelineCursor { series: "a".to_owned(), number: 5 };
        assert_eq!(store.timeline_cursor(computer).await.unwrap(), Some(cursor));
        let all = TimelineFilter { limit: 10, ..TimelineFilter::default() };
        let found = store.timeline(computer, &all).await.unwrap();
        let seen: Vec<_> = found.iter().map(|it| (it.number, it.lost_before, it.by)).collect();
        assert_eq!(seen, [(3, 2, None), (2, 0, Some(Actor::Password)), (1, 0, None)]);
        // Another series begins at one. The oldest entry makes room.
        let unused = store.add_timeline_entries(computer, "b", &[entry(1, None)], BOUNDS).await.unwrap();
        assert_eq!(unused, [picture(&one)]);
        assert_eq!(numbers(&fixture, TimelineFilter::default()).await, [4, 3, 2]);
        let missing =
            store.add_timeline_entries(ComputerId::random(), "a", &first, BOUNDS).await.unwrap_err();
        assert_eq!(missing.message, "Desktop not found");
    }

    #[tokio::test]
    async fn bytes_are_bounded_and_pictures_counted() {
        let fixture = Fixture::new().await;
        let (store, computer) = (&fixture.store, fixture.computer);
        let entries = [entry(1, None), entry(2, None), entry(3, None)];
        let bounds = TimelineBounds { entries: 10, bytes: 14 };
        let unused = store.add_timeline_entries(computer, "a", &entries, bounds).await.unwrap();
        assert_eq!(unused, [picture(&entries[0])], "two entries of 7 bytes fit");
        let stored = store.timeline_pictures().await.unwrap();
        let expected = entries[1..].iter().map(|entry| StoredPicture {
            id: picture(entry),
            owner: fixture.account,
            bytes: 5,
        });
        assert_eq!(stored, expected.collect::<Vec<_>>());
        store.detach_timeline_pictures(&[picture(&entries[1]), Uuid::new_v4()]).await.unwrap();
        assert_eq!(store.timeline_entry(computer, 2).await.unwrap().unwrap().after, None, "the entry stays");
        let unused = store.add_timeline_entries(computer, "a", &[entry(4, None)], bounds).await.unwrap();
        assert_eq!(unused, Vec::<Uuid>::new(), "the entry without its picture makes room");
        assert!(store.timeline_entry(computer, 2).await.unwrap().is_none());
        let mut write = store.write().await.unwrap();
        let all = write.timeline_pictures_of(computer).await.unwrap();
        drop(write);
        assert!(all.len() == 2 && all.contains(&picture(&entries[2])), "{all:?}");
        fixture.run(&format!("DELETE FROM computers WHERE id = '{computer}'")).await;
        assert!(store.timeline_pictures().await.unwrap().is_empty());
        assert_eq!(store.timeline_cursor(computer).await.unwrap(), None);
    }

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
