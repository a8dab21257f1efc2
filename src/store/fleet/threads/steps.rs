//! Steps of chat threads: calls of tools, their results and pictures.

use uuid::Uuid;

use super::{parse_picture, unknown};
use crate::{Store, Write, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::ThreadId;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::desktop::thread::{MAX_STEPS, MAX_STEPS_BYTES, RunState};
use hotdesk_domain::error::Result;

/// A step to store. Its texts are within
/// [`MAX_STEP_FIELD`](hotdesk_domain::desktop::thread::MAX_STEP_FIELD).
#[derive(Clone, Debug, Default)]
pub struct NewThreadStep {
    /// The call of the tool, as JSON.
    pub tool_call: String,
    /// Text of the model before the call.
    pub text: Option<String>,
    /// Result of the call for the model.
    pub result: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// The action in the API's terms, as JSON.
    pub action: Option<String>,
    /// Effect of the action, as JSON.
    pub effect: Option<String>,
    /// Tokens of the model's turn, as JSON.
    pub usage: String,
    /// Cost of the turn in millionths of a cent.
    pub cost_microcents: i64,
    /// Duration of the call in milliseconds.
    pub took_ms: i64,
    /// Blob of the screen after the call, and its bytes.
    pub picture: Option<(Uuid, i64)>,
}

impl NewThreadStep {
    /// Bytes of its texts.
    fn bytes(&self) -> i64 {
        let optional = [&self.text, &self.action, &self.effect];
        let optional: usize = optional.into_iter().flatten().map(String::len).sum();
        let bytes = self.tool_call.len() + self.result.len() + self.usage.len() + optional;
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }
}

/// A stored step.
#[derive(Clone, Debug)]
pub struct ThreadStep {
    /// Its number in the thread; later steps have higher numbers.
    pub number: i64,
    /// When it was stored.
    pub created_at: UnixMillis,
    /// The step that was stored. Its picture is gone when another one made room for it.
    pub content: NewThreadStep,
}

row! {
    struct Row {
        number: i64,
        tool_call: String,
        text: Option<String>,
        result: String,
        is_error: i64,
        action: Option<String>,
        effect: Option<String>,
        usage: String,
        cost_microcents: i64,
        took_ms: i64,
        picture: Option<String>,
        picture_bytes: i64,
        created_at: i64,
    }
}

impl TryFrom<Row> for ThreadStep {
    type Error = hotdesk_domain::error::Error;

    fn try_from(row: Row) -> Result<Self> {
        let picture = row.picture.as_deref().map(parse_picture).transpose()?;
        Ok(Self {
            number: row.number,
            created_at: UnixMillis::new(row.created_at),
            content: NewThreadStep {
                tool_call: row.tool_call,
                text: row.text,
                result: row.result,
                is_error: row.is_error != 0,
                action: row.action,
                effect: row.effect,
                usage: row.usage,
                cost_microcents: row.cost_microcents,
                took_ms: row.took_ms,
                picture: picture.map(|picture| (picture, row.picture_bytes)),
            },
        })
    }
}

impl Store {
    /// Adds a step and marks the thread as running. The oldest steps, pictures and threads make room. Returns
    /// the number of the step, and the pictures that no step has any more.
    ///
    /// # Errors
    /// `NotFound` when the thread does not exist; `Unavailable` or `Internal` when the store fails. Nothing
    /// is changed then.
    pub async fn add_thread_step(&self, thread: ThreadId, step: &NewThreadStep) -> Result<(i64, Vec<Uuid>)> {
        let mut write = self.write().await?;
        let text = thread.to_string();
        let target: Option<(String, i64)> =
            sqlx::query_as("SELECT computer_id, next_step FROM threads WHERE id = $1")
                .bind(&text)
                .fetch_optional(&mut *write.tx)
                .await
                .map_err(failed("look for a thread"))?;
        let (computer, number) = target.ok_or_else(unknown)?;
        let now = clock::now().as_i64();
        let bytes = step.bytes();
        sqlx::query(
            "INSERT INTO thread_steps (thread_id, number, tool_call, text, result, is_error, action, \
             effect, usage, \
             cost_microcents, took_ms, picture, picture_bytes, bytes, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        )
        .bind(&text)
        .bind(number)
        .bind(&step.tool_call)
        .bind(step.text.as_deref())
        .bind(&step.result)
        .bind(i64::from(step.is_error))
        .bind(step.action.as_deref())
        .bind(step.effect.as_deref())
        .bind(&step.usage)
        .bind(step.cost_microcents)
        .bind(step.took_ms)
        .bind(step.picture.map(|(picture, _)| picture.to_string()))
        .bind(step.picture.map_or(0, |(_, bytes)| bytes))
        .bind(bytes)
        .bind(now)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a step"))?;
        sqlx::query(
            "UPDATE threads SET next_step = next_step + 1, steps = steps + 1, step_bytes = step_bytes + $2, \
             run_state = $3, failure = NULL, waiting_call = NULL, \
             waiting_frame = NULL, updated_at = $4 WHERE id = $1",
        )
        .bind(&text)
        .bind(bytes)
        .bind(RunState::Running.name())
        .bind(now)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("count a step"))?;
        let mut pictures = write.remove_oldest_steps(&text).await?;
        pictures.extend(write.detach_oldest_pictures(&text).await?);
        pictures.extend(write.remove_oldest_threads(&computer, thread).await?);
        write.commit().await?;
        Ok((number, pictures))
    }

    /// Returns up to `limit` steps of a thread with numbers above `after`, in their order.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn thread_steps(&self, thread: ThreadId, after: i64, limit: u32) -> Result<Vec<ThreadStep>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT number, tool_call, text, result, is_error, action, effect, usage, cost_microcents, \
             took_ms, picture, picture_bytes, \
             created_at FROM thread_steps WHERE thread_id = $1 AND number > $2 ORDER BY number LIMIT $3",
        )
        .bind(thread.to_string())
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await
        .map_err(failed("read a thread's steps"))?;
        rows.into_iter().map(ThreadStep::try_from).collect()
    }
}

impl Write {
    /// Removes the oldest steps of a thread above the bounds. Returns their pictures.
    async fn remove_oldest_steps(&mut self, thread: &str) -> Result<Vec<Uuid>> {
        let mut pictures = Vec::new();
        let (before, bytes_before): (i64, i64) =
            sqlx::query_as("SELECT steps, step_bytes FROM threads WHERE id = $1")
                .bind(thread)
                .fetch_one(&mut *self.tx)
                .await
                .map_err(failed("count a thread's steps"))?;
        let (mut count, mut bytes) = (before, bytes_before);
        while count > MAX_STEPS || bytes > MAX_STEPS_BYTES {
            let oldest: Option<(i64, i64, Option<String>)> = sqlx::query_as(
                "SELECT number, bytes, picture FROM thread_steps WHERE thread_id = $1 ORDER BY number \
                 LIMIT 1",
            )
            .bind(thread)
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("look for the oldest step"))?;
            let Some((number, size, picture)) = oldest else { break };
            sqlx::query("DELETE FROM thread_steps WHERE thread_id = $1 AND number = $2")
                .bind(thread)
                .bind(number)
                .execute(&mut *self.tx)
                .await
                .map_err(failed("remove the oldest step"))?;
            pictures.extend(picture.as_deref().map(parse_picture).transpose()?);
            (count, bytes) = (count - 1, bytes - size);
        }
        if count != before {
            sqlx::query("UPDATE threads SET steps = $2, step_bytes = $3 WHERE id = $1")
                .bind(thread)
                .bind(count)
                .bind(bytes)
                .execute(&mut *self.tx)
                .await
                .map_err(failed("count a thread's steps"))?;
        }
        Ok(pictures)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Fixture;
    use super::*;
    use hotdesk_domain::desktop::thread::MAX_STEP_FIELD;

    fn step(result: &str, picture: Option<Uuid>) -> NewThreadStep {
        let picture = picture.map(|picture| (picture, 7));
        NewThreadStep { result: result.to_owned(), picture, ..NewThreadStep::default() }
    }

    #[tokio::test]
    async fn steps_are_pages_in_their_order() {
        let fixture = Fixture::new().await;
        let (store, thread) = (&fixture.store, fixture.thread(1).await);
        for number in 1..=3 {
            let added = store.add_thread_step(thread, &step(&number.to_string(), None)).await.unwrap();
            assert_eq!(added, (number, Vec::new()));
        }
        let results = async |after, limit| {
            let steps = store.thread_steps(thread, after, limit).await.unwrap();
            steps.into_iter().map(|step| step.content.result).collect::<Vec<_>>()
        };
        assert_eq!(results(0, 2).await, ["1", "2"]);
        assert_eq!(results(2, 2).await, ["3"]);
        let thread = fixture.read(thread).await.unwrap();
        assert_eq!((thread.steps, thread.run), (3, Some(RunState::Running)));
        let missing = store.add_thread_step(ThreadId::random(), &step("", None)).await.unwrap_err();
        assert_eq!(missing.message, "Thread not found");
    }

    #[tokio::test]
    async fn the_oldest_steps_make_room() {
        let fixture = Fixture::new().await;
        let (store, thread) = (&fixture.store, fixture.thread(1).await);
        let picture = Uuid::new_v4();
        store.add_thread_step(thread, &step("first", Some(picture))).await.unwrap();
        fixture
            .run(&format!(
                "WITH RECURSIVE numbers (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < \
                 {MAX_STEPS}) \
                 INSERT INTO thread_steps (thread_id, number, tool_call, result, is_error, usage, \
                 cost_microcents, \
                 took_ms, bytes, created_at) SELECT '{thread}', n, '', '', 0, '', 0, 0, 0, 1 FROM numbers"
            ))
            .await;
        fixture.run(&format!("UPDATE threads SET next_step = {MAX_STEPS} + 1, steps = {MAX_STEPS}")).await;
        let (number, removed) = store.add_thread_step(thread, &step("last", None)).await.unwrap();
        assert_eq!((number, removed), (MAX_STEPS + 1, vec![picture]));
        assert_eq!(store.thread_steps(thread, 0, 1).await.unwrap()[0].number, 2);
        let other = fixture.thread(1).await;
        let large = "x".repeat(MAX_STEP_FIELD);
        let fitting = MAX_STEPS_BYTES / i64::try_from(large.len()).unwrap();
        for _ in 0..=fitting {
            store.add_thread_step(other, &step(&large, None)).await.unwrap();
        }
        let read = fixture.read(other).await.unwrap();
        assert_eq!(read.steps, fitting, "one made room");
    }
}
