//! Operator commands: clients, their usage, and capacity.

use hotdesk::controller::config::{Config, PlanSettings};
use serde_json::json;

use super::person::Shell;
use crate::harness::simulation::Simulation;

#[tokio::test(flavor = "multi_thread")]
async fn clients_and_capacity_from_a_shell() {
    let basic = PlanSettings { max_added_computers: Some(2), ..PlanSettings::default() };
    let plans = [("basic".to_owned(), basic)].into();
    let controller = Simulation::boot_configured(Config { plans, ..Config::default() }).await;
    let shell = Shell::with_key(&controller.base, controller.key());
    let created = shell.run(&["clients", "create", "acme", "--max-computers", "1", "--json"]).await.json();
    let key = created["key"].as_str().expect("a key");
    let printed = shell
        .run(&["clients", "create", "beta", "--name", "Beta", "--billed-to", "client"])
        .await
        .expect_success();
    assert!(printed.contains("Its key (shown once): sk_live_"), "{printed}");
    let client = Shell::with_key(&controller.base, key);
    let workspace = created["workspace_id"].as_str().expect("an id");
    client.run(&["computers", "create", "desk", "--workspace", workspace]).await.expect_success();
    client
        .run(&["computers", "create", "more", "--workspace", workspace])
        .await
        .expect_failure(1, &["may have 1"]);
    client.run(&["clients", "list"]).await.expect_failure(1, &["scoped"]);
    let listed = shell.run(&["clients", "list"]).await.expect_success();
    assert!(listed.contains("acme") && listed.contains("1 of 1") && listed.contains("Beta"), "{listed}");
    assert!(!listed.contains(key), "{listed}");
    let csv = shell.run(&["clients", "usage", "acme", "--csv"]).await.expect_success();
    assert_eq!(csv.lines().count(), 3, "{csv}");
    let output = shell.run(&["clients", "usage", "acme"]).await.expect_success();
    assert!(output.contains("AI models in") && output.contains("all"), "{output}");
    shell
        .run(&["clients", "delete", "acme"])
        .await
        .expect_failure(1, &["still holds 1 computer:", "--computers"]);
    shell.run(&["clients", "delete", "acme", "--computers"]).await.expect_success();
    client.run(&["computers", "list"]).await.expect_failure(1, &["API key"]);

    shell.run(&["capacity", "--add", "1"]).await.expect_failure(1, &["takes 0 added computers"]);
    controller.sql("UPDATE accounts SET plan = 'basic'").await;
    let plan = shell.run(&["capacity", "--add", "2", "--dry-run"]).await.expect_success();
    assert!(plan.contains("0 of 52 computers, 2 of them would be added"), "{plan}");
    shell.run(&["capacity", "--add", "2"]).await.expect_success();
    let output = shell.run(&["capacity", "--give-back", "1", "--json"]).await.json();
    assert_eq!((&output["max_computers"], &output["added_computers"]), (&json!(51), &json!(1)));
    let output = shell.run(&["capacity"]).await.expect_success();
    assert!(output.starts_with("Plan basic: 0 of 51 computers, 1 of them added;"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_from_a_shell() {
    let controller = Simulation::boot().await;
    controller.host.set_hosts(&["m1", "m2"]);
    let workspace = controller.workspace("w").await;
    let id = controller.computer(&workspace, "desk").await;
    let shell = Shell::with_key(&controller.base, controller.key());
    let listed = shell.run(&["hosts", "list"]).await.expect_success();
    for part in ["m1", "m2", "online", "1 (1 running)", "64 of 64 GB", "ready"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert_eq!(shell.run(&["hosts", "list", "--quiet"]).await.expect_success(), "m1\nm2\n");
    let moved = shell.run(&["hosts", "move", "desk", "m2"]).await.expect_success();
    assert_eq!(moved, "desk is running on m2.\n");
    let moved = shell.run(&["hosts", "move", &id, "--json"]).await.json();
    assert_eq!((&moved["host"], &moved["moving"]), (&json!("m1"), &json!(false)));
    shell.run(&["hosts", "move", "desk", "m9"]).await.expect_failure(1, &["Host not found"]);
    let drained = shell.run(&["hosts", "drain", "m2"]).await.expect_success();
    assert!(drained.starts_with("Host m2 is drain") && drained.contains("0 computers left"), "{drained}");
    shell.run(&["hosts", "drain", "m1"]).await.expect_failure(1, &["no other host takes computers"]);
    let restored = shell.run(&["hosts", "restore", "m2"]).await.expect_success();
    assert_eq!(restored, "Host m2 is online.\n");
}
