//! Egress policies of computers in the API, the store and the engine's calls (docs/egress.md). What they do to packets is in
//! `engines/egress.rs`.

use hotdesk::controller::config::{Config, PoolSettings, PoolSizeSettings};
use hotdesk::engine::EngineError;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::fetch_json;
use crate::harness::caller::{HttpAnswer, id_of};
use crate::harness::simulation::{Setup, Simulation};
use crate::suspension::agent::Agents;

fn policy(mode: &str, rules: &[&str]) -> Value {
    json!({"mode": mode, "rules": rules})
}

async fn put(controller: &Simulation, id: &str, body: Value) -> HttpAnswer {
    let request = controller.request(Method::PUT, &format!("/computers/{id}/egress-policy"));
    fetch_json(request.json(&body)).await
}

async fn set(controller: &Simulation, id: &str, policy: &Value) -> HttpAnswer {
    put(controller, id, json!({"egress_policy": policy})).await
}

async fn get(controller: &Simulation, id: &str) -> Value {
    let answer = controller.get(&format!("/computers/{id}/egress-policy")).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body["egress_policy"].clone()
}

/// The text of the policy that the machine has.
fn on_host(controller: &Simulation, id: &str) -> Option<String> {
    controller.size(id).egress.map(|policy| policy.to_string())
}

#[tokio::test]
async fn a_policy_is_set_at_the_create_and_changed_while_the_computer_runs() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let plain = controller.computer(&workspace, "plain").await;
    assert_eq!((get(&controller, &plain).await, on_host(&controller, &plain)), (Value::Null, None));

    let body = json!({"workspace_id": workspace, "name": "desk",
        "egress_policy": policy("allow", &["Example.COM", "10.1.2.3/8", "example.com"])});
    let id = id_of(&controller.create("/computers", body).await);
    assert_eq!(get(&controller, &id).await, policy("allow", &["example.com", "10.0.0.0/8"]));
    assert_eq!(on_host(&controller, &id).as_deref(), Some("allow example.com 10.0.0.0/8"));

    let changed = set(&controller, &id, &policy("block", &["*.a.test", "192.0.2.1"])).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    assert_eq!(changed.body["egress_policy"], policy("block", &["*.a.test", "192.0.2.1"]));
    assert_eq!(on_host(&controller, &id).as_deref(), Some("block *.a.test 192.0.2.1"));
    let removed = set(&controller, &id, &Value::Null).await;
    assert_eq!((removed.status, &removed.body["egress_policy"]), (200, &Value::Null));
    assert_eq!((get(&controller, &id).await, on_host(&controller, &id)), (Value::Null, None));

    // Rules may be left out: nothing is reached.
    assert_eq!(set(&controller, &id, &json!({"mode": "allow"})).await.status, 200);
    assert_eq!(on_host(&controller, &id).as_deref(), Some("allow"));
}

#[tokio::test]
async fn a_wrong_policy_is_refused_and_changes_nothing() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let id = controller.computer(&workspace, "desk").await;
    let kept = policy("allow", &["example.com"]);
    assert_eq!(set(&controller, &id, &kept).await.status, 200);
    let many: Vec<String> = (0..257).map(|number| format!("n{number}.test")).collect();
    for (wrong, part) in [
        (policy("deny", &[]), "allow or block"),
        (policy("allow", &["https://example.com/"]), "domain"),
        (policy("allow", &["10.0.0.0/33"]), "domain"),
        (json!({"mode": "allow", "rules": many}), "256"),
        (json!({"mode": "allow", "rules": ["a.test"], "ports": [443]}), "ports"),
        (json!({"rules": ["a.test"]}), "mode"),
        (json!("allow"), ""),
    ] {
        let refused = set(&controller, &id, &wrong).await;
        let error = refused.body["error"].as_str().unwrap_or_default();
        assert!(refused.status == 400 && error.contains(part), "{wrong}: {}", refused.body);
        let body = json!({"workspace_id": workspace, "name": "other", "egress_policy": wrong});
        assert_eq!(controller.post("/computers", body).await.status, 400, "{wrong}");
    }
    // A request without the field does not remove the policy.
    assert_eq!(put(&controller, &id, json!({})).await.status, 400);
    assert_eq!(get(&controller, &id).await, kept);
}

#[tokio::test]
async fn a_policy_survives_restarts_stops_and_copies() {
    let mut controller = Simulation::boot_with_agent(Agents::new().factory(), Setup::default()).await;
    let workspace = controller.workspace("w").await;
    let id = controller.computer(&workspace, "desk").await;
    let first = policy("allow", &["example.com"]);
    assert_eq!(set(&controller, &id, &first).await.status, 200);
    let snapshot = controller.post(&format!("/computers/{id}/snapshots"), json!({"memory": true})).await;
    assert!(snapshot.status < 300, "{}", snapshot.body);
    let snapshot = id_of(&snapshot.body);

    let text = Some("allow example.com");
    controller.restart().await;
    assert_eq!((get(&controller, &id).await, on_host(&controller, &id).as_deref()), (first.clone(), text));
    for (verb, status) in
        [("stop", "stopped"), ("start", "running"), ("suspend", "suspended"), ("resume", "running")]
    {
        let answer = controller.post(&format!("/computers/{id}/{verb}"), json!({})).await;
        assert!(answer.status < 300, "{verb}: {}", answer.body);
        controller.until_status(&id, status).await;
        assert_eq!(get(&controller, &id).await, first, "{verb}");
    }
    assert_eq!(on_host(&controller, &id).as_deref(), text);
    for (verb, body) in
        [("clone", json!({})), ("fork", json!({})), ("fork", json!({"snapshot_id": snapshot}))]
    {
        let copy = controller.post(&format!("/computers/{id}/{verb}"), body.clone()).await;
        assert!(copy.status < 300, "{verb}: {}", copy.body);
        let copy = id_of(&copy.body);
        assert_eq!(get(&controller, &copy).await, first, "{verb} {body}");
        assert_eq!(on_host(&controller, &copy).as_deref(), text, "{verb} {body}");
    }

    // While it is stopped or suspended, a change waits for the boot; a rollback leaves the present policy.
    for (down, up) in [("stop", "start"), ("suspend", "resume")] {
        controller.post(&format!("/computers/{id}/{down}"), json!({})).await;
        controller.until_status(&id, if down == "stop" { "stopped" } else { "suspended" }).await;
        let second = policy("block", &[&format!("{down}.test")]);
        assert_eq!(set(&controller, &id, &second).await.status, 200);
        controller.post(&format!("/computers/{id}/{up}"), json!({})).await;
        controller.until_status(&id, "running").await;
        assert_eq!(on_host(&controller, &id), Some(format!("block {down}.test")), "{up}");
    }
    let rolled =
        controller.post(&format!("/computers/{id}/rollback"), json!({"snapshot_id": snapshot})).await;
    assert!(rolled.status < 300, "{}", rolled.body);
    controller.until_status(&id, "running").await;
    assert_eq!(on_host(&controller, &id).as_deref(), Some("block suspend.test"));
}

#[tokio::test]
async fn a_change_that_fails_or_is_interrupted_leaves_what_the_api_says() {
    let mut controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let id = controller.computer(&workspace, "desk").await;
    let first = policy("allow", &["example.com"]);
    assert_eq!(set(&controller, &id, &first).await.status, 200);
    let broken = EngineError::failed("change the egress policy", "no");
    controller.engine.plan(Fault { verb: Verb::SetEgress, call: 2, failure: Failure::Before(broken) });
    let failed = set(&controller, &id, &policy("allow", &[])).await;
    assert_eq!(failed.status, 500, "{}", failed.body);
    assert_eq!(failed.body["error"], "The egress policy could not be changed");
    assert_eq!(get(&controller, &id).await, first);

    // A change whose answer is lost is undone.
    let lost = EngineError::failed("change the egress policy", "its answer is lost");
    let call = controller.engine.calls(Verb::SetEgress) + 1;
    controller.engine.plan(Fault { verb: Verb::SetEgress, call, failure: Failure::After(lost) });
    let failed = set(&controller, &id, &policy("block", &["lost.test"])).await;
    assert_eq!(failed.status, 500, "{}", failed.body);
    assert_eq!(controller.engine.calls(Verb::SetEgress), call + 1);
    assert_eq!(get(&controller, &id).await, first);
    assert_eq!(on_host(&controller, &id).as_deref(), Some("allow example.com"));

    // The row is the intent: a controller that dies before the engine acts leaves it to the next one.
    controller.end().await;
    controller.sql("UPDATE computers SET egress_policy = 'block a.test'").await;
    assert_eq!(on_host(&controller, &id).as_deref(), Some("allow example.com"));
    controller.restart().await;
    controller.until_status(&id, "running").await;
    let restored = hotdesk::base::wait::until(std::time::Duration::from_secs(20), || async {
        (on_host(&controller, &id).as_deref() == Some("block a.test")).then_some(())
    });
    restored.await.expect("the stored policy");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_of_the_pool_gets_its_policy_before_anyone_reaches_it() {
    let size = PoolSizeSettings { wanted: 1, ..PoolSizeSettings::default() };
    let pool = PoolSettings { sizes: vec![size], max_memory_gb: 64, ..PoolSettings::default() };
    let controller = Simulation::boot_configured(Config { pool, ..Config::default() }).await;
    let workspace = controller.workspace("w").await;
    let filled = hotdesk::base::wait::until(std::time::Duration::from_secs(60), || async {
        let pooled = controller.store().await.pooled_machines().await.expect("the store");
        pooled.iter().find(|it| it.ready).map(|it| it.machine.to_string())
    });
    let pooled = filled.await.expect("a booted machine");
    let body =
        json!({"workspace_id": workspace, "name": "desk", "egress_policy": policy("allow", &["a.test"])});
    let id = id_of(&controller.create("/computers", body).await);
    assert_eq!(id, pooled, "it is that of the pool");
    assert_eq!(on_host(&controller, &id).as_deref(), Some("allow a.test"));
}
