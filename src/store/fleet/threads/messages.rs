//! Messages of chat threads.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{parse_id, unknown};
use crate::{Store, Write, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::{ComputerId, ThreadId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::desktop::thread::{MAX_MESSAGE_BYTES, MAX_MESSAGES, MAX_THREAD_BYTES, RunState};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// A stored message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its number in the thread; later messages have higher numbers.
    pub number: i64,
    /// The message as JSON, without pictures.
    pub content: String,
    /// When it was stored.
    pub created_at: UnixMillis,
}

/// Most messages of one thread in a list of threads: what a person looks at to know it again.
const LISTED_MESSAGES: i64 = 20;

/// Messages by the text of their thread's id, oldest first.
pub type ThreadMessages = BTreeMap<String, Vec<StoredMessage>>;

row! {
    struct Row {
        thread_id: String,
        number: i64,
        content: String,
        created_at: i64,
    }
}

impl From<Row> for StoredMessage {
    fn from(row: Row) -> Self {
        Self { number: row.number, content: row.content, created_at: UnixMillis::new(row.created_at) }
    }
}

row! {
    /// The thread of a message to store.
    struct Target {
        computer_id: String,
        run_state: Option<String>,
        next_message: i64,
        messages: i64,
        message_bytes: i64,
    }
}

impl Store {
    /// Appends a message, as JSON, and marks the thread as running. Returns the pictures of threads that made
    /// room.
    ///
    /// # Errors
    /// `NotFound` when the thread does not exist; `Invalid` for a message above [`MAX_MESSAGE_BYTES`];
    /// `Conflict` (`thread_full`) above [`MAX_MESSAGES`] or [`MAX_THREAD_BYTES`]; `Unavailable` or `Internal`
    /// when the store fails. Nothing is changed then.
    pub async fn append_message(&self, thread: ThreadId, content: &str) -> Result<Vec<Uuid>> {
        let mut write = self.write().await?;
        let target = write.message_target(thread).await?;
        let bytes = check_message(content)?;
        check_messages(target.messages + 1, target.message_bytes + bytes)?;
        write.insert_message(thread, target.next_message, content).await?;
        sqlx::query(
            "UPDATE threads SET next_message = next_message + 1, messages = messages + 1, \
             message_bytes = message_bytes + $2, run_state = $3, failure = NULL, waiting_call = NULL, \
             waiting_frame = NULL, updated_at = $4 \
             WHERE id = $1",
        )
        .bind(thread.to_string())
        .bind(bytes)
        .bind(RunState::Running.name())
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("count a message"))?;
        let pictures = write.remove_oldest_threads(&target.computer_id, thread).await?;
        write.commit().await?;
        Ok(pictures)
    }

    /// Returns the messages of a thread, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn thread_messages(&self, thread: ThreadId) -> Result<Vec<StoredMessage>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT thread_id, number, content, created_at FROM thread_messages WHERE thread_id = $1 ORDER \
             BY number",
        )
        .bind(thread.to_string())
        .fetch_all(&self.pool)
        .await
        .map_err(failed("read a thread's messages"))?;
        Ok(rows.into_iter().map(StoredMessage::from).collect())
    }

    /// Returns the first message of a thread with a number above `after`.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn next_message(&self, thread: ThreadId, after: i64) -> Result<Option<StoredMessage>> {
        let row: Option<Row> = sqlx::query_as(
            "SELECT thread_id, number, content, created_at FROM thread_messages \
             WHERE thread_id = $1 AND number > $2 ORDER BY number LIMIT 1",
        )
        .bind(thread.to_string())
        .bind(after)
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("read a message"))?;
        Ok(row.map(StoredMessage::from))
    }

    /// Returns the newest messages of each thread of a computer: at most 20 and `most_bytes` of a thread.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn newest_messages(&self, computer: ComputerId, most_bytes: i64) -> Result<ThreadMessages> {
        self.newest_messages_where("t.computer_id = $1", &computer.to_string(), most_bytes).await
    }

    /// Does the same for the threads `t` of a clause on this value, which is `$1`.
    pub(super) async fn newest_messages_where(
        &self,
        clause: &'static str,
        value: &str,
        most_bytes: i64,
    ) -> Result<ThreadMessages> {
        let query = format!(
            "SELECT m.thread_id, m.number, m.content, m.created_at FROM thread_messages m JOIN ( \
             SELECT n.thread_id, n.number, SUM(n.bytes) OVER (PARTITION BY n.thread_id ORDER BY n.number \
             DESC) AS total \
             FROM thread_messages n JOIN threads t ON t.id = n.thread_id WHERE {clause} \
             AND n.number >= t.next_message - $3) sums \
             ON sums.thread_id = m.thread_id AND sums.number = m.number \
             WHERE sums.total <= $2 ORDER BY m.thread_id, m.number"
        );
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(query))
            .bind(value)
            .bind(most_bytes)
            .bind(LISTED_MESSAGES)
            .fetch_all(&self.pool)
            .await
            .map_err(failed("read the newest messages of threads"))?;
        let mut messages = ThreadMessages::new();
        for row in rows {
            // The id is checked, so that a damaged one is not silently a thread without messages.
            let thread = parse_id(&row.thread_id)?.to_string();
            messages.entry(thread).or_default().push(row.into());
        }
        Ok(messages)
    }
}

impl Write {
    async fn message_target(&mut self, thread: ThreadId) -> Result<Target> {
        let target: Option<Target> = sqlx::query_as(
            "SELECT computer_id, run_state, next_message, messages, message_bytes FROM threads WHERE id = $1",
        )
        .bind(thread.to_string())
        .fetch_optional(&mut *self.tx)
        .await
        .map_err(failed("look for a thread"))?;
        target.ok_or_else(unknown)
    }

    async fn insert_message(&mut self, thread: ThreadId, number: i64, content: &str) -> Result<()> {
        sqlx::query(
            "INSERT INTO thread_messages (thread_id, number, content, bytes, created_at) VALUES ($1, $2, \
             $3, $4, $5)",
        )
        .bind(thread.to_string())
        .bind(number)
        .bind(content)
        .bind(check_message(content)?)
        .bind(clock::now().as_i64())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("store a message"))?;
        Ok(())
    }

    /// Replaces all messages of a thread. Returns the pictures of threads that made room.
    pub(super) async fn replace_messages(
        &mut self,
        thread: ThreadId,
        messages: &[String],
    ) -> Result<Vec<Uuid>> {
        let target = self.message_target(thread).await?;
        if target.run_state.as_deref() == Some(RunState::Running.name()) {
            let message = "A run of the thread is in progress: replace its messages after the run";
            return Err(Error::conflict(message).code(ErrorCode::ThreadRunning));
        }
        let mut bytes = 0;
        for content in messages {
            bytes += check_message(content)?;
        }
        let count = length(messages.len());
        check_messages(count, bytes)?;
        sqlx::query("DELETE FROM thread_messages WHERE thread_id = $1")
            .bind(thread.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("remove a thread's messages"))?;
        for (number, content) in (target.next_message..).zip(messages) {
            self.insert_message(thread, number, content).await?;
        }
        sqlx::query("UPDATE threads SET next_message = $2, message_bytes = $3, messages = $4 WHERE id = $1")
            .bind(thread.to_string())
            .bind(target.next_message + count)
            .bind(bytes)
            .bind(count)
            .execute(&mut *self.tx)
            .await
            .map_err(failed("count a thread's messages"))?;
        self.remove_oldest_threads(&target.computer_id, thread).await
    }
}

fn length(of: usize) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}

/// Checks the bound of one message, and returns its bytes.
fn check_message(content: &str) -> Result<i64> {
    if content.len() > MAX_MESSAGE_BYTES {
        return Err(Error::invalid(format!("A message of a thread has at most {MAX_MESSAGE_BYTES} bytes")));
    }
    Ok(length(content.len()))
}

/// Checks the bounds of all messages of a thread.
fn check_messages(count: i64, bytes: i64) -> Result<()> {
    if count <= MAX_MESSAGES && bytes <= MAX_THREAD_BYTES {
        return Ok(());
    }
    let message = format!(
        "The thread is full: it has at most {MAX_MESSAGES} messages of {MAX_THREAD_BYTES} bytes. Begin \
         another thread"
    );
    Err(Error::conflict(message).code(ErrorCode::ThreadFull))
}

#[cfg(test)]
mod tests {
    use super::super::ThreadChange;
    use super::super::fixture::Fixture;
    use super::*;
    use hotdesk_domain::desktop::thread::RunOutcome;

    fn contents(messages: Vec<StoredMessage>) -> Vec<(i64, String)> {
        messages.into_iter().map(|message| (message.number, message.content)).collect()
    }

    #[tokio::test]
    async fn messages_are_appended_and_replaced_when_no_run_is_in_progress() {
        let fixture = Fixture::new().await;
        let thread = fixture.thread(1).await;
        let store = &fixture.store;
        for text in ["a", "b"] {
            store.append_message(thread, text).await.unwrap();
        }
        let replaced = ThreadChange { messages: Some(vec!["c".to_owned()]), ..ThreadChange::default() };
        let refused = store.change_thread(thread, &replaced).await.unwrap_err();
        assert_eq!(refused.code, Some(ErrorCode::ThreadRunning), "{refused}");
        let renamed = ThreadChange { title: Some("t".to_owned()), ..ThreadChange::default() };
        let (changed, _) = store.change_thread(thread, &renamed).await.unwrap();
        assert_eq!((changed.title.as_deref(), changed.messages), (Some("t"), 2));
        store.end_run(thread, &RunOutcome::Done).await.unwrap();
        let (changed, _) = store.change_thread(thread, &replaced).await.unwrap();
        assert_eq!((changed.title.as_deref(), changed.messages, changed.archived), (Some("t"), 1, false));
        store.append_message(thread, "d").await.unwrap();
        let all = contents(store.thread_messages(thread).await.unwrap());
        assert_eq!(all, [(3, "c".to_owned()), (4, "d".to_owned())], "numbers are not used twice");
        assert_eq!(store.next_message(thread, 3).await.unwrap().unwrap().content, "d");
        assert_eq!(store.next_message(thread, 4).await.unwrap(), None);
        let missing = ThreadId::random();
        for refused in [
            store.append_message(missing, "a").await.unwrap_err(),
            store.change_thread(missing, &replaced).await.unwrap_err(),
            store.change_thread(missing, &renamed).await.unwrap_err(),
        ] {
            assert_eq!(refused.message, "Thread not found");
        }
    }

    #[tokio::test]
    async fn messages_are_bounded_one_by_one_and_together() {
        let fixture = Fixture::new().await;
        let store = &fixture.store;
        let thread = fixture.thread(1).await;
        let large = "x".repeat(MAX_MESSAGE_BYTES);
        assert!(store.append_message(thread, &format!("{large}x")).await.is_err());
        for _ in 0..MAX_THREAD_BYTES / length(MAX_MESSAGE_BYTES) {
            store.append_message(thread, &large).await.unwrap();
        }
        let refused = store.append_message(thread, "x").await.unwrap_err();
        assert_eq!(refused.code, Some(ErrorCode::ThreadFull), "{refused}");
        let many = fixture.thread(1).await;
        fixture
            .run(&format!(
                "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < \
                 {MAX_MESSAGES}) \
                 INSERT INTO thread_messages (thread_id, number, content, bytes, created_at) \
                 SELECT '{many}', n, 'x', 1, 1 FROM numbers"
            ))
            .await;
        fixture
            .run(&format!("UPDATE threads SET next_message = {MAX_MESSAGES} + 1, messages = {MAX_MESSAGES}"))
            .await;
        let refused = store.append_message(many, "x").await.unwrap_err();
        assert_eq!(refused.code, Some(ErrorCode::ThreadFull), "{refused}");
        assert_eq!(length(store.thread_messages(many).await.unwrap().len()), MAX_MESSAGES);
    }

    #[tokio::test]
    async fn lists_have_the_newest_messages_within_their_bytes() {
        let fixture = Fixture::new().await;
        let store = &fixture.store;
        let (first, second, large) =
            (fixture.thread(1).await, fixture.thread(2).await, fixture.thread(3).await);
        for text in ["aaaa", "bbb", "cc"] {
            store.append_message(first, text).await.unwrap();
        }
        store.append_message(second, "d").await.unwrap();
        store.append_message(large, "eeeeee").await.unwrap();
        let newest = store.newest_messages(fixture.computer, 5).await.unwrap();
        let texts: BTreeMap<_, Vec<_>> = newest
            .iter()
            .map(|(thread, all)| (thread.clone(), all.iter().map(|it| it.content.as_str()).collect()))
            .collect();
        let expected =
            BTreeMap::from([(first.to_string(), vec!["bbb", "cc"]), (second.to_string(), vec!["d"])]);
        assert_eq!(texts, expected);
        assert!(store.newest_messages(ComputerId::random(), 5).await.unwrap().is_empty());
    }
}
