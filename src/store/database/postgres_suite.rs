//! Tests of stores in PostgreSQL: the whole suite of this crate, and what only a server can do.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use hotdesk_capability::Skip;
use hotdesk_capability::postgres::PostgresServer;

use super::connections::Connections;
use super::fixture::{TestDatabase, postgres};
use super::tables::TABLES;
use super::{
    Access, CopiedTable, Database, Leader, LeaseAnswer, LeaseClient, PostgresAddress, SharedValue, copy,
};
use crate::Store;
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::{AuditAction, Entry};
use hotdesk_domain::error::Kind;

/// A server of this test. In the run of [`the_suite_passes`], which runs all other tests as well, there is none.
fn server() -> Option<PostgresServer> {
    if PostgresServer::of_this_run().is_some() {
        return None;
    }
    PostgresServer::start().map_err(Skip::report).ok()
}

#[test]
fn the_suite_passes() {
    let Some(server) = server() else { return };
    let run = Command::new(std::env::current_exe().unwrap())
        .env(PostgresServer::VARIABLE, server.folder())
        .arg("--test-threads=4")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{output}{}", String::from_utf8_lossy(&run.stderr));
    let used = server.sql("postgres", "SELECT COUNT(*) FROM pg_database WHERE datname LIKE 'test_%'");
    assert!(used.parse::<u32>().unwrap() >= 20, "only {used} tests used PostgreSQL: {output}");
}

async fn add_entries(store: &Store, entries: usize) {
    for _ in 0..entries {
        store.add_audit(&[Entry::of_the_service(clock::now(), AuditAction::TrialEnd)]).await.unwrap();
    }
}

/// Numbers of the audit log, oldest first.
async fn numbers(store: &Store) -> Vec<i64> {
    sqlx::query_scalar("SELECT seq FROM audit ORDER BY seq").fetch_all(&store.pool).await.unwrap()
}

#[tokio::test]
async fn writers_of_several_programs_take_turns() {
    let Some(server) = server() else { return };
    let test = TestDatabase::on(&server);
    let (one, another) = (test.store(Access::Exclusive).await, test.store(Access::Shared).await);
    tokio::join!(
        add_entries(&one, 25),
        add_entries(&one, 25),
        add_entries(&another, 25),
        add_entries(&another, 25)
    );
    assert_eq!(numbers(&one).await, (1..=100).collect::<Vec<i64>>());
}

#[tokio::test]
async fn a_database_has_one_controller_and_others_beside_it() {
    let Some(server) = server() else { return };
    let test = TestDatabase::on(&server);
    let controller = test.store(Access::Exclusive).await;
    let refused = Connections::open(&test.database, Access::Exclusive).await.unwrap_err().message;
    assert!(
        refused.contains("in use by a controller") && !refused.contains(PostgresServer::PASSWORD),
        "{refused}"
    );
    test.store(Access::Shared).await.close().await;
    controller.close().await;
    add_entries(&test.store(Access::Exclusive).await, 1).await;
}

#[tokio::test]
async fn a_crash_of_the_server_loses_nothing_and_writes_continue() {
    let Some(mut server) = server() else { return };
    let test = TestDatabase::on(&server);
    let store = Arc::new(test.store(Access::Exclusive).await);
    add_entries(&store, 3).await;
    // A transaction that the crash interrupts.
    let mut tx = store.connections.begin_write().await.unwrap();
    sqlx::query("DELETE FROM audit").execute(&mut *tx).await.unwrap();
    server.crash();
    assert!(tx.commit().await.is_err());
    for failure in [store.check().await.unwrap_err(), store.account_ids().await.map(drop).unwrap_err()] {
        assert_eq!((failure.kind, failure.retry_after), (Kind::Unavailable, Some(5)), "{failure:#}");
    }
    let entry = Entry::of_the_service(clock::now(), AuditAction::TrialEnd);
    assert_eq!(store.add_audit(&[entry]).await.unwrap_err().kind, Kind::Unavailable);
    server.resume();
    add_entries(&store, 1).await;
    assert_eq!(numbers(&store).await, [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_start_waits_for_a_server_that_starts() {
    let Some(mut server) = server() else { return };
    let test = TestDatabase::on(&server);
    server.crash();
    let opening = test.store(Access::Exclusive);
    let (store, ()) = tokio::join!(opening, async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.resume();
    });
    add_entries(&store, 1).await;
}

#[tokio::test]
async fn a_controller_whose_lock_another_one_has_taken_writes_no_more() {
    let Some(mut server) = server() else { return };
    let test = TestDatabase::on(&server);
    let former = test.store(Access::Exclusive).await;
    server.crash();
    server.resume();
    let present = test.store(Access::Exclusive).await;
    let entry = Entry::of_the_service(clock::now(), AuditAction::TrialEnd);
    assert_eq!(former.add_audit(&[entry]).await.unwrap_err().kind, Kind::Unavailable);
    add_entries(&present, 1).await;
    assert_eq!(numbers(&former).await, [1]);
}

#[tokio::test]
async fn a_former_leader_writes_no_more_whether_or_not_its_session_has_ended() {
    let Some(server) = server() else { return };
    let test = TestDatabase::on(&server);
    test.store(Access::Exclusive).await.close().await;
    let Database::Postgres(address) = &test.database else { panic!("a database of a server") };
    let mut one = LeaseClient::open(address.clone(), "http://one").await.unwrap();
    let mut other = LeaseClient::open(address.clone(), "http://other").await.unwrap();
    let LeaseAnswer::Leading(first) = one.request().await.unwrap() else { panic!("nobody has led") };
    let former = test.store(Access::Leader(first)).await;
    add_entries(&former, 1).await;
    let found = other.request().await.unwrap();
    assert_eq!(found, LeaseAnswer::Following(Leader { epoch: first, address: "http://one".to_owned() }));

    // A process that stands still in a transaction, which blocks all other writers.
    let mut tx = former.connections.begin_write().await.unwrap();
    sqlx::query("DELETE FROM audit").execute(&mut *tx).await.unwrap();
    one.release().await;
    let LeaseAnswer::Leading(second) = other.request().await.unwrap() else { panic!("it was released") };
    let present = test.store(Access::Leader(second)).await;
    assert!(tx.commit().await.is_err());
    let entry = || [Entry::of_the_service(clock::now(), AuditAction::TrialEnd)];
    assert_eq!(former.add_audit(&entry()).await.unwrap_err().kind, Kind::Unavailable);
    add_entries(&present, 1).await;

    // A former leader that opens the store late leaves the session of the present one.
    let mut tx = present.connections.begin_write().await.unwrap();
    sqlx::query("UPDATE meta SET value = value").execute(&mut *tx).await.unwrap();
    assert!(Connections::open(&test.database, Access::Leader(first)).await.is_err());
    tx.commit().await.unwrap();

    // Another one has taken the lease, but has not opened the store yet.
    other.release().await;
    assert!(matches!(one.request().await.unwrap(), LeaseAnswer::Leading(_)));
    assert_eq!(present.add_audit(&entry()).await.unwrap_err().kind, Kind::Unavailable);
    assert_eq!(numbers(&present).await, [1, 2]);
}

#[tokio::test]
async fn a_leader_excludes_a_single_controller_and_the_other_way_round() {
    let Some(server) = server() else { return };
    let test = TestDatabase::on(&server);
    let single = test.store(Access::Exclusive).await;
    let Database::Postgres(address) = &test.database else { panic!("a database of a server") };
    let mut lease = LeaseClient::open(address.clone(), "http://one").await.unwrap();
    let LeaseAnswer::Leading(epoch) = lease.request().await.unwrap() else { panic!("nobody has led") };
    let in_use = async |access| {
        let refused = Connections::open(&test.database, access).await.unwrap_err().message;
        assert!(refused.contains("in use by a controller"), "{refused}");
    };
    in_use(Access::Leader(epoch)).await;
    add_entries(&single, 1).await;
    single.close().await;
    let leader = test.store(Access::Leader(epoch)).await;
    in_use(Access::Exclusive).await;
    add_entries(&leader, 1).await;
}

#[tokio::test]
async fn controllers_share_a_key_and_the_values_of_the_first_one() {
    let Some(server) = server() else { return };
    let (test, stranger) = (TestDatabase::on(&server), TestDatabase::sqlite());
    let store = test.store(Access::Exclusive).await;
    let Database::Postgres(address) = &test.database else { panic!("a database of a server") };
    let mut lease = LeaseClient::open(address.clone(), "http://one").await.unwrap();
    assert!(lease.has_table().await.unwrap());
    Store::check_key_file(&mut lease, &test.key_file()).await.unwrap();
    let refused = Store::check_key_file(&mut lease, &stranger.key_file()).await.unwrap_err().message;
    assert!(refused.contains("does not exist"), "{refused}");
    stranger.store(Access::Exclusive).await.close().await;
    let refused = Store::check_key_file(&mut lease, &stranger.key_file()).await.unwrap_err().message;
    assert!(refused.contains("does not hold the key"), "{refused}");

    assert_eq!(lease.shared_value(SharedValue::Blobs).await.unwrap(), None);
    for own in ["one", "another"] {
        assert_eq!(store.share(SharedValue::Blobs, own).await.unwrap(), "one");
    }
    assert_eq!(lease.shared_value(SharedValue::Blobs).await.unwrap().as_deref(), Some("one"));
    for own in ["one", "another"] {
        lease.share(SharedValue::Machines, own).await.unwrap();
        assert_eq!(lease.shared_value(SharedValue::Machines).await.unwrap().as_deref(), Some(own));
    }
    assert!(!lease.has_computers().await.unwrap());
    fill(&store).await;
    assert!(lease.has_computers().await.unwrap());
}

#[tokio::test]
async fn a_text_with_nul_is_refused_as_invalid() {
    let Some(server) = server() else { return };
    let store = TestDatabase::on(&server).store(Access::Shared).await;
    let entry = Entry::of_the_service(clock::now(), AuditAction::TrialEnd);
    let entry = Entry { target: Some("a\0b".to_owned()), ..entry };
    let refused = store.add_audit(&[entry]).await.unwrap_err();
    assert!(refused.kind == Kind::Invalid && refused.message.contains("NUL"), "{refused:#}");
    // The connection is usable afterwards.
    add_entries(&store, 1).await;
}

#[tokio::test]
async fn databases_with_another_encoding_are_refused() {
    let Some(server) = server() else { return };
    let url = server.create_database_with("TEMPLATE template0 ENCODING 'LATIN1'");
    let refused = Connections::open(&postgres(&url), Access::Shared).await.unwrap_err().message;
    assert!(refused.contains("ENCODING 'UTF8' LC_COLLATE 'C'"), "{refused}");
}

#[tokio::test]
async fn a_connection_is_encrypted_to_a_server_of_the_right_authority_and_name() {
    if PostgresServer::of_this_run().is_some() {
        return;
    }
    let Ok(server) = PostgresServer::start_with_tls().map_err(Skip::report) else { return };
    let local = server.create_database();
    let name = local.rsplit('/').next().unwrap();
    let open = async |host: &str, ca_file: &Path| {
        let url = format!("postgres://hotdesk@{host}:{}/{name}?sslmode=verify-full", server.port());
        let password = Some(Secret::new(PostgresServer::PASSWORD));
        let settings = ["store.url", "store.password_file"];
        let address = PostgresAddress::parse(settings, &url, password, ca_file).unwrap();
        Connections::open(&Database::Postgres(address), Access::Shared).await
    };
    let connections = open("localhost", &server.ca_file()).await.unwrap();
    let encrypted = "SELECT COUNT(*) FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl";
    let encrypted: i64 = sqlx::query_scalar(encrypted).fetch_one(&connections.pool).await.unwrap();
    assert_eq!(encrypted, 1);
    for (host, ca_file) in [("127.0.0.1", server.ca_file()), ("localhost", "".into())] {
        let refused = format!("{:#}", open(host, &ca_file).await.unwrap_err());
        assert!(refused.contains("certificate"), "{host}: {refused}");
    }
}

#[tokio::test]
async fn a_rotation_of_the_keys_leaves_no_former_value() {
    let Some(server) = server() else { return };
    let test = TestDatabase::on(&server);
    let store = test.store(Access::Exclusive).await;
    let secret = store.installation_secret("link_signing_secret", || Secret::random(43)).await.unwrap();
    assert!(store.rotate_keys().await.unwrap() >= 1);
    let store = test.store(Access::Exclusive).await;
    let again = store.installation_secret("link_signing_secret", || panic!("it was there before")).await;
    assert_eq!(again.unwrap().reveal(), secret.reveal());
    let requested: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM meta").fetch_one(&store.pool).await.unwrap();
    assert_eq!(requested, 0, "the former values are removed");
}

/// All rows of a store as text, table by table.
async fn rows(store: &Store) -> Vec<(String, Vec<String>)> {
    let mut all = Vec::new();
    for table in TABLES {
        let select = format!("SELECT * FROM {table}");
        let found = sqlx::query(sqlx::AssertSqlSafe(select)).fetch_all(&store.pool).await.unwrap();
        let mut lines: Vec<String> = found.iter().map(line).collect();
        lines.sort();
        all.push((table.to_owned(), lines));
    }
    all
}

/// Names and values of a row, in the order of the names.
fn line(row: &sqlx::any::AnyRow) -> String {
    use sqlx::{Column, Row};
    let mut fields: Vec<String> = Vec::new();
    for column in row.columns() {
        let name = column.name();
        let text = row.try_get::<Option<String>, _>(name).map(|it| format!("{it:?}"));
        let text = text.or_else(|_| row.try_get::<Option<i64>, _>(name).map(|it| format!("{it:?}")));
        let text = text.or_else(|_| row.try_get::<Option<f64>, _>(name).map(|it| format!("{it:?}")));
        fields.push(format!("{name}={}", text.unwrap()));
    }
    fields.sort();
    fields.join(" ")
}

/// A store with rows that refer to each other, absent values, fractions, and more entries than one batch has.
async fn fill(store: &Store) {
    let (account, workspace, computer) = (AccountId::random(), uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    let thread = uuid::Uuid::new_v4();
    for statement in [
        format!("INSERT INTO accounts (id, email, created_at) VALUES ('{account}', 'a@localhost', 1)"),
        format!(
            "INSERT INTO workspaces (id, account_id, name, name_folded, status, created_at, updated_at) \
             VALUES ('{workspace}', '{account}', 'Grüße ''世界''', 'grüße', 'active', 1, 9223372036854775807)"
        ),
        format!(
            "INSERT INTO computers (id, workspace_id, name, name_folded, cpu, ram_gb, disk_gb, resolution, \
             auto_stop_minutes, status, instance_id, generation, agent_token, vnc_password, created_at, updated_at) \
             VALUES ('{computer}', '{workspace}', 'c', 'c', 0.1, 4, 8, '1280x720', 0, 'stopped', '0a1b2c3d', 1, '', \
             '', 1, 1)"
        ),
        format!(
            "INSERT INTO threads (id, computer_id, created_at, updated_at) VALUES ('{thread}', '{computer}', 1, 1)"
        ),
        format!(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1300) \
             INSERT INTO thread_messages (thread_id, number, content, bytes, created_at) \
             SELECT '{thread}', n, 'x', 1, 1 FROM numbers"
        ),
    ] {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&store.pool).await.unwrap();
    }
    add_entries(store, 3).await;
    store.installation_secret("link_signing_secret", || Secret::new("signed")).await.unwrap();
}

async fn copied(from: &Database, to: &Database) -> u64 {
    let mut copied = 0;
    copy(from, to, |CopiedTable { rows, .. }| copied += rows).await.unwrap();
    copied
}

#[tokio::test]
async fn a_copy_has_every_row_and_the_same_secrets() {
    let Some(server) = server() else { return };
    let (first, second) = (TestDatabase::sqlite(), TestDatabase::on(&server));
    let third = TestDatabase::sqlite();
    let store = first.store(Access::Exclusive).await;
    fill(&store).await;
    let wanted = rows(&store).await;
    store.close().await;
    assert!(copied(&first.database, &second.database).await > 1300);
    copied(&second.database, &third.database).await;

    // The first one has the key file, which stays where it is.
    for database in [&second.database, &third.database] {
        let store = first.store_of(database).await;
        assert_eq!(rows(&store).await, wanted, "{database}");
        let secret = store.installation_secret("link_signing_secret", || panic!("it was there before")).await;
        assert_eq!(secret.unwrap().reveal(), "signed");
        store.close().await;
    }
}

#[tokio::test]
async fn a_copy_refuses_stores_in_use_other_versions_and_targets_with_rows() {
    let Some(server) = server() else { return };
    let (source, target) = (TestDatabase::sqlite(), TestDatabase::on(&server));
    let refusal = async || copy(&source.database, &target.database, |_| {}).await.unwrap_err().message;
    source.store(Access::Exclusive).await.close().await;

    let controller = target.store(Access::Exclusive).await;
    assert!(refusal().await.contains("in use by a controller"));
    add_entries(&controller, 1).await;
    controller.close().await;
    let refused = refusal().await;
    assert!(refused.contains("not empty") && !refused.contains(PostgresServer::PASSWORD), "{refused}");

    let empty = TestDatabase::on(&server);
    let to_empty = async || copy(&source.database, &empty.database, |_| {}).await;
    let store = source.store(Access::Exclusive).await;
    for (statement, reason) in [
        ("CREATE TABLE mine (id TEXT)", "the table mine"),
        ("DELETE FROM _sqlx_migrations WHERE version = 47", "another version"),
        ("DROP TABLE _sqlx_migrations", "no store"),
    ] {
        sqlx::query(statement).execute(&store.pool).await.unwrap();
        assert!(to_empty().await.unwrap_err().message.contains(reason), "{reason}");
    }
    let tables = rows(&empty.store(Access::Exclusive).await).await;
    let filled: Vec<_> = tables.iter().filter(|(_, lines)| !lines.is_empty()).map(|(name, _)| name).collect();
    assert_eq!(filled, ["data_keys", "sealed_columns"], "only what a new store has");
}
