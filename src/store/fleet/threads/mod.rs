//! Chat threads of computers, with their messages and steps.
//!
//! A run marks its thread `running` with each message and step, and stores its outcome at the end. A thread
//! that is still `running` when the store opens was interrupted ([`Store::interrupt_runs`]).
//!
//! Methods that remove steps return the ids of their pictures. The caller removes the blobs; a sweep removes
//! those that a crash leaves.

mod messages;
mod steps;

pub use messages::{StoredMessage, ThreadMessages};
pub use steps::{NewThreadStep, StepPicture, ThreadStep};

use uuid::Uuid;

use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, ComputerId, ThreadId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::desktop::thread::{MAX_COMPUTER_BYTES, MAX_THREADS, RunOutcome, RunState, WaitingCall};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

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

    /// Marks a thread as running before its run does anything. A call that waited to be confirmed waits no
    /// longer, so that it is executed once, whatever happens to the run.
    ///
    /// # Errors
    /// `NotFound` when the thread does not exist; `Unavailable` or `Internal` when the store fails.
    pub async fn begin_run(&self, thread: ThreadId) -> Result<()> {
        let mut write = self.write().await?;
        let done = sqlx::query(
            "UPDATE threads SET run_state = $2, failure = NULL, waiting_call = NULL, waiting_frame = NULL, \
             updated_at = $3 WHERE id = $1",
        )
        .bind(thread.to_string())
        .bind(RunState::Running.name())
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store the beginning of a run"))?;
        if done.rows_affected() == 0 {
            return Err(unknown());
        }
        write.commit().await
    }

    /// Adds the tokens and the cost of a run to its thread; a missing thread is not an error.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn add_costs(&self, thread: ThreadId, costs: &ThreadCosts) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query(
            "UPDATE threads SET input_tokens = input_tokens + $2, output_tokens = output_tokens + $3, \
             cache_read_tokens = cache_read_tokens + $4, cache_write_tokens = cache_write_tokens + $5, \
             cost_microcents = cost_microcents + $6 WHERE id = $1",
        )
        .bind(thread.to_string())
        .bind(costs.input_tokens)
        .bind(costs.output_tokens)
        .bind(costs.cache_read_tokens)
        .bind(costs.cache_write_tokens)
        .bind(costs.cost_microcents)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("add the costs of a run"))?;
        write.commit().await
    }

    /// Returns the threads that are marked as running, with the time of their last change.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn running_threads(&self) -> Result<Vec<(ThreadId, UnixMillis)>> {
        let rows: Vec<(String, i64)> =
            sqlx::query_as("SELECT id, updated_at FROM threads WHERE run_state = $1")
                .bind(RunState::Running.name())
                .fetch_all(&self.pool)
                .await
                .map_err(failed("list running threads"))?;
        rows.iter().map(|(id, at)| Ok((parse_id(id)?, UnixMillis::new(*at)))).collect()
    }

    /// Marks a thread as interrupted if it is still running and has not changed since `unchanged_since`.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn interrupt_run(&self, thread: ThreadId, unchanged_since: UnixMillis) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE threads SET run_state = $2 WHERE id = $1 AND run_state = $3 AND updated_at = $4")
            .bind(thread.to_string())
            .bind(RunState::Interrupted.name())
            .bind(RunState::Running.name())
            .bind(unchanged_since.as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("mark an interrupted run"))?;
        write.commit().await
    }

    /// Stores how a run of a thread ended.
    ///
    /// # Errors
    /// `NotFound` when the thread does not exist; `Unavailable` or `Internal` when the store fails.
    pub async fn end_run(&self, thread: ThreadId, outcome: &RunOutcome) -> Result<()> {
        let mut write = self.write().await?;
        let done =
            sqlx::query("UPDATE threads SET run_state = $2, failure = $3, updated_at = $4 WHERE id = $1")
                .bind(thread.to_string())
                .bind(outcome.state().name())
                .bind(outcome.failure())
                .bind(clock::now().as_i64())
                .execute(&mut *write.tx)
                .await
                .map_err(failed("store the outcome of a run"))?;
        if done.rows_affected() == 0 {
            return Err(unknown());
        }
        if let Some(waiting) = outcome.waiting() {
            sqlx::query("UPDATE threads SET waiting_call = $2, waiting_frame = $3 WHERE id = $1")
                .bind(thread.to_string())
                .bind(&waiting.call)
                .bind(waiting.frame.as_deref())
                .execute(&mut *write.tx)
                .await
                .map_err(failed("store the call that waits"))?;
        }
        write.commit().await
    }

    /// Marks the threads whose run an earlier controller did not end as interrupted. Returns their number.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn interrupt_runs(&self) -> Result<u64> {
        let mut write = self.write().await?;
        let done = sqlx::query("UPDATE threads SET run_state = $2 WHERE run_state = $1")
            .bind(RunState::Running.name())
            .bind(RunState::Interrupted.name())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("mark interrupted runs"))?;
        write.commit().await?;
        Ok(done.rows_affected())
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

impl Write {
    /// Removes the threads of a computer that have not changed for the longest time until the rest is within
    /// the bounds. Threads that run and `kept` stay. Returns the pictures of their steps.
    async fn remove_oldest_threads(&mut self, computer: &str, kept: ThreadId) -> Result<Vec<Uuid>> {
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
    use super::*;

    /// A store with one computer.
    pub(super) struct Fixture {
        pub(super) store: Store,
        pub(super) account: AccountId,
        pub(super) computer: ComputerId,
        _folder: tempfile::TempDir,
    }

    impl Fixture {
        pub(super) async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(&folder.path().join("hotdesk.db")).await.unwrap();
            let (account, computer) = (AccountId::random(), ComputerId::random());
            let fixture = Self { store, account, computer, _folder: folder };
            let workspace = Uuid::new_v4();
            fixture
                .run(&format!(
                    "INSERT INTO accounts (id, email, created_at) VALUES ('{account}', 'a@localhost', 1)"
                ))
                .await;
            fixture
                .run(&format!(
                    "INSERT INTO workspaces (id, account_id, name, name_folded, status, created_at, \
                     updated_at) \
                     VALUES ('{workspace}', '{account}', 'w', 'w', 'active', 1, 1)"
                ))
                .await;
            // The tokens stay sealed texts that nothing opens.
            fixture
                .run(&format!(
                    "INSERT INTO computers (id, workspace_id, name, name_folded, cpu, ram_gb, disk_gb, \
                     resolution, \
                     auto_stop_minutes, status, instance_id, generation, agent_token, vnc_password, \
                     created_at, \
                     updated_at) VALUES ('{computer}', '{workspace}', 'c', 'c', 1, 4, 8, '1280x720', 0, \
                     'stopped', \
                     '0a1b2c3d', 1, '', '', 1, 1)"
                ))
                .await;
            fixture
        }

        pub(super) async fn run(&self, statement: &str) {
            let done = sqlx::query(sqlx::AssertSqlSafe(statement.to_owned())).execute(&self.store.pool).await;
            done.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }

        /// A thread, stored without the look at the computer's row.
        pub(super) async fn thread(&self, updated_at: i64) -> ThreadId {
            let thread = ThreadId::random();
            self.run(&format!(
                "INSERT INTO threads (id, computer_id, account_id, created_at, updated_at) \
                 VALUES ('{thread}', '{}', '{}', 1, {updated_at})",
                self.computer, self.account
            ))
            .await;
            thread
        }

        pub(super) async fn read(&self, thread: ThreadId) -> Option<Thread> {
            self.store.thread(thread).await.unwrap()
        }
    }

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

    #[tokio::test]
    async fn runs_of_an_earlier_controller_are_interrupted() {
        let fixture = Fixture::new().await;
        let (idle, running, failed) =
            (fixture.thread(1).await, fixture.thread(1).await, fixture.thread(1).await);
        fixture.store.append_message(running, "{}").await.unwrap();
        fixture.store.append_message(failed, "{}").await.unwrap();
        let outcome = RunOutcome::Failed { message: "no".to_owned() };
        fixture.store.end_run(failed, &outcome).await.unwrap();
        assert_eq!(fixture.store.interrupt_runs().await.unwrap(), 1);
        let states = [idle, running, failed];
        let mut found = Vec::new();
        for thread in states {
            let thread = fixture.read(thread).await.unwrap();
            found.push((thread.run, thread.failure));
        }
        assert_eq!(
            found,
            [
                (None, None),
                (Some(RunState::Interrupted), None),
                (Some(RunState::Failed), Some("no".to_owned()))
            ]
        );
        fixture.store.append_message(failed, "{}").await.unwrap();
        let again = fixture.read(failed).await.unwrap();
        assert_eq!((again.run, again.failure), (Some(RunState::Running), None));
        let missing = fixture.store.end_run(ThreadId::random(), &RunOutcome::Done).await.unwrap_err();
        assert_eq!(missing.message, "Thread not found");
    }

    #[tokio::test]
    async fn a_call_waits_until_a_run_begins_and_costs_add_up() {
        let fixture = Fixture::new().await;
        let (store, thread) = (&fixture.store, fixture.thread(1).await);
        let waiting = WaitingCall { call: "call_1".to_owned(), frame: Some("ab-1".to_owned()) };
        let costs = ThreadCosts { input_tokens: 10, cost_microcents: 7, ..ThreadCosts::default() };
        for run in 1..=2 {
            store.end_run(thread, &RunOutcome::Confirm(waiting.clone())).await.unwrap();
            store.add_costs(thread, &costs).await.unwrap();
            let read = fixture.read(thread).await.unwrap();
            assert_eq!((read.run, read.waiting.as_ref()), (Some(RunState::Confirm), Some(&waiting)));
            assert_eq!((read.costs.input_tokens, read.costs.cost_microcents), (10 * run, 7 * run));
            store.begin_run(thread).await.unwrap();
            let read = fixture.read(thread).await.unwrap();
            assert_eq!((read.run, read.waiting), (Some(RunState::Running), None));
        }
        store.end_run(thread, &RunOutcome::Confirm(waiting)).await.unwrap();
        store.append_message(thread, "{}").await.unwrap();
        assert_eq!(fixture.read(thread).await.unwrap().waiting, None, "the conversation went on");
        assert_eq!(store.begin_run(ThreadId::random()).await.unwrap_err().message, "Thread not found");
    }

    #[tokio::test]
    async fn a_thread_that_has_changed_meanwhile_is_not_interrupted() {
        let fixture = Fixture::new().await;
        let (store, thread) = (&fixture.store, fixture.thread(1).await);
        fixture.run("UPDATE threads SET run_state = 'running'").await;
        let found = store.running_threads().await.unwrap();
        assert_eq!(found, [(thread, UnixMillis::new(1))]);
        store.begin_run(thread).await.unwrap();
        store.interrupt_run(thread, found[0].1).await.unwrap();
        assert_eq!(fixture.read(thread).await.unwrap().run, Some(RunState::Running));
        let found = store.running_threads().await.unwrap();
        store.interrupt_run(thread, found[0].1).await.unwrap();
        assert_eq!(fixture.read(thread).await.unwrap().run, Some(RunState::Interrupted));
    }

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
