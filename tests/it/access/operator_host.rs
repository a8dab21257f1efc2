//! Report of the host: contents, reuse, and that only the operator reads it (docs/api/accounts.md#host).

use hotdesk::base::ids::ComputerId;
use hotdesk::domain::identity::access::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::fetch_json;
use crate::harness::browser::{Browser, person};
use crate::harness::simulation::Simulation;

const PATH: &str = "/operator/host";

/// The checks of a report by name and state.
fn states(report: &Value) -> Vec<(&str, &str)> {
    let checks = report["checks"].as_array().expect("a list").iter();
    checks
        .map(|check| {
            let state = check["state"].as_str().expect("a state");
            assert_eq!(check["remedy"].is_null(), state == "ok", "{check}");
            (check["name"].as_str().expect("a name"), state)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_has_resources_engines_capacity_checks_and_leftovers() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let (desk, _second) =
        (controller.computer(&home, "desk").await, controller.computer(&home, "second").await);
    assert_eq!(controller.post(&format!("/computers/{desk}/stop"), json!({})).await.status, 200);
    controller.until_status(&desk, "stopped").await;
    let left = ComputerId::random().to_string();
    std::fs::create_dir_all(controller.disk(&left)).expect("a machine that no row has");

    let answer = controller.get(PATH).await;
    let report = &answer.body;
    assert_eq!(answer.status, 200, "{report}");
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64).expect("a number");
    for part in ["cores", "memory_bytes", "memory_available_bytes", "disk_bytes"] {
        assert!(number(&format!("/resources/{part}")) > 0.0, "{part}: {report}");
    }
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    let engine = &report["engines"][0];
    assert_eq!((&engine["isolation"], &engine["engine"]), (&json!("sandbox"), &json!("simulated")));
    assert_eq!(
        (&engine["abilities"]["suspend"], &engine["abilities"]["encrypt"]),
        (&json!(true), &json!(false))
    );

    let capacity = &report["capacity"];
    assert_eq!((&capacity["computers"], &capacity["running"]), (&json!(2), &json!(1)), "{capacity}");
    // The disks of both count, and the memory of the one that runs.
    let record = controller.get(&format!("/computers/{desk}")).await.body;
    let gigabytes = |field: &str| record[field].as_f64().expect("a size") * f64::from(1 << 30);
    assert_eq!(number("/capacity/memory_promised_bytes"), gigabytes("ram"));
    assert_eq!(number("/capacity/disk_promised_bytes"), 2.0 * gigabytes("disk_size_gb"));

    assert_eq!(states(report), [("simulated machines", "ok")]);
    assert_eq!(report["checks_left_out"], json!(["simulated disk"]));
    // Machines of computers are not among them, whether they run or not.
    let found = report["leftovers"].as_array().expect("a list");
    assert_eq!((found.len(), &report["leftovers_total"]), (1, &json!(1)), "{report}");
    assert!(found[0]["location"].as_str().is_some_and(|place| place.contains(&left)), "{report}");
    assert_eq!((&found[0]["kind"], &report["leftovers_error"]), (&json!("machine"), &Value::Null));

    // The report has no key, token or password.
    let password = record["vnc_password"].as_str().expect("a password");
    let text = report.to_string();
    assert!(!text.contains(password) && !text.contains(controller.key()), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_report_serves_all_who_ask_within_seconds_and_a_thorough_one_runs_every_check() {
    let controller = Simulation::boot().await;
    let (one, other) = tokio::join!(controller.get(PATH), controller.get(PATH));
    assert_eq!((one.status, other.status), (200, 200), "{}", one.body);
    // The folder of machines appears with the first one.
    assert_eq!(states(&one.body), [("simulated machines", "warning")]);
    assert_eq!(one.body["measured_at"], other.body["measured_at"], "they share one report");
    let thorough = controller.get(&format!("{PATH}?thorough=true")).await.body;
    assert_eq!(states(&thorough), [("simulated machines", "warning"), ("simulated disk", "warning")]);
    assert_eq!(thorough["checks_left_out"], json!([]));
    assert_eq!(controller.get(&format!("{PATH}?thorough=maybe")).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_only_the_operator_reads_the_report() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let store = controller.store().await;
    let operator = store.operator_account().await.expect("the operator");
    let (stranger, strangers) = controller.account("stranger@localhost").await;
    // Not even an admin of a workspace of the operator.
    store.set_member(home.parse().expect("an id"), stranger, Role::Admin).await.expect("a member");
    person(&store, "ada@x.example").await;
    let token = Browser::signed_in(&controller.base, "ada@x.example").await.console_token().await;
    let scoped = controller.key_of(operator, Some(&home)).await;
    let all_of_operator = controller.key_of(operator, None).await;
    for (credential, status, code) in [
        (strangers.as_str(), 403, json!("ACCESS_DENIED")),
        (token.as_str(), 403, json!("ACCESS_DENIED")),
        (scoped.as_str(), 403, json!("workspace_scope_mismatch")),
        (all_of_operator.as_str(), 200, Value::Null),
    ] {
        for path in [PATH.to_owned(), format!("{PATH}?thorough=true")] {
            let answer = fetch_json(controller.request_with(credential, Method::GET, &path)).await;
            assert_eq!((answer.status, &answer.body["code"]), (status, &code), "{path}: {}", answer.body);
            assert_eq!(answer.body["resources"].is_object(), status == 200, "{path}: {}", answer.body);
        }
    }
}
