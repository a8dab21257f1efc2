//! Runs of chat threads: their state, outcome, tokens and cost.

use super::{ThreadCosts, parse_id, unknown};
use crate::fleet::changes::RecordChange;
use crate::{Store, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::ThreadId;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::desktop::thread::{RunOutcome, RunState};
use hotdesk_domain::error::Result;

impl Store {
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
        write.note(RecordChange::Thread(thread));
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
        write.note(RecordChange::Thread(thread));
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
        write.note(RecordChange::Thread(thread));
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
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Fixture;
    use super::*;
    use hotdesk_domain::desktop::thread::WaitingCall;

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
}
