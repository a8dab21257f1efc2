//! Throw-away computers of templates: launch, bounds and end (docs/api/templates.md#try-a-template).

use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::json;

use crate::access::cast::add_key;
use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::simulation::Simulation;
use crate::plans;

const DESKTOP: &str = "system/desktop@1.0.0";
/// Time for a round of removals after a start.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(20);

async fn run(controller: &Simulation, key: &str, reference: &str) -> HttpAnswer {
    let request = controller.request_with(key, Method::POST, "/templates/run");
    fetch_json(request.json(&json!({"ref": reference}))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_an_ordinary_computer_until_it_is_stopped() {
    let controller = Simulation::boot().await;
    let key = controller.key().to_owned();
    let first = run(&controller, &key, DESKTOP).await;
    assert_eq!((first.status, &first.body["status"]), (200, &json!("running")), "{}", first.body);
    let id = first.body["id"].as_str().expect("an id").to_owned();
    let record = controller.get(&format!("/computers/{id}")).await.body;
    assert_eq!(first.body["desktop_id"], record["id"]);
    for (own, of_record) in [
        ("vnc_password", "vnc_password"),
        ("public_host", "hostname"),
        ("resolution", "resolution"),
        ("expires_at", "expires_at"),
    ] {
        assert!(record[of_record].is_string(), "{of_record}: {record}");
        assert_eq!(first.body[own], record[of_record], "{own}");
    }
    assert_eq!(record["project_name"], "template-runs", "{record}");
    let second = run(&controller, &key, DESKTOP).await;
    assert_eq!(second.status, 200, "{}", second.body);
    let workspaces = controller.get("/workspaces").await.body;
    assert_eq!(workspaces["workspaces"].as_array().map(Vec::len), Some(1), "{workspaces}");

    let stopped = controller.delete(&format!("/templates/run?id={id}")).await;
    assert_eq!((stopped.status, &stopped.body["success"]), (200, &json!(true)), "{}", stopped.body);
    assert_eq!(controller.get(&format!("/computers/{id}")).await.status, 404);
    assert_eq!(controller.delete(&format!("/templates/run?id={id}")).await.status, 404);
    // A computer that stays is none of these.
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    assert!(controller.get(&format!("/computers/{desk}")).await.body["expires_at"].is_null());
    let refused = controller.delete(&format!("/templates/run?id={desk}")).await;
    let error = refused.body["error"].as_str().unwrap_or_default();
    assert!(refused.status == 404 && error.contains("DELETE /computers/"), "{}", refused.body);
    assert_eq!(controller.status(&desk).await, "running");
    // A key of one workspace runs in it.
    let store = controller.store().await;
    let operator = store.operator_account().await.expect("the operator");
    let scoped = add_key(&store, operator, Some(&home)).await;
    let own = run(&controller, &scoped, DESKTOP).await;
    assert_eq!(own.status, 200, "{}", own.body);
    let path = format!("/computers/{}", own.body["id"].as_str().expect("an id"));
    assert_eq!(controller.get(&path).await.body["workspace_id"], home.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_deletes_a_run_at_its_time_also_after_a_restart() {
    let mut controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    let key = controller.key().to_owned();
    let mut runs = Vec::new();
    for _ in 0..2 {
        let made = run(&controller, &key, DESKTOP).await;
        runs.push(made.body["id"].as_str().expect("an id").to_owned());
    }
    controller.sql(&format!("UPDATE computers SET expires_at = 1 WHERE id = '{}'", runs[0])).await;
    controller.kill().await;
    let gone = wait::until(REMOVAL_TIMEOUT, || async {
        (controller.get(&format!("/computers/{}", runs[0])).await.status == 404).then_some(())
    });
    assert!(gone.await.is_some(), "the run must end at its time");
    // The other one has its time before it, and a clone of it stays.
    assert_eq!(controller.status(&runs[1]).await, "running");
    assert_eq!(controller.status(&desk).await, "running");
    let clone = controller.post(&format!("/computers/{}/clone", runs[1]), json!({})).await;
    assert_eq!(clone.status, 201, "{}", clone.body);
    assert!(clone.body["expires_at"].is_null(), "{}", clone.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_refused_by_the_plan_and_without_a_build() {
    let config = plans::config();
    let controller = Simulation::boot_configured(config.clone()).await;
    let (account, key) = controller.account("small@localhost").await;
    plans::give_plan(&controller, &config, account, "small").await;
    for _ in 0..2 {
        let made = run(&controller, &key, DESKTOP).await;
        assert_eq!(made.status, 200, "{}", made.body);
    }
    let refused = run(&controller, &key, DESKTOP).await;
    assert_eq!(
        (refused.status, &refused.body["code"], &refused.body["retry_after"]),
        (429, &json!("VM_SLOT_ADDON"), &json!(60)),
        "{}",
        refused.body
    );

    let key = controller.key().to_owned();
    let document = "api_version: hotdesk/v1\nname: lab@1.0.0\n";
    let published =
        fetch_json(controller.request(Method::POST, "/templates").body(document.to_owned())).await;
    assert_eq!(published.status, 201, "{}", published.body);
    for (reference, status, code) in [
        ("default/lab@1.0.0", 409, json!("TEMPLATE_NOT_READY")),
        ("default/none@1.0.0", 404, json!(null)),
        ("lab", 400, json!(null)),
    ] {
        let refused = run(&controller, &key, reference).await;
        assert_eq!((refused.status, &refused.body["code"]), (status, &code), "{}", refused.body);
    }
    assert_eq!(controller.machines().len(), 2, "nothing of the refused ones stays");
}
