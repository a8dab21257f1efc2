//! Requests that are both forbidden and invalid (A13, A16, A17, docs/authentication-rules.md).

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{Operation, Scene, is_account_only};
use crate::harness::agent::fetch_json;

/// Paths whose object is named by the body or the query, which therefore have to be valid first.
const NAMED_ELSEWHERE: [&str; 18] = [
    "/audit",
    "/billing/",
    "/chat/threads",
    "/computers",
    "/desktops/{id}/proxy/bash",
    "/files",
    "/keys",
    "/keys/{id}",
    "/secrets",
    "/stream/connections",
    "/templates/global",
    "/templates/run",
    "/templates/validate",
    "/threads",
    "/user/",
    "/v1/chat/completions",
    "/v1/models",
    "/workspaces",
];
/// Operations that a viewer may use with some values.
const OPEN_TO_VIEWERS: [&str; 2] = ["POST /computers/{id}/stream-tickets", "DELETE /workspaces/{id}/members"];

fn takes_json(operation: &Operation) -> bool {
    operation.definition["requestBody"]["content"]["application/json"].is_object()
}

/// The operations whose path alone decides about access.
fn decided_by_path(scene: &Scene) -> Vec<Operation> {
    let elsewhere = |path: &str| {
        NAMED_ELSEWHERE.iter().any(|it| path == *it || path.starts_with(it) && !path.contains("/{id}"))
    };
    scene.guarded_operations().into_iter().filter(|it| !elsewhere(&it.path)).collect()
}

/// A request whose body is cut off and whose query has every field twice.
fn invalid(scene: &Scene, operation: &Operation) -> RequestBuilder {
    let (mut request, _) = scene.request(operation);
    for parameter in operation.definition["parameters"].as_array().into_iter().flatten() {
        if let Some(name) = parameter["name"].as_str().filter(|_| parameter["in"] == "query") {
            request = request.query(&[(name, "\u{1}"), (name, "\u{1}")]);
        }
    }
    if takes_json(operation) { request.body("{") } else { request }
}

#[tokio::test(flavor = "multi_thread")]
async fn a13_a16_access_is_checked_before_the_request() {
    let scene = Scene::new().await;
    let (mut with_body, mut of_viewer) = (0, 0);
    for operation in decided_by_path(&scene) {
        let beyond = is_account_only(&operation);
        let name = operation.name();
        let answer = fetch_json(invalid(&scene, &operation).bearer_auth(&scene.scoped)).await;
        let code = json!("workspace_scope_mismatch");
        assert_eq!((answer.status, &answer.body["code"]), (403, &code), "{name}: {}", answer.body);
        if !beyond {
            let answer = fetch_json(invalid(&scene, &operation).bearer_auth(&scene.foreign)).await;
            let error = json!("Access denied");
            assert_eq!((answer.status, &answer.body["error"]), (403, &error), "{name}: {}", answer.body);
        }
        let answer = fetch_json(invalid(&scene, &operation)).await;
        assert_eq!(answer.status, 401, "{name}: {}", answer.body);
        let own = beyond || OPEN_TO_VIEWERS.contains(&&*name);
        if operation.method != Method::GET && !own {
            let answer = fetch_json(invalid(&scene, &operation).bearer_auth(&scene.viewer)).await;
            let code = json!("workspace_read_only");
            assert_eq!((answer.status, &answer.body["code"]), (403, &code), "{name}: {}", answer.body);
            of_viewer += 1;
        }
        if takes_json(&operation) {
            // The request is invalid indeed: its owner gets 400.
            let answer = fetch_json(invalid(&scene, &operation).bearer_auth(scene.controller.key())).await;
            assert_eq!(answer.status, 400, "{name}: {}", answer.body);
            with_body += 1;
        }
    }
    assert!(with_body > 35 && of_viewer > 50, "{with_body} with a body, {of_viewer} of a viewer");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_request_for_an_unknown_object_is_not_found() {
    let scene = Scene::new().await;
    let unknown = "00000000-0000-4000-8000-000000000000";
    for path in [format!("/computers/{unknown}/click"), "/computers/any/click".to_owned()] {
        let answer = fetch_json(scene.controller.request(Method::POST, &path).body("{")).await;
        assert_eq!((answer.status, &answer.body["error"]), (404, &Value::from("Desktop not found")));
    }
    let path = format!("/workspaces/{unknown}");
    let answer = fetch_json(scene.controller.request(Method::PATCH, &path).body("{")).await;
    assert_eq!((answer.status, &answer.body["error"]), (404, &Value::from("Workspace not found")));
}
