//! Keys and the log of what was done with them, from a shell.

use super::person::Person;
use crate::harness::simulation::Simulation;

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_made_used_and_deleted_and_the_log_tells() {
    let house = Simulation::boot().await;
    let home = house.workspace("home").await;
    let owner = Person::knowing(&house.base, house.key());
    let made = owner.runs(&["api-keys", "create", "--name", "ci", "--workspace", "Home"]).await.well();
    let key = made.lines().nth(1).expect("a line with the key").to_owned();
    assert!(made.starts_with("Made key ci (") && key.starts_with("sk_live_"), "{made}");
    let client = Person::knowing(&house.base, &key);
    client.runs(&["workspaces", "create", "other"]).await.badly(1, &["cannot create workspaces", "request"]);
    client.runs(&["api-keys", "create", "--name", "wide"]).await.badly(1, &["account-wide keys"]);

    let listed = owner.runs(&["api-keys", "list"]).await.well();
    assert!(
        listed.contains("all workspaces") && !listed.contains(&home) && !listed.contains(&key),
        "{listed}"
    );
    let of_one = listed.lines().find(|line| line.starts_with("ci ")).expect("its line");
    assert!(of_one.contains(" home "), "{listed}");
    let listed = owner.runs(&["api-keys", "list", "--workspace", "home", "--json"]).await.json();
    assert_eq!(listed["keys"].as_array().map(Vec::len), Some(1), "{listed}");
    let id = listed["keys"][0]["id"].as_str().expect("an id").to_owned();
    let log = owner.runs(&["audit", "--key", &id]).await.well();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    assert!(lines[0].starts_with("TIME"), "{log}");
    assert!(
        lines[2].contains("POST /workspaces") && lines[2].contains("refused (403 workspace_scope_mismatch)")
    );
    assert!(lines[2].contains("ci") && lines[2].contains("127.0.0.1"), "{log}");
    let page = owner.runs(&["audit", "--limit", "1", "--workspace", "home"]).await.well();
    assert!(page.lines().last().expect("a line").starts_with("More: --cursor "), "{page}");

    assert_eq!(owner.runs(&["api-keys", "delete", &id]).await.well(), format!("Deleted key {id}.\n"));
    client.runs(&["workspaces", "list"]).await.badly(1, &["Invalid API key"]);
    owner.runs(&["api-keys", "delete", &id]).await.badly(1, &["Key not found"]);
}
