//! Commands for secrets: values come from standard input or a file, and are never shown.

use axum::routing::put;
use axum::{Json, Router};
use hotdesk::domain::secret::{MAX_VALUE, SecretName};
use hotdesk::store::secrets::UsableSecrets;
use serde_json::json;

use super::person::Shell;
use crate::harness::simulation::Simulation;

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_set_from_input_or_a_file_listed_synced_and_deleted() {
    let agent = Router::new().route("/secrets", put(async || Json(json!({"path": "/root/.env"}))));
    let controller = Simulation::boot_with(agent).await;
    let home = controller.workspace("home").await;
    controller.computer(&home, "desk").await;
    let shell = Shell::with_key(&controller.base, controller.key());
    let empty = shell.run(&["secrets", "ls"]).await.expect_success();
    assert!(empty.contains("There are no secrets"), "{empty}");

    let set = ["secrets", "set", "API_KEY"];
    let stored = shell.run_with_input(&set, "hunter2\n").await.expect_success();
    assert_eq!(stored, "Stored secret API_KEY.\n");
    std::fs::write(shell.file("key.pem"), "two\nlines\n").expect("a file");
    let from_file = ["secrets", "set", "KEY_FILE", "--workspace", "home", "--file", "key.pem"];
    shell.run(&from_file).await.expect_success();
    shell.run(&["secrets", "set", "API_KEY", "hunter2"]).await.expect_failure(2, &["unexpected argument"]);
    shell.run(&["secrets", "set", "KEY_FILE", "--file", "none"]).await.expect_failure(1, &["none"]);
    shell.run_with_input(&["secrets", "set", "api_key"], "x").await.expect_failure(1, &["capital letters"]);
    let long = "x".repeat(MAX_VALUE + 1);
    shell.run_with_input(&set, &long).await.expect_failure(1, &["65536 bytes"]);

    let store = controller.store().await;
    let account = store.operator_account().await.expect("the operator");
    let usable = UsableSecrets { workspace: home.parse().expect("an id"), account: Some(account) };
    for (name, value) in [("API_KEY", "hunter2"), ("KEY_FILE", "two\nlines\n")] {
        let found = store.usable_secret(usable, &SecretName::parse(name).expect("a name")).await;
        assert!(found.expect("the store").is_some_and(|found| found.matches(value)), "{name}");
    }
    let listed = shell.run(&["secrets", "ls"]).await.expect_success();
    assert!(listed.contains("API_KEY") && !listed.contains("KEY_FILE") && !listed.contains("hunter2"));
    let listed = shell.run(&["secrets", "list", "--workspace", "home", "--json"]).await.json();
    assert_eq!(listed["secrets"][0]["name"], "KEY_FILE");

    let synced = shell.run(&["secrets", "sync", "desk"]).await.expect_success();
    assert_eq!(synced, "desk has 2 secrets in /root/.env.\n");
    let synced = shell.run(&["secrets", "sync", "desk", "KEY_FILE"]).await.expect_success();
    assert_eq!(synced, "desk has 1 secret in /root/.env.\n");
    shell.run(&["secrets", "sync", "desk", "NONE"]).await.expect_failure(1, &["no secret NONE"]);

    let removed = shell.run(&["secrets", "rm", "KEY_FILE", "--workspace", "home"]).await.expect_success();
    assert_eq!(removed, "Deleted secret KEY_FILE.\n");
    shell.run(&["secrets", "rm", "KEY_FILE"]).await.expect_failure(1, &["no secret KEY_FILE"]);
}
