//! Chat threads of computers, with their messages and steps.
//!
//! A run marks its thread `running` with each message and step, and stores its outcome at the end. A thread
//! that is still `running` when the store opens was interrupted ([`Store::interrupt_runs`]).
//!
//! Methods that remove steps return the ids of their pictures. The caller removes the blobs; a sweep removes
//! those that a crash leaves.

#[cfg(test)]
pub(crate) mod fixture;
mod messages;
mod overview;
mod pictures;
mod removal;
mod runs;
mod steps;

pub use messages::{StoredMessage, ThreadMessages};
pub use overview::ThreadFilter;
pub use pictures::StoredPicture;
pub use steps::{NewThreadStep, ThreadStep};

use uuid::Uuid;

use crate::{Store, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, ComputerId, ThreadId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::desktop::thread::{RunState, WaitingCall};
use hotdesk_domain::error::{Error, Result};

/// A chat thread, without its messages and steps.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its id.
    pub id: ThreadId,
    /// Its computer.
    pub computer: ComputerId,
    /// The account that began it; `None` when the account was removed.
    pub account: Option<AccountId>,
    /// Its title.
    pub title: Option<String>,
    /// Whether it is archived.
    pub archived: bool,
    /// State of its last run; `None` without a run.
    pub run: Option<RunState>,
    /// Why the last run failed.
    pub failure: Option<String>,
    /// Number of its messages.
    pub messages: i64,
    /// Number of its steps.
    pub steps: i64,
    /// The call that waits to be confirmed; the next run that begins takes it.
    pub waiting: Option<WaitingCall>,
    /// Tokens and cost of its runs.
    pub costs: ThreadCosts,
    /// Creation time.
    pub created_at: UnixMillis,
    /// Time of the last change.
    pub updated_at: UnixMillis,
}

/// Tokens and cost of turns of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCosts {
    /// Tokens of requests that were not read from a cache.
    pub input_tokens: i64,
    /// Tokens of replies.
    pub output_tokens: i64,
    /// Tokens of requests that were cached.
    pub cache_read_tokens: i64,
    /// Tokens of requests that were written to the cache.
    pub cache_write_tokens: i64,
    /// Cost in millionths of a cent.
    pub cost_microcents: i64,
}

/// Changes of a thread; `None` leaves the value.
#[derive(Clone, Debug, Default)]
pub struct ThreadChange {
    /// The new title.
    pub title: Option<String>,
    /// Whether it is archived.
    pub archived: Option<bool>,
    /// Messages as JSON, which replace all others.
    pub messages: Option<Vec<String>>,
}

row! {
    struct Row {
        id: String,
        computer_id: String,
        account_id: Option<String>,
        title: Option<String>,
        archived: i64,
        run_state: Option<String>,
        failure: Option<String>,
        messages: i64,
        steps: i64,
        waiting_call: Option<String>,
        waiting_frame: Option<String>,
        input_tokens: i64,
        output_tokens: i64,
        cache_read_tokens: i64,
        cache_write_tokens: i64,
        cost_microcents: i64,
        created_at: i64,
        updated_at: i64,
    }
}

const SELECT: &str = "SELECT t.id, t.computer_id, t.account_id, t.title, t.archived, t.run_state, t.failure, \
    t.messages, t.steps, t.waiting_call, t.waiting_frame, t.input_tokens, t.output_tokens, \
    t.cache_read_tokens, t.cache_write_tokens, t.cost_microcents, t.created_at, \
    t.updated_at FROM threads t WHERE ";

impl TryFrom<Row> for Thread {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let run = row.run_state.as_deref().map(|name| {
            let bad = || Error::internal(format!("thread {} holds a bad run_state: {name:?}", row.id));
            RunState::from_name(name).ok_or_else(bad)
        });
        Ok(Self {
            run: run.transpose()?,
            id: parse_id(&row.id)?,
            computer: id(&row.computer_id)?,
            account: row.account_id.as_deref().map(id).transpose()?,
            title: row.title,
            archived: row.archived != 0,
            failure: row.failure,
            messages: row.messages,
            steps: row.steps,
            waiting: row.waiting_call.map(|call| WaitingCall { call, frame: row.waiting_frame }),
            costs: ThreadCosts {
                input_tokens: row.input_tokens,
                output_tokens: row.output_tokens,
                cache_read_tokens: row.cache_read_tokens,
                cache_write_tokens: row.cache_write_tokens,
                cost_microcents: row.cost_microcents,
            },
            created_at: UnixMillis::new(row.created_at),
            updated_at: UnixMillis::new(row.updated_at),
        })
    }
}

fn parse_id(text: &str) -> Result<ThreadId> {
    text.parse().map_err(|()| Error::internal(format!("the store holds a bad id: {text:?}")))
}

fn parse_picture(text: &str) -> Result<Uuid> {
    id(text)
}

/// The failure for an unknown thread.
fn unknown() -> Error {
    Error::not_found("Thread not found")
}

impl Store {
    /// Adds a thread without messages. When the computer has [`MAX_THREADS`], those that have not changed for
    /// the longest time are removed, except running ones. Returns the new id, and the pictures of removed
    /// threads.
    ///
    /// # Errors
    /// `NotFound` when the computer does not exist; `Conflict` (`thread_full`) when all threads run;
    /// `Unavailable` or `Internal` when the store fails. Nothing is changed then.
    pub async fn add_thread(
        &self,
        computer: ComputerId,
        account: AccountId,
    ) -> Result<(ThreadId, Vec<Uuid>)> {
        let mut write = self.write().await?;
        write.computer(computer).await?;
        let fresh = ThreadId::random();
        let now = clock::now().as_i64();
        sqlx::query(
            "INSERT INTO threads (id, computer_id, account_id, created_at, updated_at) VALUES ($1, $2, $3, \
             $4, $4)",
        )
        .bind(fresh.to_string())
        .bind(computer.to_string())
        .bind(account.to_string())
        .bind(now)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a thread"))?;
        let pictures = write.remove_oldest_threads(&computer.to_string(), fresh).await?;
        write.commit().await?;
        Ok((fresh, pictures))
    }

    /// Returns a thread, or `None` when it does not exist.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn thread(&self, thread: ThreadId) -> Result<Option<Thread>> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} t.id = $1")))
            .bind(thread.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a thread"))?;
        row.map(Thread::try_from).transpose()
    }

    /// Returns the threads of a computer, the last changed first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn threads_of(&self, computer: ComputerId) -> Result<Vec<Thread>> {
        let query = format!("{SELECT} t.computer_id = $1 ORDER BY t.updated_at DESC, t.id");
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(query))
            .bind(computer.to_string())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list a computer's threads"))?;
        rows.into_iter().map(Thread::try_from).collect()
    }

    /// Changes a thread. Returns it, and the pictures of threads that made room for new messages.
    ///
    /// # Errors
    /// `NotFound` when the thread does not exist; `Conflict` (`thread_running`) for new messages while a run
    /// is in progress; those of [`Store::append_message`]; `Unavailable` or `Internal` when the store fails.
    /// Nothing is changed then.
    pub async fn change_thread(
        &self,
        thread: ThreadId,
        change: &ThreadChange,
    ) -> Result<(Thread, Vec<Uuid>)> {
        let mut write = self.write().await?;
        let text = thread.to_string();
        let mut pictures = Vec::new();
        if let Some(messages) = &change.messages {
            pictures = write.replace_messages(thread, messages).await?;
        }
        sqlx::query(
            "UPDATE threads SET title = CASE WHEN $2 = '' THEN title ELSE $2 END, \
             archived = CASE WHEN $3 < 0 THEN archived ELSE $3 END, updated_at = $4 WHERE id = $1",
        )
        .bind(&text)
        .bind(change.title.as_deref().unwrap_or_default())
        .bind(change.archived.map_or(-1, i64::from))
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("change a thread"))?;
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} t.id = $1")))
            .bind(&text)
            .fetch_optional(&mut *write.tx)
            .await
            .map_err(failed("read a thread"))?;
        let changed = row.ok_or_else(unknown)?.try_into()?;
        write.commit().await?;
        Ok((changed, pictures))
    }

    /// Returns the account that owns the computer of a thread; `None` when the thread does not exist.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn thread_owner(&self, thread: ThreadId) -> Result<Option<AccountId>> {
        let row: Option<(String,)> = sqlx::query_as(
            "SELECT w.account_id FROM threads t JOIN computers c ON c.id = t.computer_id \
             JOIN workspaces w ON w.id = c.workspace_id WHERE t.id = $1",
        )
        .bind(thread.to_string())
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("look for the owner of a thread"))?;
        row.map(|(account,)| id(&account)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::Fixture;
    use super::*;

    #[tokio::test]
    async fn threads_go_with_their_computer_and_stay_without_their_account() {
        let fixture = Fixture::new().await;
        let thread = fixture.thread(1).await;
        let other = AccountId::random();
        fixture
            .run(&format!(
                "INSERT INTO accounts (id, email, created_at) VALUES ('{other}', 'b@localhost', 1)"
            ))
            .await;
        fixture.run(&format!("UPDATE threads SET account_id = '{other}'")).await;
        fixture.store.append_message(thread, "{}").await.unwrap();
        fixture.run(&format!("DELETE FROM accounts WHERE id = '{other}'")).await;
        assert_eq!(fixture.read(thread).await.unwrap().account, None);
        assert_eq!(fixture.store.thread_owner(thread).await.unwrap(), Some(fixture.account));
        fixture.run(&format!("DELETE FROM computers WHERE id = '{}'", fixture.computer)).await;
        assert!(fixture.read(thread).await.is_none());
        assert_eq!(fixture.store.thread_messages(thread).await.unwrap().len(), 0);
        assert_eq!(fixture.store.thread_owner(thread).await.unwrap(), None);
    }
}
