//! Access of keys to runs.

use reqwest::Method;
use serde_json::json;

use super::scene::Scene;
use crate::harness::agent::fetch_json;
use crate::harness::models::Turn;

#[tokio::test(flavor = "multi_thread")]
async fn a_scoped_key_runs_only_in_its_workspace() {
    let scene = Scene::new(vec![Turn::text("Hello.")]).await;
    let away = scene.controller.workspace("away").await;
    let operator = scene.controller.store().await.operator_account().await.expect("the operator");
    let ask = |key: String| {
        let request = scene.controller.request_with(&key, Method::POST, "/v1/chat/completions");
        fetch_json(request.json(&scene.body("go", json!({}))))
    };
    let refused = ask(scene.controller.key_of(operator, Some(&away)).await).await;
    let error = &refused.body["error"];
    assert_eq!(
        (refused.status, &error["code"]),
        (403, &json!("workspace_scope_mismatch")),
        "{}",
        refused.body
    );
    assert_eq!((&error["type"], &error["key_workspace_id"]), (&json!("permission_error"), &json!(away)));
    let (_, stranger) = scene.controller.account("other@localhost").await;
    let refused = ask(stranger).await;
    assert_eq!((refused.status, &refused.body["error"]["type"]), (403, &json!("permission_error")));
    assert!(scene.models.requests().is_empty());
    let own = ask(scene.controller.key_of(operator, Some(&scene.home)).await).await;
    assert_eq!(own.status, 200, "{}", own.body);
}
