//! Store with one computer, for the tests of threads and timelines.

use uuid::Uuid;

use super::Thread;
use crate::Store;
use crate::database::Access;
use crate::database::fixture::TestDatabase;
use hotdesk_base::ids::{AccountId, ComputerId, ThreadId};

/// A store with one computer.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) account: AccountId,
    pub(crate) computer: ComputerId,
    _database: TestDatabase,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let database = TestDatabase::new();
        let store = database.store(Access::Shared).await;
        let (account, computer) = (AccountId::random(), ComputerId::random());
        let fixture = Self { store, account, computer, _database: database };
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

    pub(crate) async fn run(&self, statement: &str) {
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
