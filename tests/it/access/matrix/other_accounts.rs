//! Access by viewers and by other accounts (A16, A17, docs/authentication-rules.md).

use std::collections::BTreeMap;

use hotdesk::base::secret::Secret;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::super::cast::PASSWORD;
use super::{Operation, Scene, error_fields};
use crate::harness::agent::fetch_json;
use crate::harness::browser::Browser;

#[tokio::test(flavor = "multi_thread")]
async fn a17_a_viewer_changes_nothing_and_gets_nothing_that_could() {
    let scene = Scene::new().await;
    let proxied = |method| Operation {
        method,
        path: "/desktops/{id}/proxy/click".to_owned(),
        definition: json!({"parameters": []}),
    };
    let mut refused = 0;
    for operation in
        scene.guarded_operations().into_iter().chain([Method::POST, Method::PUT, Method::DELETE].map(proxied))
    {
        let (request, targeted) = scene.request(&operation);
        let hands_out = ["/vnc-password", "/ssh/host-keys"].iter().any(|end| operation.path.ends_with(end));
        // A program may change anything at any request.
        let hands_out =
            hands_out || operation.path.ends_with("/tcp/{port}") || operation.path.contains("/ports/");
        // Workspaces, named connections and SSH keys belong to the viewer's own account, which it may change.
        let own = ["{name}", "{ssh_key_id}"].iter().any(|part| operation.path.contains(part));
        // A viewer may watch a screen, and the sample asks for a view ticket only.
        let watching = ["/stream-tickets", "/sign-in-links"].iter().any(|end| operation.path.ends_with(end));
        if !targeted || own || watching || operation.method.is_safe() && !hands_out {
            continue;
        }
        let answer = fetch_json(request.bearer_auth(&scene.viewer)).await;
        let name = format!("{}: {}", operation.name(), answer.body);
        let body = error_fields(&answer.body);
        assert_eq!((answer.status, &body["code"]), (403, &json!("workspace_read_only")), "{name}");
        assert!(body["error"].as_str().is_some_and(|text| text.contains("\"home\"")), "{name}");
        refused += 1;
    }
    assert!(refused > 55, "only {refused} operations were refused");
    // A viewer can read, and no record contains the password.
    let ask = |method, path: &str| scene.controller.request_with(&scene.viewer, method, path);
    let shown = scene.controller.get(&format!("/computers/{}", scene.computer)).await.body;
    let password = shown["vnc_password"].as_str().expect("the owner sees it");
    for path in [
        "/workspaces".to_owned(),
        "/computers".to_owned(),
        format!("/workspaces/{}", scene.home),
        format!("/workspaces/{}/members", scene.home),
        format!("/computers/{}", scene.computer),
        format!("/files?projectId={}", scene.home),
    ] {
        let observed = fetch_json(ask(Method::GET, &path)).await;
        assert_eq!(observed.status, 200, "{path}: {}", observed.body);
        assert!(!observed.body.to_string().contains(password), "{path}: {}", observed.body);
    }
    // A viewer gets tickets for watching only.
    let tickets = format!("/computers/{}/stream-tickets", scene.computer);
    let acts = fetch_json(ask(Method::POST, &tickets).json(&json!({"mode": "control"}))).await;
    assert_eq!((acts.status, &acts.body["code"]), (403, &json!("workspace_read_only")));
    let watches = fetch_json(ask(Method::POST, &tickets).json(&json!({"mode": "view"}))).await;
    assert_eq!((watches.status, &watches.body["mode"]), (201, &json!("view")), "{}", watches.body);
    // The refused requests have no effect.
    assert_eq!(scene.controller.status(&scene.computer).await, "running");
    assert_eq!(scene.controller.get(&format!("/workspaces/{}", scene.home)).await.body["name"], "home");
    let files = scene.controller.get(&format!("/files?projectId={}", scene.home)).await.body;
    assert_eq!(files["files"].as_array().map(Vec::len), Some(1), "{files}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_computers_are_for_members_unless_the_workspace_lets_viewers_read_them() {
    let scene = Scene::new().await;
    let proxied = Operation {
        method: Method::GET,
        path: "/desktops/{id}/proxy/files/list".to_owned(),
        definition: json!({"parameters": []}),
    };
    let reads: Vec<Operation> = scene
        .guarded_operations()
        .into_iter()
        .filter(|it| it.method == Method::GET && it.path.starts_with("/computers/{id}/files"))
        .chain([proxied])
        .collect();
    assert!(reads.len() >= 6, "only {} operations read files", reads.len());
    let ask =
        async |operation: &Operation| fetch_json(scene.request(operation).0.bearer_auth(&scene.viewer)).await;
    for operation in &reads {
        let answer = ask(operation).await;
        let text = answer.body["error"].as_str().unwrap_or_default().to_owned();
        assert!(answer.status == 403 && text.contains("viewers_read_files"), "{}: {text}", operation.name());
    }
    let path = format!("/workspaces/{}", scene.home);
    let own = json!({"viewers_read_files": true});
    let changed = fetch_json(scene.controller.request_with(&scene.viewer, Method::PATCH, &path).json(&own));
    assert_eq!(changed.await.status, 403, "a viewer cannot let itself in");
    let changed = scene.controller.patch(&path, own).await;
    assert_eq!(
        (changed.status, &changed.body["viewers_read_files"]),
        (200, &json!(true)),
        "{}",
        changed.body
    );
    for operation in &reads {
        let answer = ask(operation).await;
        assert_ne!(answer.status, 403, "{}: {}", operation.name(), answer.body);
    }
}

/// Response headers without the values that differ between answers.
fn stable_headers(headers: &HeaderMap) -> HeaderMap {
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
    let scene = Scene::new().await;
    let mut heads = BTreeMap::new();
    for operation in scene.guarded_operations() {
        let (request, targeted) = scene.request(&operation);
        if !targeted {
            continue;
        }
        let answer = request.bearer_auth(&scene.foreign).send().await.expect("an answer");
        let (status, head) = (answer.status().as_u16(), stable_headers(answer.headers()));
        let body = error_fields(&answer.json::<Value>().await.expect("JSON"));
        let name = format!("{}: {body}", operation.name());
        if operation.path.contains("{name}") && !operation.path.starts_with("/secrets") {
            // Names are local to each account. Those of secrets are in the workspace of the request.
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
        // Errors of clone, fork, rollback and snapshots always have a code (docs/lifecycle.md#clone), and so have those of
        // chat completions.
        let coded = [
            "/clone",
            "/fork",
            "/rollback",
            "/snapshots",
            "/snapshots/{snapshot_id}",
            "/snapshots/{snapshot_id}/picture",
            "/chat/completions",
        ];
        let coded = coded.iter().any(|end| operation.path.ends_with(end));
        let expected: &[&str] =
            if coded { &["code", "error", "request_id"] } else { &["error", "request_id"] };
        assert_eq!(fields, expected, "{name}");
    }
    for path in ["/workspaces", "/computers"] {
        let listed = fetch_json(scene.controller.request_with(&scene.foreign, Method::GET, path)).await;
        assert!(!listed.body.to_string().contains(&scene.home), "{path}: {}", listed.body);
    }
    let missing = Secret::random(8).reveal().to_owned();
    for path in
        ["/computers/00000000-0000-4000-8000-000000000000".to_owned(), format!("/workspaces/{missing}")]
    {
        assert_eq!(
            fetch_json(scene.controller.request_with(&scene.foreign, Method::GET, &path)).await.status,
            404
        );
    }
    // The headers do not reveal whether a resource of another account exists.
    let missing_id = || "00000000-0000-4000-8000-000000000000".to_owned();
    let scene = Scene {
        home: missing_id(),
        computer: missing_id(),
        file: missing_id(),
        key: missing_id(),
        ssh_key: missing_id(),
        ..scene
    };
    let mut compared = 0;
    for operation in scene.guarded_operations() {
        let Some(head) = heads.get(&operation.name()) else { continue };
        let (request, _) = scene.request(&operation);
        let answer = request.bearer_auth(&scene.foreign).send().await.expect("an answer");
        if answer.status() == 404 {
            assert_eq!(stable_headers(answer.headers()), *head, "{}", operation.name());
            compared += 1;
        }
    }
    assert!(compared > 55, "only {compared} operations answered 404");
}

#[tokio::test(flavor = "multi_thread")]
async fn a91_a_token_of_the_console_reaches_no_more_than_a_key_of_its_person() {
    let scene = Scene::new().await;
    let mut browser = Browser::new(&scene.controller.base);
    let entered = browser.send("/sign-in", &[("email", "other@localhost"), ("password", PASSWORD)]).await;
    browser.adopt_session(&entered).await;
    let token = browser.console_token().await;
    let mut refused = 0;
    for operation in scene.guarded_operations() {
        let (request, targeted) = scene.request(&operation);
        // Only a key makes sign-in links.
        if !targeted || operation.path.ends_with("/sign-in-links") {
            continue;
        }
        let by_token = fetch_json(request.bearer_auth(&token)).await;
        let by_key = fetch_json(scene.request(&operation).0.bearer_auth(&scene.foreign)).await;
        let error = |body: &Value| error_fields(body)["error"].clone();
        let name = format!("{}: {}", operation.name(), by_token.body);
        assert_eq!((by_token.status, error(&by_token.body)), (by_key.status, error(&by_key.body)), "{name}");
        assert!([403, 404].contains(&by_token.status), "{name}");
        refused += 1;
    }
    assert!(refused > 55, "only {refused} operations were refused");
}
