//! Additions to timelines, which remove the oldest entries above the bounds.

use uuid::Uuid;

use super::{NewTimelineEntry, TimelineBounds, TimelineCursor};
use crate::{Store, Write, failed, id};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::actor::Actor;

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
}

fn length(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::fixture::{BOUNDS, entry, numbers, picture};
    use super::super::{NewTimelineEntry, TimelineCursor, TimelineFilter};
    use crate::fleet::threads::fixture::Fixture;
    use hotdesk_base::ids::ComputerId;
    use hotdesk_domain::identity::access::actor::Actor;

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
}
