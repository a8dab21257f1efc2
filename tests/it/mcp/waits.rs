//! Waits for builds of templates and for runs of models: their phases, bounds and ends.

use futures_util::future::join_all;
use hotdesk::base::wait;
use serde_json::{Value, json};

use super::scene::{Scene, stateless};
use super::streams::Messages;
use crate::events::source::TIMEOUT;
use crate::templates::build_timeout::endless_process;
use crate::templates::builds::{build_path, definition, publish, until_built};

const NAME: &str = "slow@1.0.0";

/// Arguments of a wait for the build.
fn wait_seconds(timeout: u32) -> Value {
    json!({"template_ref": format!("default/{NAME}"), "timeout": timeout})
}

/// A scene with a build that does not end.
async fn scene() -> Scene {
    let scene = Scene::boot_with(endless_process()).await;
    let document = definition(NAME, "build: {run: ['sleep 7200']}");
    let published = publish(&scene.controller, "?auto_build=true", document).await;
    assert_eq!(published.body["auto_build"], "building", "{}", published.body);
    scene
}

/// Begins a wait whose progress is reported.
async fn begin(scene: &Scene) -> Messages {
    let params = json!({"name": "wait_for_build", "arguments": wait_seconds(540)});
    let mut message = stateless("tools/call", &params);
    message["params"]["_meta"]["progressToken"] = json!("w");
    Messages::of(scene.key_message(&message).send().await.expect("an answer"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_build_tells_its_phase_and_its_end() {
    let scene = scene().await;
    // A connection to one workspace reaches no template of the account.
    for (tool, arguments) in
        [("wait_for_build", wait_seconds(0)), ("list_templates", json!({"source": "own"}))]
    {
        let refused = scene.call(tool, arguments).await;
        assert_eq!(refused["structuredContent"]["code"], "workspace_scope_mismatch", "{tool}: {refused}");
    }
    let now = scene.call_with_key("wait_for_build", wait_seconds(0)).await;
    let now = &now["structuredContent"];
    assert_eq!((&now["ended"], &now["status"]), (&json!(false), &json!("building")), "{now}");
    let mut waiting = begin(&scene).await;
    let mut last = 0.0;
    loop {
        let report = waiting.next().await;
        assert_eq!(report["method"], "notifications/progress", "{report}");
        let progress = report["params"]["progress"].as_f64().expect("a number");
        assert!(progress > last, "progress grows: {report}");
        last = progress;
        let text = report["params"]["message"].as_str().expect("a text");
        if text.contains("install") {
            assert!(text.starts_with("wait_for_build: "), "{text}");
            break;
        }
    }
    let cancelled = scene.controller.delete(&build_path(NAME)).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.body);
    let result = loop {
        let message = waiting.next().await;
        if message["method"].is_null() {
            break message["result"].clone();
        }
    };
    let build = &result["structuredContent"];
    assert_eq!((&result["isError"], &build["ended"]), (&json!(false), &json!(true)), "{result}");
    assert_eq!((&build["status"], &build["phase"]), (&json!("failed"), &Value::Null), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_are_bounded_and_end_with_their_clients() {
    let scene = scene().await;
    let long = scene.call_with_key("wait_for_build", wait_seconds(541)).await;
    assert!(long["structuredContent"]["error"].as_str().is_some_and(|text| text.contains("540")), "{long}");
    let waiting = join_all((0..8).map(|_| begin(&scene))).await;
    let refused = scene.call_with_key("wait_for_build", wait_seconds(0)).await;
    assert_eq!(refused["structuredContent"]["code"], "too_many_calls", "{refused}");
    assert_eq!(scene.call_with_key("list_computers", json!({})).await["isError"], false, "other calls go on");
    drop(waiting);
    let freed = wait::until(TIMEOUT, || async {
        let again = scene.call_with_key("wait_for_build", wait_seconds(0)).await;
        (again["isError"] == false).then_some(again)
    });
    let again = freed.await.expect("the waits of clients that have gone end");
    assert_eq!(again["structuredContent"]["status"], "building", "only the waits ended: {again}");
    scene.controller.delete(&build_path(NAME)).await;
    until_built(&scene.controller, NAME).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_run_returns_its_thread() {
    let scene = Scene::boot().await;
    let made = scene.controller.post("/chat/threads", json!({"desktopId": scene.computer})).await;
    let id = &made.body["remoteId"];
    let ended = scene.call("wait_for_run", json!({"thread_id": id})).await;
    let ended = &ended["structuredContent"];
    assert_eq!((&ended["ended"], &ended["thread"]["remoteId"]), (&json!(true), id), "{ended}");
    let unknown = scene.call("wait_for_run", json!({"thread_id": "thr_0"})).await;
    assert_eq!(unknown["isError"], true, "{unknown}");
}
