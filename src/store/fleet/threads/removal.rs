//! Removal of chat threads, by their owners and to stay within the bounds of a computer.

use uuid::Uuid;

use crate::{Store, Write, failed};
use hotdesk_base::ids::ThreadId;
use hotdesk_domain::desktop::thread::{MAX_COMPUTER_BYTES, MAX_THREADS, RunState};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

impl Store {
    /// Removes a thread with its messages and steps; a missing one is not an error. Returns the pictures of
    /// its steps.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_thread(&self, thread: ThreadId) -> Result<Vec<Uuid>> {
        let mut write = self.write().await?;
        let pictures = write.remove_thread(&thread.to_string()).await?;
        write.commit().await?;
        Ok(pictures)
    }
}

impl Write {
    /// Removes the threads of a computer that have not changed for the longest time until the rest is within
    /// the bounds. Threads that run and `kept` stay. Returns the pictures of their steps.
    pub(super) async fn remove_oldest_threads(
        &mut self,
        computer: &str,
        kept: ThreadId,
    ) -> Result<Vec<Uuid>> {
        let (mut count, mut bytes): (i64, i64) = sqlx::query_as(
            "SELECT COUNT(*), CAST(COALESCE(SUM(message_bytes + step_bytes), 0) AS BIGINT) FROM threads \
             WHERE computer_id = $1",
        )
        .bind(computer)
        .fetch_one(&mut *self.tx)
        .await
        .map_err(failed("count a computer's threads"))?;
        let is_within = |count, bytes| count <= MAX_THREADS && bytes <= MAX_COMPUTER_BYTES;
        if is_within(count, bytes) {
            return Ok(Vec::new());
        }
        let oldest: Vec<(String, i64)> = sqlx::query_as(
            "SELECT id, message_bytes + step_bytes FROM threads WHERE computer_id = $1 AND id <> $2 \
             AND COALESCE(run_state, '') <> $3 ORDER BY updated_at, id",
        )
        .bind(computer)
        .bind(kept.to_string())
        .bind(RunState::Running.name())
        .fetch_all(&mut *self.tx)
        .await
        .map_err(failed("list a computer's oldest threads"))?;
        let mut pictures = Vec::new();
        for (thread, size) in oldest {
            if is_within(count, bytes) {
                break;
            }
            pictures.extend(self.remove_thread(&thread).await?);
            (count, bytes) = (count - 1, bytes - size);
        }
        if count > MAX_THREADS {
            let message = format!("All {MAX_THREADS} threads of the computer are in use: end a run first");
            return Err(Error::conflict(message).code(ErrorCode::ThreadFull));
        }
        Ok(pictures)
    }

    /// See [`Store::remove_thread`].
    async fn remove_thread(&mut self, thread: &str) -> Result<Vec<Uuid>> {
        let pictures = self.pictures_of_thread(thread).await?;
        sqlx::query("DELETE FROM threads WHERE id = $1")
            .bind(thread)
            .execute(&mut *self.tx)
            .await
            .map_err(failed("remove a thread"))?;
        Ok(pictures)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Fixture;
    use super::*;

    /// What an insert of a thread does after it.
    async fn make_room(fixture: &Fixture, kept: ThreadId) -> Result<Vec<Uuid>> {
        let mut write = fixture.store.write().await.unwrap();
        let removed = write.remove_oldest_threads(&fixture.computer.to_string(), kept).await?;
        write.commit().await.unwrap();
        Ok(removed)
    }

    #[tokio::test]
    async fn the_threads_that_changed_least_recently_make_room() {
        let fixture = Fixture::new().await;
        let (running, oldest, newest) =
            (fixture.thread(1).await, fixture.thread(2).await, fixture.thread(1_000_000).await);
        fixture.run(&format!("UPDATE threads SET run_state = 'running' WHERE id = '{running}'")).await;
        for at in 3..MAX_THREADS {
            fixture.thread(at).await;
        }
        assert_eq!(make_room(&fixture, newest).await.unwrap(), Vec::<Uuid>::new());
        assert!(fixture.read(oldest).await.is_some(), "the number is within its bound");
        let another = fixture.thread(0).await;
        make_room(&fixture, another).await.unwrap();
        assert!(fixture.read(oldest).await.is_none());
        for kept in [running, newest, another] {
            assert!(fixture.read(kept).await.is_some(), "{kept}");
        }
        fixture.run("UPDATE threads SET run_state = 'running'").await;
        let extra = fixture.thread(0).await;
        let refused = make_room(&fixture, extra).await.unwrap_err();
        assert_eq!(refused.code, Some(ErrorCode::ThreadFull), "{refused}");
    }

    #[tokio::test]
    async fn the_bytes_of_a_computers_threads_are_bounded() {
        let fixture = Fixture::new().await;
        let (oldest, middle, newest) =
            (fixture.thread(1).await, fixture.thread(2).await, fixture.thread(3).await);
        let half = MAX_COMPUTER_BYTES / 2;
        fixture.run(&format!("UPDATE threads SET message_bytes = {half}")).await;
        make_room(&fixture, newest).await.unwrap();
        let present = [fixture.read(oldest).await, fixture.read(middle).await, fixture.read(newest).await];
        assert_eq!(present.map(|thread| thread.is_some()), [false, true, true]);
    }
}
