//! Isolation of computers: choice, change, and several in one controller (docs/concepts.md#isolation).

use hotdesk::domain::computer::isolation::Isolation;
use hotdesk::engine::{Capabilities, Offer, Offers};
use hotdesk::store::Store;
use reqwest::Method;
use serde_json::{Value, json};

use crate::crash::remains::Leftovers;
use crate::harness::agent::fetch_json;
use crate::harness::caller::{HttpAnswer, id_of};
use crate::harness::controller::{RunningController, gvisor, runsc};
use crate::harness::simulation::{Setup, Simulation};
use crate::suspension::agent::Agents;

/// A controller over an engine that offers `shared` (the default, without memory) and `sandbox`, and its workspace.
async fn several() -> (Simulation, String) {
    let offer = |isolation, capabilities| Offer { isolation, engine: "simulated", capabilities };
    let no_memory =
        Capabilities { suspend: false, memory_snapshot: false, evict: false, ..Capabilities::ALL };
    let offers = Offers::several(vec![
        offer(Isolation::Shared, no_memory),
        offer(Isolation::Sandbox, Capabilities::ALL),
    ]);
    let setup = Setup { offers: Some(offers.expect("two isolations")), ..Setup::default() };
    let controller = Simulation::boot_with_agent(Agents::new().factory(), setup).await;
    let workspace = controller.workspace("w").await;
    (controller, workspace)
}

async fn create(controller: &Simulation, workspace: &str, name: &str, isolation: &str) -> Value {
    let body = json!({"workspace_id": workspace, "name": name, "isolation": isolation});
    controller.create("/computers", body).await
}

fn expect_refused(answer: &HttpAnswer, status: u16, code: &str, part: &str) {
    assert_eq!((answer.status, &answer.body["code"]), (status, &json!(code)), "{}", answer.body);
    let message = answer.body["error"].as_str().unwrap_or_default();
    assert!(message.contains(part), "{}", answer.body);
}

fn isolation_on_host(controller: &Simulation, id: &str) -> Option<Isolation> {
    controller.host.isolation(id.parse().expect("an id"))
}

#[tokio::test]
async fn the_request_decides_then_the_workspace_then_the_configuration() {
    let (controller, workspace) = several().await;
    let health = fetch_json(controller.bare(Method::GET, "/health")).await;
    assert_eq!(health.body["isolations"], json!(["shared", "sandbox"]));
    let by_default = controller.computer(&workspace, "default").await;
    let chosen = create(&controller, &workspace, "chosen", "sandbox").await;
    assert_eq!(chosen["isolation"], "sandbox");
    let chosen = id_of(&chosen);
    let record = controller.get(&format!("/computers/{by_default}")).await.body;
    assert_eq!(
        (&record["isolation"], &record["auto_stop"]["keeps_memory"]),
        (&json!("shared"), &json!(false))
    );

    let path = format!("/workspaces/{workspace}");
    let changed = controller.patch(&path, json!({"isolation": "sandbox"})).await;
    assert_eq!((changed.status, &changed.body["isolation"]), (200, &json!("sandbox")), "{}", changed.body);
    let of_workspace = controller.computer(&workspace, "workspace").await;
    for (id, expected) in
        [(&by_default, Isolation::Shared), (&chosen, Isolation::Sandbox), (&of_workspace, Isolation::Sandbox)]
    {
        assert_eq!(isolation_on_host(&controller, id), Some(expected));
        let record = controller.get(&format!("/computers/{id}")).await.body;
        assert_eq!(record["isolation"], expected.name());
    }
    let removed = controller.patch(&path, json!({"isolation": ""})).await;
    assert_eq!((removed.status, &removed.body["isolation"]), (200, &Value::Null));

    let body = |isolation: &str| json!({"workspace_id": workspace, "name": "x", "isolation": isolation});
    let refused = controller.post("/computers", body("vm")).await;
    expect_refused(&refused, 400, "isolation_not_offered", "this host offers shared, sandbox");
    let refused = controller.post("/computers", body("docker")).await;
    assert!(
        refused.status == 400
            && refused.body["error"].as_str().expect("a text").contains("sandbox, shared, vm")
    );
    let refused = controller.patch(&path, json!({"isolation": "vm"})).await;
    expect_refused(&refused, 400, "isolation_not_offered", "this host offers shared, sandbox");
}

#[tokio::test]
async fn each_computer_has_the_abilities_of_its_isolation_also_after_a_restart() {
    let (mut controller, workspace) = several().await;
    let shared = controller.computer(&workspace, "one").await;
    let sandbox = id_of(&create(&controller, &workspace, "two", "sandbox").await);
    for _ in 0..2 {
        let refused = controller.post(&format!("/computers/{shared}/suspend"), json!({})).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (400, &json!("suspend_unsupported")),
            "{}",
            refused.body
        );
        let suspended = controller.post(&format!("/computers/{sandbox}/suspend"), json!({})).await;
        assert_eq!(suspended.status, 200, "{}", suspended.body);
        controller.restart().await;
        assert_eq!(controller.status(&shared).await, "running");
        assert_eq!(controller.status(&sandbox).await, "suspended");
        let resumed = controller.post(&format!("/computers/{sandbox}/resume"), json!({})).await;
        assert_eq!(resumed.status, 200, "{}", resumed.body);
    }
    assert_eq!(controller.machines().len(), 2);
    // Copies have the isolation of their source.
    for (verb, source, expected) in
        [("clone", &shared, "shared"), ("clone", &sandbox, "sandbox"), ("fork", &sandbox, "sandbox")]
    {
        let copy = controller.post(&format!("/computers/{source}/{verb}"), json!({})).await;
        assert!(copy.status < 300, "{}", copy.body);
        let list = controller.get("/computers").await.body;
        let newest = list["computers"].as_array().expect("a list").last().expect("the copy").clone();
        assert_eq!(newest["isolation"], expected, "{verb}");
        let on_host = isolation_on_host(&controller, newest["id"].as_str().expect("an id"));
        assert_eq!(on_host.map(Isolation::name), Some(expected), "{verb}");
    }
    let refused = controller.post(&format!("/computers/{shared}/fork"), json!({})).await;
    assert_eq!(refused.body["code"], "NOT_FORKABLE", "{}", refused.body);
}

#[tokio::test]
async fn a_stopped_computer_changes_its_isolation_at_its_next_start() {
    let (controller, workspace) = several().await;
    let id = controller.computer(&workspace, "desk").await;
    let path = format!("/computers/{id}");
    let change = |to: &str| controller.patch(&path, json!({"isolation": to}));
    expect_refused(&change("sandbox").await, 409, "not_stopped", "stop it first");
    assert_eq!(change("shared").await.status, 200, "it has that isolation");
    assert_eq!(controller.patch(&path, json!({})).await.status, 200, "nothing changes");
    expect_refused(&change("vm").await, 400, "isolation_not_offered", "shared, sandbox");

    controller.post(&format!("{path}/stop"), json!({})).await;
    controller.until_status(&id, "stopped").await;
    let changed = controller.patch(&path, json!({"isolation": "sandbox", "name": "box"})).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    assert_eq!((&changed.body["isolation"], &changed.body["name"]), (&json!("sandbox"), &json!("box")));
    assert_eq!(isolation_on_host(&controller, &id), Some(Isolation::Shared), "it has not started");
    controller.post(&format!("{path}/start"), json!({})).await;
    controller.until_status(&id, "running").await;
    assert_eq!(isolation_on_host(&controller, &id), Some(Isolation::Sandbox));

    // Memory of a snapshot can only be resumed by the isolation that saved it.
    let snapshot = controller.post(&format!("{path}/snapshots"), json!({"memory": true})).await;
    assert_eq!(snapshot.status, 201, "{}", snapshot.body);
    controller.post(&format!("{path}/stop"), json!({})).await;
    controller.until_status(&id, "stopped").await;
    expect_refused(&change("shared").await, 409, "isolation_fixed", "delete them first");
}

#[tokio::test]
async fn rows_of_earlier_versions_get_the_only_isolation_and_are_refused_beside_several() {
    let (controller, workspace) = several().await;
    let id = controller.computer(&workspace, "desk").await;
    controller.sql("UPDATE computers SET isolation = NULL").await;
    let store = Store::open(&controller.data_dir().join("hotdesk.db")).await.expect("a store");
    let refused = store.adopt_isolation(None).await.expect_err("nobody knows which one it had");
    assert!(refused.message.contains("1 computers of an earlier version"), "{}", refused.message);
    store.adopt_isolation(Some(Isolation::Shared)).await.expect("the only one");
    store.adopt_isolation(None).await.expect("each has one");
    store.close().await;
    assert_eq!(controller.get(&format!("/computers/{id}")).await.body["isolation"], "shared");
}

#[tokio::test]
async fn a_virtual_machine_stays_one() {
    let (mut controller, workspace) = several().await;
    let id = controller.computer(&workspace, "desk").await;
    controller.post(&format!("/computers/{id}/stop"), json!({})).await;
    controller.until_status(&id, "stopped").await;
    // The operator offers virtual machines no more.
    controller.sql("UPDATE computers SET isolation = 'vm'").await;
    controller.restart().await;
    let refused = controller.patch(&format!("/computers/{id}"), json!({"isolation": "sandbox"})).await;
    expect_refused(&refused, 409, "isolation_fixed", "copy the files");
    let refused = controller.post(&format!("/computers/{id}/start"), json!({})).await;
    expect_refused(
        &refused,
        400,
        "isolation_not_offered",
        "of the computer is vm, and this host offers shared",
    );
    assert_eq!(controller.status(&id).await, "stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn real_computers_of_two_isolations_beside_a_helper_are_adopted_by_the_next_controller() {
    if gvisor().is_none() {
        return;
    }
    let configuration = format!("[engines]\noffered = \"sandbox, shared\"\nrunsc = {:?}\n", runsc());
    let mut controller = RunningController::boot_beside_helper(&configuration).await;
    let workspace = controller.workspace("demo").await;
    let sandbox = id_of(&controller.computer(&workspace, "one").await);
    let body = json!({"workspace_id": workspace, "name": "two", "isolation": "shared"});
    let shared = id_of(&controller.create("/computers", body).await);
    let kernel = "cat /proc/version; cut -d' ' -f22 /proc/1/stat";
    let host = std::fs::read_to_string("/proc/version").expect("the host's kernel");
    let (of_sandbox, of_shared) =
        (controller.bash(&sandbox, kernel).await, controller.bash(&shared, kernel).await);
    assert!(of_shared.starts_with(&host) && !of_sandbox.starts_with(&host), "{of_shared}{of_sandbox}");
    assert_eq!(controller.post(&format!("/computers/{sandbox}/suspend"), json!({})).await.status, 200);

    controller.kill();
    controller.start_again().await;
    assert_eq!(controller.bash(&shared, kernel).await, of_shared, "it is the same boot");
    assert_eq!(controller.bash(&sandbox, kernel).await, of_sandbox, "it continues from its memory");

    // A stop and a start change the kernel; the files stay.
    controller.bash(&shared, "echo here > /root/note; sync").await;
    assert_eq!(controller.post(&format!("/computers/{shared}/stop"), json!({})).await.status, 200);
    controller.until_status(&shared, "stopped").await;
    let changed = controller.patch(&format!("/computers/{shared}"), json!({"isolation": "sandbox"})).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    assert_eq!(controller.post(&format!("/computers/{shared}/start"), json!({})).await.status, 200);
    controller.until_status(&shared, "running").await;
    assert_eq!(controller.bash(&shared, "cat /root/note").await.trim(), "here");
    assert!(!controller.bash(&shared, "cat /proc/version").await.starts_with(&host));
    for id in [&sandbox, &shared] {
        assert_eq!(controller.delete(&format!("/computers/{id}")).await.status, 200);
    }
    Leftovers::new(&controller).check_running(&[]).await;
}
