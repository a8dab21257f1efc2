//! Commands for API keys and the audit log.

use super::person::Shell;
use crate::harness::simulation::Simulation;

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_made_used_and_deleted_and_the_log_tells() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let owner = Shell::with_key(&controller.base, controller.key());
    let created =
        owner.run(&["api-keys", "create", "--name", "ci", "--workspace", "Home"]).await.expect_success();
    let key = created.lines().nth(1).expect("a line with the key").to_owned();
    assert!(created.starts_with("Created key ci (") && key.starts_with("sk_live_"), "{created}");
    let client = Shell::with_key(&controller.base, &key);
    client
        .run(&["workspaces", "create", "other"])
        .await
        .expect_failure(1, &["cannot create workspaces", "request"]);
    client.run(&["api-keys", "create", "--name", "wide"]).await.expect_failure(1, &["account-wide keys"]);

    let listed = owner.run(&["api-keys", "list"]).await.expect_success();
    assert!(
        listed.contains("all workspaces") && !listed.contains(&home) && !listed.contains(&key),
        "{listed}"
    );
    let of_one = listed.lines().find(|line| line.starts_with("ci ")).expect("a line of the output");
    assert!(of_one.contains(" home "), "{listed}");
    let listed = owner.run(&["api-keys", "list", "--workspace", "home", "--json"]).await.json();
    assert_eq!(listed["keys"].as_array().map(Vec::len), Some(1), "{listed}");
    let id = listed["keys"][0]["id"].as_str().expect("an id").to_owned();
    let log = owner.run(&["audit", "--key", &id]).await.expect_success();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    assert!(lines[0].starts_with("TIME"), "{log}");
    assert!(
        lines[2].contains("POST /workspaces") && lines[2].contains("refused (403 workspace_scope_mismatch)")
    );
    assert!(lines[2].contains("ci") && lines[2].contains("127.0.0.1"), "{log}");
    let page = owner.run(&["audit", "--limit", "1", "--workspace", "home"]).await.expect_success();
    assert!(page.lines().last().expect("a line").starts_with("More: --cursor "), "{page}");

    assert_eq!(
        owner.run(&["api-keys", "delete", &id]).await.expect_success(),
        format!("Deleted key {id}.\n")
    );
    client.run(&["workspaces", "list"]).await.expect_failure(1, &["Invalid API key"]);
    owner.run(&["api-keys", "delete", &id]).await.expect_failure(1, &["Key not found"]);
}
