//! Pictures in timelines.

use uuid::Uuid;

use crate::fleet::threads::StoredPicture;
use crate::{Store, Write, failed, id};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::error::Result;

impl Store {
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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::TimelineBounds;
    use super::super::fixture::{entry, picture};
    use crate::fleet::threads::StoredPicture;
    use crate::fleet::threads::fixture::Fixture;

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
}
