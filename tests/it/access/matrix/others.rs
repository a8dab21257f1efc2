//! What do those get whose workspace it is not: a viewer, and a stranger? (access.md A16, A17)

use std::collections::BTreeMap;

use hotdesk::base::secret::Secret;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::{Operation, Scene};
use crate::harness::agent::answered;

#[tokio::test(flavor = "multi_thread")]
async fn a17_a_viewer_changes_nothing_and_gets_nothing_that_could() {
    let scene = Scene::set().await;
    let proxied = |method| Operation {
        method,
        path: "/desktops/{id}/proxy/click".to_owned(),
        said: json!({"parameters": []}),
    };
    let mut refused = 0;
    for operation in
        scene.guarded().into_iter().chain([Method::POST, Method::PUT, Method::DELETE].map(proxied))
    {
        let (request, targeted) = scene.request(&operation);
        let hands_out = operation.path.ends_with("/vnc-password");
        // Of the account's own, which are the viewer's to change: workspaces, and connections by name.
        let own = operation.path.contains("{name}");
        // To see a screen is what a viewer may; the sample asks for no more.
        let watching = operation.path.ends_with("/stream-tickets");
        if !targeted || own || watching || operation.method.is_safe() && !hands_out {
            continue;
        }
        let answer = answered(request.bearer_auth(&scene.viewer)).await;
        let name = format!("{}: {}", operation.name(), answer.body);
        assert_eq!((answer.status, &answer.body["code"]), (403, &json!("workspace_read_only")), "{name}");
        assert!(answer.body["error"].as_str().is_some_and(|text| text.contains("\"home\"")), "{name}");
        refused += 1;
    }
    assert!(refused > 55, "only {refused} operations change something");
    // It looks, and no record holds the password.
    let ask = |method, path: &str| scene.house.request_with(&scene.viewer, method, path);
    let shown = scene.house.get(&format!("/computers/{}", scene.computer)).await.body;
    let password = shown["vnc_password"].as_str().expect("the owner sees it");
    for path in [
        "/workspaces".to_owned(),
        "/computers".to_owned(),
        format!("/workspaces/{}", scene.home),
        format!("/workspaces/{}/members", scene.home),
        format!("/computers/{}", scene.computer),
        format!("/files?projectId={}", scene.home),
    ] {
        let seen = answered(ask(Method::GET, &path)).await;
        assert_eq!(seen.status, 200, "{path}: {}", seen.body);
        assert!(!seen.body.to_string().contains(password), "{path}: {}", seen.body);
    }
    // A ticket is for watching only.
    let tickets = format!("/computers/{}/stream-tickets", scene.computer);
    let acts = answered(ask(Method::POST, &tickets).json(&json!({"mode": "control"}))).await;
    assert_eq!((acts.status, &acts.body["code"]), (403, &json!("workspace_read_only")));
    let watches = answered(ask(Method::POST, &tickets).json(&json!({"mode": "view"}))).await;
    assert_eq!((watches.status, &watches.body["mode"]), (201, &json!("view")), "{}", watches.body);
    // And nothing of it happened.
    assert_eq!(scene.house.status(&scene.computer).await, "running");
    assert_eq!(scene.house.get(&format!("/workspaces/{}", scene.home)).await.body["name"], "home");
    let files = scene.house.get(&format!("/files?projectId={}", scene.home)).await.body;
    assert_eq!(files["files"].as_array().map(Vec::len), Some(1), "{files}");
}

/// What an answer's header says, without what differs from one answer to the next.
fn lasting(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in ["date", "x-request-id", "content-length", "ratelimit"] {
        if let Some(value) = headers.get_mut(name) {
            *value = HeaderValue::from_static("");
        }
    }
    headers
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_another_account_is_denied_and_learns_nothing() {
    let scene = Scene::set().await;
    let mut heads = BTreeMap::new();
    for operation in scene.guarded() {
        let (request, targeted) = scene.request(&operation);
        if !targeted {
            continue;
        }
        let answer = request.bearer_auth(&scene.foreign).send().await.expect("an answer");
        let (status, head) = (answer.status().as_u16(), lasting(answer.headers()));
        let body: Value = answer.json().await.expect("JSON");
        let name = format!("{}: {body}", operation.name());
        if operation.path.contains("{name}") {
            // Names are each account's own.
            let error = body["error"].as_str().unwrap_or_default();
            assert!(
                status == 404 && ["Workspace not found", "Connection not found"].contains(&error),
                "{name}"
            );
            continue;
        }
        assert_eq!((status, &body["error"]), (403, &json!("Access denied")), "{name}");
        heads.insert(operation.name(), head);
        let fields: Vec<&String> = body.as_object().expect("an object").keys().collect();
        // A clone's refusals have a code besides, whatever they are (interface.md "Clone"); so have those of its kin.
        let coded = ["/clone", "/fork", "/rollback", "/snapshots", "/snapshots/{snapshot_id}"];
        let coded = coded.iter().any(|end| operation.path.ends_with(end));
        let told: &[&str] = if coded { &["code", "error", "request_id"] } else { &["error", "request_id"] };
        assert_eq!(fields, told, "{name}");
    }
    for path in ["/workspaces", "/computers"] {
        let listed = answered(scene.house.request_with(&scene.foreign, Method::GET, path)).await;
        assert!(!listed.body.to_string().contains(&scene.home), "{path}: {}", listed.body);
    }
    let nobody = Secret::random(8).reveal().to_owned();
    for path in
        ["/computers/00000000-0000-4000-8000-000000000000".to_owned(), format!("/workspaces/{nobody}")]
    {
        assert_eq!(answered(scene.house.request_with(&scene.foreign, Method::GET, &path)).await.status, 404);
    }
    // Nor does a header tell more of what is another's than of what there is not.
    let nothing = || "00000000-0000-4000-8000-000000000000".to_owned();
    let scene = Scene { home: nothing(), computer: nothing(), file: nothing(), key: nothing(), ..scene };
    let mut compared = 0;
    for operation in scene.guarded() {
        let Some(head) = heads.get(&operation.name()) else { continue };
        let (request, _) = scene.request(&operation);
        let answer = request.bearer_auth(&scene.foreign).send().await.expect("an answer");
        if answer.status() == 404 {
            assert_eq!(lasting(answer.headers()), *head, "{}", operation.name());
            compared += 1;
        }
    }
    assert!(compared > 55, "only {compared} operations say that there is nothing");
}
