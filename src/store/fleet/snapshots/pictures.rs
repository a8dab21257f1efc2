//! Small pictures of the screen in snapshots.
//!
//! The caller stores the blob before its record and removes it afterwards; a sweep removes what a crash
//! leaves.

use uuid::Uuid;

use crate::fleet::threads::StoredPicture;
use crate::{Store, Write, failed, id};
use hotdesk_base::ids::{ComputerId, SnapshotId};
use hotdesk_domain::error::Result;

impl Store {
    /// Whether the files of a computer are encrypted on the host. The blobs of pictures are not.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn is_encrypted(&self, computer: ComputerId) -> Result<bool> {
        let (count,): (i64,) =
            sqlx::query_as("SELECT COUNT(*) FROM computers WHERE id = $1 AND encrypted_for IS NOT NULL")
                .bind(computer.to_string())
                .fetch_one(&self.pool)
                .await
                .map_err(failed("look whether a computer is encrypted"))?;
        Ok(count > 0)
    }

    /// Gives a snapshot a picture. False when the snapshot is gone: then nothing has the picture.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn set_snapshot_picture(
        &self,
        snapshot: SnapshotId,
        picture: Uuid,
        bytes: i64,
    ) -> Result<bool> {
        let mut write = self.write().await?;
        let done = sqlx::query("UPDATE snapshots SET picture = $2, picture_bytes = $3 WHERE id = $1")
            .bind(snapshot.to_string())
            .bind(picture.to_string())
            .bind(bytes)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store the picture of a snapshot"))?;
        write.commit().await?;
        Ok(done.rows_affected() > 0)
    }

    /// Returns the pictures of all snapshots, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn snapshot_pictures(&self) -> Result<Vec<StoredPicture>> {
        let rows: Vec<(String, i64, String)> = sqlx::query_as(
            "SELECT s.picture, s.picture_bytes, w.account_id FROM snapshots s \
             JOIN computers c ON c.id = s.computer_id JOIN workspaces w ON w.id = c.workspace_id \
             WHERE s.picture IS NOT NULL ORDER BY s.created_at, s.id",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list the pictures of snapshots"))?;
        let pictures = rows.into_iter().map(|(picture, bytes, owner)| {
            Ok(StoredPicture { id: id(&picture)?, owner: id(&owner)?, bytes })
        });
        pictures.collect()
    }

    /// Takes pictures from their snapshots, which stay. Unknown pictures are not an error.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn detach_snapshot_pictures(&self, pictures: &[Uuid]) -> Result<()> {
        if pictures.is_empty() {
            return Ok(());
        }
        let mut write = self.write().await?;
        for picture in pictures {
            sqlx::query("UPDATE snapshots SET picture = NULL, picture_bytes = 0 WHERE picture = $1")
                .bind(picture.to_string())
                .execute(&mut *write.tx)
                .await
                .map_err(failed("take a picture from its snapshot"))?;
        }
        write.commit().await
    }
}

impl Write {
    /// Returns the pictures of a computer's snapshots.
    pub(crate) async fn snapshot_pictures_of(&mut self, computer: ComputerId) -> Result<Vec<Uuid>> {
        let rows: Vec<(String,)> = sqlx::query_as(
            "SELECT picture FROM snapshots WHERE computer_id = $1 AND picture IS NOT NULL \
             ORDER BY created_at, id",
        )
        .bind(computer.to_string())
        .fetch_all(&mut *self.tx)
        .await
        .map_err(failed("list the pictures of a computer's snapshots"))?;
        rows.iter().map(|(picture,)| id(picture)).collect()
    }

    /// Returns the picture of a snapshot; `None` without one, also for a missing snapshot.
    pub(super) async fn picture_of_snapshot(&mut self, snapshot: SnapshotId) -> Result<Option<Uuid>> {
        let row: Option<(Option<String>,)> = sqlx::query_as("SELECT picture FROM snapshots WHERE id = $1")
            .bind(snapshot.to_string())
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("look for the picture of a snapshot"))?;
        row.and_then(|(picture,)| picture).as_deref().map(id).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::threads::fixture::Fixture;

    /// Stores a snapshot without the look at the computer's row.
    async fn snapshot(fixture: &Fixture, created_at: i64) -> SnapshotId {
        let snapshot = SnapshotId::random();
        fixture
            .run(&format!(
                "INSERT INTO snapshots (id, computer_id, state, memory, bytes, created_at, cpu, ram_gb, \
                 disk_gb) VALUES ('{snapshot}', '{}', 'ready', 0, 1, {created_at}, 1, 4, 8)",
                fixture.computer
            ))
            .await;
        snapshot
    }

    #[tokio::test]
    async fn pictures_go_with_their_snapshots() {
        let fixture = Fixture::new().await;
        let store = &fixture.store;
        let (first, second) = (snapshot(&fixture, 1).await, snapshot(&fixture, 2).await);
        let (one, other) = (Uuid::new_v4(), Uuid::new_v4());
        assert!(store.set_snapshot_picture(first, one, 7).await.unwrap());
        assert!(store.set_snapshot_picture(second, other, 8).await.unwrap());
        assert!(!store.set_snapshot_picture(SnapshotId::random(), Uuid::new_v4(), 9).await.unwrap());
        let stored = |id, bytes| StoredPicture { id, owner: fixture.account, bytes };
        assert_eq!(store.snapshot_pictures().await.unwrap(), [stored(one, 7), stored(other, 8)]);
        assert_eq!(store.snapshot(fixture.computer, first).await.unwrap().picture, Some(one));
        assert_eq!(store.forget_snapshot(first).await.unwrap(), Some(one));
        assert_eq!(store.forget_snapshot(first).await.unwrap(), None, "nothing is left");
        let mut write = store.write().await.unwrap();
        assert_eq!(write.snapshot_pictures_of(fixture.computer).await.unwrap(), [other]);
        drop(write);
        store.detach_snapshot_pictures(&[other, Uuid::new_v4()]).await.unwrap();
        assert_eq!(
            store.snapshot(fixture.computer, second).await.unwrap().picture,
            None,
            "the snapshot stays"
        );
        assert_eq!(store.forget_snapshot(second).await.unwrap(), None);
        assert!(store.snapshot_pictures().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_computer_is_encrypted_when_it_has_the_key_of_a_workspace() {
        let fixture = Fixture::new().await;
        assert!(!fixture.store.is_encrypted(fixture.computer).await.unwrap());
        fixture.run("UPDATE computers SET encrypted_for = workspace_id").await;
        assert!(fixture.store.is_encrypted(fixture.computer).await.unwrap());
        assert!(!fixture.store.is_encrypted(ComputerId::random()).await.unwrap());
    }
}
