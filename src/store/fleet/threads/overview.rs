//! Threads of all computers that an account reaches, in pages.

use super::{Row, SELECT, Thread, ThreadMessages};
use crate::{Store, failed};
use hotdesk_base::ids::{AccountId, ComputerId, ThreadId, WorkspaceId};
use hotdesk_domain::desktop::thread::{RunState, ThreadCursor};
use hotdesk_domain::error::Result;

/// Filter and page of a list of threads. `None` is everything.
#[derive(Clone, Debug)]
pub struct ThreadFilter {
    /// The account whose computers are listed: its own, and those of the workspaces that it is a member of.
    pub account: AccountId,
    /// Only computers of this workspace.
    pub workspace: Option<WorkspaceId>,
    /// Only this computer.
    pub computer: Option<ComputerId>,
    /// Only archived threads, or only others.
    pub archived: Option<bool>,
    /// Only threads whose last run has this state.
    pub run: Option<RunState>,
    /// Only threads that follow this one in the list.
    pub after: Option<ThreadCursor>,
    /// Page size.
    pub limit: u32,
}

impl Store {
    /// Returns a page of the threads that match a filter, the last changed first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn threads(&self, filter: &ThreadFilter) -> Result<Vec<Thread>> {
        let clause = "EXISTS (SELECT 1 FROM computers c JOIN workspaces w ON w.id = c.workspace_id \
                      WHERE c.id = t.computer_id AND (w.account_id = $1 OR EXISTS (SELECT 1 FROM members m \
                      WHERE m.workspace_id = w.id AND m.account_id = $1)) AND ($2 = '' OR w.id = $2)) \
                      AND ($3 = '' OR t.computer_id = $3) AND ($4 < 0 OR t.archived = $4) \
                      AND ($5 = '' OR t.run_state = $5) \
                      AND ($7 = '' OR t.updated_at < $6 OR (t.updated_at = $6 AND t.id > $7)) \
                      ORDER BY t.updated_at DESC, t.id LIMIT $8";
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} {clause}")))
            .bind(filter.account.to_string())
            .bind(filter.workspace.map(|id| id.to_string()).unwrap_or_default())
            .bind(filter.computer.map(|id| id.to_string()).unwrap_or_default())
            .bind(filter.archived.map_or(-1, i64::from))
            .bind(filter.run.map(RunState::name).unwrap_or_default())
            .bind(filter.after.map_or(0, |after| after.updated_at.as_i64()))
            .bind(filter.after.map(|after| after.thread.to_string()).unwrap_or_default())
            .bind(i64::from(filter.limit))
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list the threads of an account"))?;
        rows.into_iter().map(Thread::try_from).collect()
    }

    /// Returns the newest messages of each of these threads: at most 20 and `most_bytes` of a thread.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn newest_messages_of(&self, threads: &[ThreadId], most_bytes: i64) -> Result<ThreadMessages> {
        let mut messages = ThreadMessages::new();
        for thread in threads {
            messages
                .append(&mut self.newest_messages_where("t.id = $1", &thread.to_string(), most_bytes).await?);
        }
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Fixture;
    use super::*;
    use hotdesk_base::time::UnixMillis;
    use hotdesk_domain::desktop::thread::RunOutcome;

    fn all(fixture: &Fixture) -> ThreadFilter {
        ThreadFilter {
            account: fixture.account,
            workspace: None,
            computer: None,
            archived: None,
            run: None,
            after: None,
            limit: 100,
        }
    }

    async fn ids(fixture: &Fixture, filter: &ThreadFilter) -> Vec<ThreadId> {
        let found = fixture.store.threads(filter).await.unwrap();
        found.into_iter().map(|thread| thread.id).collect()
    }

    #[tokio::test]
    async fn threads_are_listed_by_their_last_change_in_pages() {
        let fixture = Fixture::new().await;
        let (old, new) = (fixture.thread(1).await, fixture.thread(3).await);
        let mut equal = [fixture.thread(2).await, fixture.thread(2).await];
        equal.sort_by_key(ToString::to_string);
        let expected = [new, equal[0], equal[1], old];
        assert_eq!(ids(&fixture, &all(&fixture)).await, expected);
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = ThreadFilter { after, limit: 1, ..all(&fixture) };
            let Some(last) = fixture.store.threads(&page).await.unwrap().pop() else { break };
            after = Some(ThreadCursor { updated_at: last.updated_at, thread: last.id });
            seen.push(last.id);
        }
        assert_eq!(seen, expected, "no thread is left out or listed twice");
    }

    #[tokio::test]
    async fn filters_are_of_the_account_the_computer_the_status_and_the_run() {
        let fixture = Fixture::new().await;
        let (plain, archived, ran) =
            (fixture.thread(3).await, fixture.thread(2).await, fixture.thread(1).await);
        fixture.run(&format!("UPDATE threads SET archived = 1 WHERE id = '{archived}'")).await;
        fixture.run(&format!("UPDATE threads SET run_state = 'running' WHERE id = '{ran}'")).await;
        let with = |change: fn(&mut ThreadFilter)| {
            let mut filter = all(&fixture);
            change(&mut filter);
            filter
        };
        for (filter, expected) in [
            (with(|_| ()), vec![plain, archived, ran]),
            (with(|it| it.archived = Some(true)), vec![archived]),
            (with(|it| it.archived = Some(false)), vec![plain, ran]),
            (with(|it| it.run = Some(RunState::Running)), vec![ran]),
            (with(|it| it.run = Some(RunState::Done)), vec![]),
            (with(|it| it.account = AccountId::random()), vec![]),
            (with(|it| it.computer = Some(ComputerId::random())), vec![]),
            (with(|it| it.workspace = Some(WorkspaceId::random())), vec![]),
            (ThreadFilter { computer: Some(fixture.computer), ..all(&fixture) }, vec![plain, archived, ran]),
        ] {
            assert_eq!(ids(&fixture, &filter).await, expected, "{filter:?}");
        }
        fixture.store.end_run(ran, &RunOutcome::Done).await.unwrap();
        let done = with(|it| it.run = Some(RunState::Done));
        assert_eq!(ids(&fixture, &done).await, [ran]);
    }

    #[tokio::test]
    async fn members_see_the_threads_of_their_workspaces() {
        let fixture = Fixture::new().await;
        let thread = fixture.thread(1).await;
        let member = AccountId::random();
        fixture
            .run(&format!(
                "INSERT INTO accounts (id, email, created_at) VALUES ('{member}', 'm@localhost', 1)"
            ))
            .await;
        let seen = ThreadFilter { account: member, ..all(&fixture) };
        assert!(ids(&fixture, &seen).await.is_empty());
        fixture
            .run(&format!(
                "INSERT INTO members (workspace_id, account_id, role, created_at) \
                 SELECT workspace_id, '{member}', 'viewer', 1 FROM computers"
            ))
            .await;
        assert_eq!(ids(&fixture, &seen).await, [thread]);
    }

    #[tokio::test]
    async fn messages_are_those_of_the_threads_that_are_asked_for() {
        let fixture = Fixture::new().await;
        let (asked, other) = (fixture.thread(1).await, fixture.thread(1).await);
        for (thread, text) in [(asked, "aaaa"), (asked, "bb"), (other, "c")] {
            fixture.store.append_message(thread, text).await.unwrap();
        }
        let found = fixture.store.newest_messages_of(&[asked], 5).await.unwrap();
        let texts: Vec<_> = found.values().flatten().map(|message| message.content.as_str()).collect();
        assert_eq!((found.len(), texts), (1, vec!["bb"]), "{found:?}");
        assert!(fixture.store.newest_messages_of(&[], 5).await.unwrap().is_empty());
        let read = fixture.store.thread(asked).await.unwrap().expect("the thread");
        assert!(read.updated_at > UnixMillis::new(1));
    }
}
