//! A database of a version that stored secrets as plain text, with one row of each kind.

use std::path::{Path, PathBuf};

use hotdesk::base::ids::{AccountId, ComputerId};
use hotdesk::base::secret::Secret;
use hotdesk::store::Store;
use sqlx::{AnyPool, Executor};
use tempfile::TempDir;
use uuid::Uuid;

use super::look::Canaries;

/// Migrations below this number were there before secrets were sealed.
const FIRST_SEALED: u32 = 30;

pub struct OlderStore {
    folder: TempDir,
    account: AccountId,
    /// Its computers, oldest first.
    pub computers: [ComputerId; 2],
    pub secrets: Canaries,
}

impl OlderStore {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (account, computers) = (AccountId::random(), [ComputerId::random(), ComputerId::random()]);
        let mut store = Self { folder, account, computers, secrets: Canaries::default() };
        let pool = open_file(&store.file(), true).await;
        earlier_migrations().await.run(&pool).await.expect("migrated");
        store.fill(&pool).await;
        pool.close().await;
        store
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("hotdesk.db")
    }

    pub fn key_file(&self) -> PathBuf {
        self.folder.path().join("hotdesk.key")
    }

    async fn fill(&mut self, pool: &AnyPool) {
        let secrets = &mut self.secrets;
        let mut secret = |what| secrets.record(what, Secret::random(32).reveal());
        let (account, workspace, snapshot) = (self.account, Uuid::new_v4(), Uuid::new_v4());
        let mut rows = vec![
            format!("INSERT INTO accounts (id, email, created_at) VALUES ('{account}', 'a@x.example', 1)"),
            format!(
                "INSERT INTO workspaces (id, account_id, name, name_folded, status, created_at, updated_at) \
                 VALUES ('{workspace}', '{account}', 'w', 'w', 'active', 1, 1)"
            ),
        ];
        for (number, computer) in self.computers.iter().enumerate() {
            rows.push(format!(
                "INSERT INTO computers (id, workspace_id, name, name_folded, cpu, ram_gb, disk_gb, resolution, \
                 auto_stop_minutes, status, instance_id, generation, created_at, updated_at, agent_token, saved_token, \
                 vnc_password) VALUES ('{computer}', '{workspace}', 'c{number}', 'c{number}', 1, 1, 8, '1280x720', 0, \
                 'suspended', '{}', 1, {number}, 1, '{}', '{}', '{}')",
                hotdesk::base::ids::InstanceId::random().as_str(),
                secret("an agent's token"),
                secret("a saved token"),
                secret("a password"),
            ));
        }
        let computer = self.computers[0];
        rows.push(format!(
            "INSERT INTO snapshots (id, computer_id, state, memory, bytes, agent_token, created_at, cpu, ram_gb, disk_gb) \
             VALUES ('{snapshot}', '{computer}', 'ready', 1, 1, '{}', 1, 1, 1, 8)",
            secret("a snapshot's token"),
        ));
        rows.push(format!(
            "INSERT INTO saved_copies (operation, computer_id, generation, state, token, created_at) \
             VALUES ('{}', '{computer}', 1, 'whole', '{}', 1)",
            Uuid::new_v4(),
            secret("a copy's token"),
        ));
        rows.push(format!(
            "INSERT INTO stream_connections (id, account_id, name, name_folded, url, stream_key, created_at, updated_at) \
             VALUES ('{}', '{account}', 'live', 'live', 'rtmp://x.example/app', '{}', 1, 1)",
            Uuid::new_v4(),
            secret("a stream's key"),
        ));
        rows.push(format!(
            "INSERT INTO idempotent_requests (digest, account_id, holder, request, status, headers, body, created_at) \
             VALUES ('digest', '{account}', 'key', 'request', 200, '{{}}', '{}', 1)",
            secret("a stored answer"),
        ));
        rows.push(format!(
            "INSERT INTO meta (name, value) VALUES ('link_signing_secret', '{}')",
            secret("the secret that signs links"),
        ));
        for row in rows {
            pool.execute(sqlx::AssertSqlSafe(row.clone()))
                .await
                .unwrap_or_else(|error| panic!("{row}: {error}"));
        }
    }

    /// Asserts that a store returns every secret of the rows.
    pub async fn check(&self, store: &Store) {
        let mut found: Vec<String> = Vec::new();
        for computer in store.all_computers().await.expect("computers") {
            let saved = computer.saved_token.expect("a saved token");
            found.extend(
                [computer.agent_token, saved, computer.vnc_password].map(|it| it.reveal().to_owned()),
            );
        }
        let copies = store.saved_copies().await.expect("copies");
        found.extend(copies.iter().map(|copy| copy.token.reveal().to_owned()));
        let servers = store.stream_connections(self.account, None).await.expect("servers");
        found.extend(servers.iter().map(|server| server.key.reveal().to_owned()));
        let signing =
            store.installation_secret("link_signing_secret", || panic!("it was there before")).await;
        found.push(signing.expect("the signing secret").reveal().to_owned());
        for (what, secret) in self.secrets.all() {
            // Reads of these have conditions that no row of this database meets; a rotation opens them.
            let is_read = !["a snapshot's token", "a stored answer"].contains(&what);
            assert!(!is_read || found.iter().any(|text| text == secret), "{what} is lost: {found:?}");
        }
    }

    /// The files that contain a secret as plain text.
    pub fn plain_text(&self) -> Vec<(PathBuf, &'static str)> {
        self.secrets.find_in_files(self.folder())
    }
}

/// Runs SQL on a database file that no store has open.
pub async fn change(file: &Path, statement: &str) {
    let pool = open_file(file, false).await;
    pool.execute(sqlx::AssertSqlSafe(statement.to_owned())).await.expect("changed");
    pool.close().await;
}

async fn open_file(file: &Path, create: bool) -> AnyPool {
    sqlx::any::install_default_drivers();
    let mode = if create { "rwc" } else { "rw" };
    AnyPool::connect(&format!("sqlite://{}?mode={mode}", file.display())).await.expect("a database")
}

async fn earlier_migrations() -> sqlx::migrate::Migrator {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/migrations");
    for entry in std::fs::read_dir(source).expect("the migrations") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_str().expect("text").to_owned();
        let number: u32 = name.split('_').next().and_then(|number| number.parse().ok()).expect("a number");
        if number < FIRST_SEALED {
            std::fs::copy(&path, folder.path().join(&name)).expect("copied");
        }
    }
    sqlx::migrate::Migrator::new(folder.path()).await.expect("migrations")
}
