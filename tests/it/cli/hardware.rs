//! Commands `computers clone`, `fork`, `resize` and `move`, and `snapshots`: effects and output.

use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::engine::{EngineError, Shortage};
use serde_json::json;

use super::person::Shell;
use crate::harness::simulation::Simulation;

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_is_cloned_resized_and_moved() {
    let controller = Simulation::boot().await;
    let (demo, other) = (controller.workspace("demo").await, controller.workspace("other").await);
    let computer = controller.computer(&demo, "desk").await;
    let shell = Shell::with_key(&controller.base, controller.key());
    let output = shell.run(&["computers", "clone", "desk"]).await.expect_success();
    assert!(output.starts_with("desk (clone) is running ("), "{output}");
    let clone = ["computers", "clone", "desk", "copy", "--workspace", "other", "--json"];
    let created = shell.run(&clone).await.json();
    assert_eq!((&created["name"], &created["workspace_id"]), (&json!("copy"), &json!(other)));
    shell.run(&["computers", "clone", "desk", "DESK"]).await.expect_failure(1, &["NAME_TAKEN"]);

    let output =
        shell.run(&["computers", "resize", "desk", "--cpu", "2", "--disk", "20"]).await.expect_success();
    assert_eq!(output, "desk has 2 vCPU, 4 GB, 20 GB disk.\n");
    let call = controller.engine.calls(Verb::Resize) + 1;
    let failure = Failure::Before(EngineError::NoCapacity(Shortage::DiskSpace, "full".to_owned()));
    controller.engine.plan(Fault { verb: Verb::Resize, call, failure });
    let output =
        shell.run(&["computers", "resize", "desk", "--ram", "8", "--disk", "30"]).await.expect_success();
    let expected = "mem_mb stays 4096: The host has no room for it.\ndesk has 2 vCPU, 4 GB, 30 GB disk.\n";
    assert_eq!(output, expected);
    shell.run(&["computers", "resize", "desk", "--ram", "5"]).await.expect_failure(1, &["mem_gb"]);
    shell.run(&["computers", "resize", "desk"]).await.expect_failure(2, &["--cpu"]);

    let output = shell.run(&["computers", "move", "desk", "other"]).await.expect_success();
    assert_eq!(output, "Moved desk to other.\n");
    assert_eq!(controller.get(&format!("/computers/{computer}")).await.body["workspace_id"], other);
    shell.run(&["computers", "move", "desk", "other"]).await.expect_failure(1, &["already"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_egress_policy_of_a_computer_is_given_shown_replaced_and_removed() {
    let controller = Simulation::boot().await;
    controller.workspace("demo").await;
    let shell = Shell::with_key(&controller.base, controller.key());
    let create =
        ["computers", "create", "desk", "--workspace", "demo", "--allow", "Example.com,*.b.test,10.0.0.1"];
    shell.run(&create).await.expect_success();
    for (arguments, text) in [
        (&[][..], "desk reaches only example.com, *.b.test, 10.0.0.1.\n"),
        (&["--block", "a.test"], "desk reaches all public destinations but a.test.\n"),
        (&[], "desk reaches all public destinations but a.test.\n"),
        (&["--allow", ""], "desk reaches nothing.\n"),
        (&["--off"], "desk has no egress policy.\n"),
        (&[], "desk has no egress policy.\n"),
    ] {
        let command = [&["computers", "egress", "desk"], arguments].concat();
        assert_eq!(shell.run(&command).await.expect_success(), text, "{arguments:?}");
    }
    let json = shell.run(&["computers", "egress", "desk", "--allow", "a.test", "--json"]).await.json();
    assert_eq!(json, json!({"egress_policy": {"mode": "allow", "rules": ["a.test"]}}));
    shell.run(&["computers", "egress", "desk", "--allow", "a b"]).await.expect_failure(1, &["domain"]);
    for wrong in [&["--allow", "a.test", "--block", "b.test"][..], &["--off", "--allow", "a.test"]] {
        let command = [&["computers", "egress", "desk"], wrong].concat();
        shell.run(&command).await.expect_failure(2, &["cannot be used with"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_is_forked_kept_and_rolled_back() {
    let controller = Simulation::boot().await;
    let demo = controller.workspace("demo").await;
    let computer = controller.computer(&demo, "desk").await;
    let shell = Shell::with_key(&controller.base, controller.key());
    let output = shell.run(&["computers", "fork", "desk"]).await.expect_success();
    assert!(output.starts_with("desk (fork) is running ("), "{output}");

    let output = shell.run(&["snapshots", "list", "desk"]).await.expect_success();
    assert_eq!(output, "desk has no snapshots.\n");
    let note = controller.disk(&computer).join("note");
    std::fs::write(&note, "kept").expect("a file");
    let output = shell.run(&["snapshots", "create", "desk", "before"]).await.expect_success();
    assert!(output.starts_with("Snapshot ") && output.ends_with(" is ready.\n"), "{output}");
    let create = ["snapshot", "create", "desk", "--memory", "--json"];
    let with_memory = shell.run(&create).await.json();
    assert_eq!((&with_memory["memory"], &with_memory["name"]), (&json!(true), &json!(null)));
    let output = shell.run(&["snapshots", "list", "desk"]).await.expect_success();
    assert!(output.contains("before") && output.contains("disk, memory"), "{output}");

    std::fs::write(&note, "changed").expect("a file");
    let output = shell.run(&["snapshots", "rollback", "desk", "BEFORE"]).await.expect_success();
    assert_eq!(output, "desk is rolled back to BEFORE and is running.\n");
    assert_eq!(std::fs::read_to_string(&note).expect("the note is restored"), "kept");
    assert_eq!(
        shell.run(&["snapshots", "delete", "desk", "before"]).await.expect_success(),
        "Deleted snapshot before.\n"
    );
    shell
        .run(&["snapshots", "rollback", "desk", "before"])
        .await
        .expect_failure(1, &["there is no snapshot"]);
    let id = with_memory["id"].as_str().expect("an id");
    shell.run(&["snapshots", "rollback", "desk", id]).await.expect_success();
    let launch = ["computers", "fork", "desk", "two", "--snapshot", id, "--json"];
    let launched = shell.run(&launch).await.json();
    assert_eq!((&launched["name"], &launched["status"]), (&json!("two"), &json!("running")));
    shell
        .run(&["computers", "fork", "desk", "-s", "before"])
        .await
        .expect_failure(1, &["there is no snapshot"]);
    shell.run(&["snapshots", "create", "nobody"]).await.expect_failure(1, &["there is no computer"]);
}
