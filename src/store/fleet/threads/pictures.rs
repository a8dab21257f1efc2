//! Pictures of the steps of chat threads.

use uuid::Uuid;

use super::parse_picture;
use crate::{Store, Write, failed, id};
use hotdesk_base::ids::{AccountId, ComputerId};
use hotdesk_domain::desktop::thread::MAX_PICTURES;
use hotdesk_domain::error::Result;

/// A stored picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPicture {
    /// Its blob.
    pub id: Uuid,
    /// The account that owns the computer.
    pub owner: AccountId,
    /// Its bytes.
    pub bytes: i64,
}

impl Store {
    /// Returns the pictures of all steps, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn step_pictures(&self) -> Result<Vec<StoredPicture>> {
        let rows: Vec<(String, i64, String)> = sqlx::query_as(
            "SELECT s.picture, s.picture_bytes, w.account_id FROM thread_steps s JOIN threads t ON t.id = \
             s.thread_id \
             JOIN computers c ON c.id = t.computer_id JOIN workspaces w ON w.id = c.workspace_id \
             WHERE s.picture IS NOT NULL ORDER BY s.created_at, s.number",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list the pictures of steps"))?;
        let pictures = rows.into_iter().map(|(picture, bytes, owner)| {
            Ok(StoredPicture { id: parse_picture(&picture)?, owner: id(&owner)?, bytes })
        });
        pictures.collect()
    }

    /// Takes pictures from their steps, which stay. Unknown pictures are not an error.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn detach_step_pictures(&self, pictures: &[Uuid]) -> Result<()> {
        if pictures.is_empty() {
            return Ok(());
        }
        let mut write = self.write().await?;
        for picture in pictures {
            write.detach_picture(&picture.to_string()).await?;
        }
        write.commit().await
    }
}

impl Write {
    /// Takes the pictures from all but the newest steps that have one. Returns them.
    pub(super) async fn detach_oldest_pictures(&mut self, thread: &str) -> Result<Vec<Uuid>> {
        // Oldest first.
        let mut pictures = self.pictures_of_thread(thread).await?;
        pictures.truncate(pictures.len().saturating_sub(MAX_PICTURES));
        for picture in &pictures {
            self.detach_picture(&picture.to_string()).await?;
        }
        Ok(pictures)
    }

    async fn detach_picture(&mut self, picture: &str) -> Result<()> {
        sqlx::query("UPDATE thread_steps SET picture = NULL, picture_bytes = 0 WHERE picture = $1")
            .bind(picture)
            .execute(&mut *self.tx)
            .await
            .map_err(failed("take a picture from its step"))?;
        Ok(())
    }

    /// Returns the pictures of a thread's steps, oldest first.
    pub(super) async fn pictures_of_thread(&mut self, thread: &str) -> Result<Vec<Uuid>> {
        let rows: Vec<(String,)> = sqlx::query_as(
            "SELECT picture FROM thread_steps WHERE thread_id = $1 AND picture IS NOT NULL ORDER BY number",
        )
        .bind(thread)
        .fetch_all(&mut *self.tx)
        .await
        .map_err(failed("list a thread's pictures"))?;
        rows.iter().map(|(picture,)| parse_picture(picture)).collect()
    }

    /// Returns the pictures in all threads of a computer.
    pub(crate) async fn pictures_of_computer(&mut self, computer: ComputerId) -> Result<Vec<Uuid>> {
        let rows: Vec<(String,)> = sqlx::query_as(
            "SELECT s.picture FROM thread_steps s JOIN threads t ON t.id = s.thread_id \
             WHERE t.computer_id = $1 AND s.picture IS NOT NULL",
        )
        .bind(computer.to_string())
        .fetch_all(&mut *self.tx)
        .await
        .map_err(failed("list the pictures of a computer's threads"))?;
        rows.iter().map(|(picture,)| parse_picture(picture)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::NewThreadStep;
    use super::super::fixture::Fixture;
    use super::*;

    #[tokio::test]
    async fn the_newest_pictures_stay_and_go_with_the_thread() {
        let fixture = Fixture::new().await;
        let (store, thread) = (&fixture.store, fixture.thread(1).await);
        let pictures: Vec<Uuid> = (0..=MAX_PICTURES).map(|_| Uuid::new_v4()).collect();
        let mut removed = Vec::new();
        for picture in &pictures {
            let step = NewThreadStep { picture: Some((*picture, 7)), ..NewThreadStep::default() };
            removed.extend(store.add_thread_step(thread, &step).await.unwrap().1);
        }
        assert_eq!(removed, pictures[..1]);
        let steps = store.thread_steps(thread, 0, 2).await.unwrap();
        let kept: Vec<_> = steps.iter().map(|step| step.content.picture).collect();
        assert_eq!(kept, [None, Some((pictures[1], 7))], "the step stays");
        let stored = store.step_pictures().await.unwrap();
        let expected =
            pictures[1..].iter().map(|id| StoredPicture { id: *id, owner: fixture.account, bytes: 7 });
        assert_eq!(stored, expected.collect::<Vec<_>>());
        store.detach_step_pictures(&pictures[..2]).await.unwrap();
        assert_eq!(store.step_pictures().await.unwrap().len(), MAX_PICTURES - 1);
        let mut write = store.write().await.unwrap();
        assert_eq!(write.pictures_of_computer(fixture.computer).await.unwrap().len(), MAX_PICTURES - 1);
        drop(write);
        assert_eq!(store.remove_thread(thread).await.unwrap(), pictures[2..]);
        assert_eq!(store.remove_thread(thread).await.unwrap(), Vec::<Uuid>::new(), "nothing is left");
        assert!(store.step_pictures().await.unwrap().is_empty());
    }
}
