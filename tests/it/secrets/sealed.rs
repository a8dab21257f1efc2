//! Sealing of secrets in the store: databases of earlier versions, changed rows, and key files that do not fit. D14
//! (docs/security.md).

use std::fs;
use std::os::unix::fs::PermissionsExt;

use hotdesk::base::secret::sealing::SealingKey;
use hotdesk::store::Store;

use super::older::{OlderStore, change};

#[tokio::test(flavor = "multi_thread")]
async fn an_older_database_is_sealed_and_its_plain_text_is_gone() {
    let older = OlderStore::new().await;
    assert!(!older.plain_text().is_empty(), "the search must find what is there");
    let store = Store::open(&older.file()).await.expect("the store opens");
    assert_eq!(older.plain_text(), [], "while the store is open");
    older.check(&store).await;
    store.close().await;
    assert_eq!(older.plain_text(), [], "after it was closed");
    // Again: nothing is sealed twice.
    let store = Store::open(&older.file()).await.expect("the store opens");
    older.check(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_does_not_open_in_another_row_or_column() {
    let older = OlderStore::new().await;
    Store::open(&older.file()).await.expect("sealed").close().await;
    let [first, second] = older.computers;
    let value_of = |column: &str, id| format!("(SELECT {column} FROM computers WHERE id = '{id}')");
    for (column, source) in [
        ("vnc_password", value_of("vnc_password", second)),
        ("agent_token", value_of("vnc_password", first)),
        ("agent_token", "'a token in plain text'".to_owned()),
    ] {
        let own = value_of(column, first);
        change(&older.file(), &format!("CREATE TABLE own AS SELECT {own} AS value")).await;
        change(&older.file(), &format!("UPDATE computers SET {column} = {source} WHERE id = '{first}'"))
            .await;
        let store = Store::open(&older.file()).await.expect("the store opens");
        let refused = store.all_computers().await.expect_err("a moved value");
        let text = format!("{refused:#}");
        assert!(text.contains(&format!("computers.{column} of {first}")), "{text}");
        assert_eq!(refused.message, "Internal server error", "a client learns nothing of it");
        store.close().await;
        change(
            &older.file(),
            &format!("UPDATE computers SET {column} = (SELECT value FROM own) WHERE id = '{first}'"),
        )
        .await;
        change(&older.file(), "DROP TABLE own").await;
    }
    older.check(&Store::open(&older.file()).await.expect("the store opens")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_or_wrong_key_file_is_named_with_the_remedy_and_never_replaced() {
    let older = OlderStore::new().await;
    Store::open(&older.file()).await.expect("sealed").close().await;
    let (file, right) = (older.key_file(), fs::read_to_string(older.key_file()).expect("the key file"));
    assert_eq!(fs::metadata(&file).expect("the key file").permissions().mode() & 0o777, 0o600);
    let refusal = async || Store::open(&older.file()).await.expect_err("refused").message;

    fs::remove_file(&file).expect("removed");
    let missing = refusal().await;
    assert!(missing.contains("hotdesk.key") && missing.contains("restore it from a backup"), "{missing}");
    assert!(!file.exists(), "a new key would make the secrets unreadable for ever");

    fs::write(&file, SealingKey::random().digits().reveal()).expect("written");
    assert!(refusal().await.contains("chmod 0600"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("private");
    let wrong = refusal().await;
    assert!(wrong.contains("does not hold the key") && wrong.contains("restore the key file"), "{wrong}");

    fs::write(&file, right).expect("written");
    older.check(&Store::open(&older.file()).await.expect("the right key")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_file_may_be_anywhere_and_a_new_database_uses_one_that_is_there() {
    let (data, mount) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (file, key_file) = (data.path().join("hotdesk.db"), mount.path().join("key"));
    let own = SealingKey::random();
    fs::write(&key_file, own.digits().reveal()).expect("written");
    fs::set_permissions(&key_file, fs::Permissions::from_mode(0o400)).expect("private");
    Store::open_with(&file, &key_file).await.expect("the store opens").close().await;
    assert_eq!(fs::read_to_string(&key_file).expect("the key file"), own.digits().reveal());
    assert!(!data.path().join("hotdesk.key").exists());
    assert!(Store::open(&file).await.is_err(), "the default key file is not the one");
}
