//! `{{secret:NAME}}` in texts to type, by every route that types: the computer gets the value, and nothing
//! else does.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::routing::post;
use hotdesk::base::secret::Secret;
use hotdesk::domain::identity::access::Role;
use reqwest::Method;
use serde_json::{Value, json};

use super::put;
use crate::harness::browser::person;
use crate::harness::caller::{HttpAnswer, fetch_json};
use crate::harness::simulation::Simulation;
use crate::mcp::scene::Scene;
use crate::secrets::Canaries;

/// Requests that agents got: headers and bodies.
#[derive(Clone, Default)]
struct TypedRequests(Arc<Mutex<Vec<(HeaderMap, Value)>>>);

impl TypedRequests {
    /// Routes of an agent that records what it is to type.
    fn routes(&self) -> Router {
        let record = |action: &'static str, all: Self| {
            post(async move |request: Request| {
                let headers = request.headers().clone();
                let body = axum::body::to_bytes(request.into_body(), 4 << 20).await.expect("a body");
                let body = serde_json::from_slice(&body).expect("JSON");
                all.0.lock().expect("the list").push((headers, body));
                let result = json!({"success": true, "action": "type"});
                axum::Json(match action {
                    "type" => result,
                    _ => json!({"success": true, "results": [], "not_tried": 0, "took_ms": 1}),
                })
            })
        };
        Router::new()
            .route("/type", record("type", self.clone()))
            .route("/actions", record("actions", self.clone()))
    }

    /// Takes the requests since the last call.
    fn take(&self) -> Vec<(HeaderMap, Value)> {
        std::mem::take(&mut *self.0.lock().expect("the list"))
    }

    /// Takes the only request since the last call.
    fn one(&self) -> (HeaderMap, Value) {
        let mut all = self.take();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }
}

/// A controller with a computer, and secrets `USER` of the account and `PASSWORD` of the workspace.
struct TypingScene {
    controller: Simulation,
    typed: TypedRequests,
    home: String,
    computer: String,
}

impl TypingScene {
    async fn boot() -> Self {
        let typed = TypedRequests::default();
        let controller = Simulation::boot_with(typed.routes()).await;
        let home = controller.workspace("home").await;
        let computer = controller.computer(&home, "desk").await;
        put(&controller, controller.key(), "USER", json!({"value": "ada"})).await;
        let password = json!({"value": "pass{{secret:USER}}\n", "workspace_id": home});
        put(&controller, controller.key(), "PASSWORD", password).await;
        Self { controller, typed, home, computer }
    }

    /// The paths that reach the agent's route of this name.
    fn paths(&self, action: &str) -> [String; 3] {
        let id = &self.computer;
        [
            format!("/computers/{id}/{action}"),
            format!("/desktops/{id}/proxy/{action}"),
            format!("/desktops/{id}/proxy/{action}?screen=default"),
        ]
    }

    async fn send(&self, key: &str, path: &str, body: &Value) -> HttpAnswer {
        fetch_json(self.controller.request_with(key, Method::POST, path).json(body)).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_that_types_fills_secrets_in() {
    let scene = TypingScene::boot().await;
    let key = scene.controller.key();
    let text = "{{secret:USER}}\t{{secret:PASSWORD}}{{x}} {{{{secret:USER}}";
    let value = "ada\tpass{{secret:USER}}\n{{x}} {{secret:USER}}";
    for path in scene.paths("type") {
        let done = scene.send(key, &path, &json!({ "text": text })).await;
        assert_eq!(done.status, 200, "{path}: {}", done.body);
        assert_eq!(scene.typed.one().1, json!({"text": value, "confidential": true}), "{path}");
        // A text without secrets is not confidential.
        scene.send(key, &path, &json!({"text": "{{secret} {{{{secret:USER}}"})).await;
        assert_eq!(scene.typed.one().1, json!({"text": "{{secret} {{secret:USER}}"}), "{path}");
    }
    let list = json!([{"action": "click", "x": 1, "y": 2}, {"action": "type", "text": text},
        {"action": "type", "text": "plain"}]);
    for (path, body) in scene.paths("actions").into_iter().zip([
        json!({ "actions": list }),
        json!({ "actions": list }),
        list.clone(),
    ]) {
        let done = scene.send(key, &path, &body).await;
        assert_eq!(done.status, 200, "{path}: {}", done.body);
        let (_, received) = scene.typed.one();
        let typed = &received["actions"];
        assert_eq!(typed[1], json!({"action": "type", "text": value, "confidential": true}), "{path}");
        assert_eq!(typed[2], json!({"action": "type", "text": "plain"}), "{path}");
    }
    for path in scene.paths("actions") {
        for (format, tag) in [("anthropic", "action"), ("openai", "type")] {
            let body = json!({"format": format, "actions": [{ tag: "type", "text": text }]});
            let done = scene.send(key, &path, &body).await;
            assert_eq!(done.status, 200, "{path}: {}", done.body);
            let (_, received) = scene.typed.one();
            let typed = json!([{"action": "type", "text": value, "confidential": true}]);
            assert_eq!(received, json!({"actions": typed, "settle": {"screenshot": {}}}), "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_of_an_mcp_client_types_secrets_of_its_workspace() {
    let typed = TypedRequests::default();
    let scene = Scene::boot_with(typed.routes()).await;
    let body = json!({"value": "correct horse", "workspace_id": scene.home});
    put(&scene.controller, scene.controller.key(), "PASSWORD", body).await;
    put(&scene.controller, scene.controller.key(), "WIDE", json!({"value": "of the account"})).await;
    let call = |text: &str| scene.call("type", json!({"computer_id": scene.computer, "text": text}));
    let done = call("{{secret:PASSWORD}}").await;
    assert!(!done.to_string().contains("correct horse"), "{done}");
    assert_eq!(typed.one().1, json!({"text": "correct horse", "confidential": true}));
    let refused = call("{{secret:WIDE}}").await;
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(refused.to_string().contains("secret_not_found"), "{refused}");
    assert!(typed.take().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_typed_when_a_secret_cannot_be_used() {
    let scene = TypingScene::boot().await;
    let store = scene.controller.store().await;
    let operator = store.operator_account().await.expect("the operator");
    let scoped = scene.controller.key_of(operator, Some(&scene.home)).await;
    let accounts = [Role::Member, Role::Viewer].map(|role| (role, format!("{}@localhost", role.name())));
    let mut keys = Vec::new();
    for (role, email) in accounts {
        let account = person(&store, &email).await.id;
        store.set_member(scene.home.parse().expect("an id"), account, role).await.expect("a member");
        put(&scene.controller, &scene.controller.key_of(account, None).await, "OWN", json!({"value": "own"}))
            .await;
        keys.push(scene.controller.key_of(account, None).await);
    }
    let (member, viewer) = (keys[0].as_str(), keys[1].as_str());
    let owner = scene.controller.key();
    for (key, text, status, code) in [
        (owner, "a {{secret:NONE}}", 404, json!("secret_not_found")),
        (owner, "{{secret:USER}} {{secret:none}}", 400, Value::Null),
        (owner, "{{secret:USER", 400, Value::Null),
        (&*scoped, "{{secret:USER}}", 404, json!("secret_not_found")),
        (member, "{{secret:USER}}", 404, json!("secret_not_found")),
        // A member's own secrets are for its own computers.
        (member, "{{secret:OWN}}", 404, json!("secret_not_found")),
        (viewer, "{{secret:PASSWORD}}", 403, json!("workspace_read_only")),
    ] {
        let list =
            json!({"actions": [{"action": "type", "text": "first"}, {"action": "type", "text": text}]});
        let texts = scene.paths("type").map(|path| (path, json!({ "text": text })));
        let lists = scene.paths("actions").map(|path| (path, list.clone()));
        for (path, body) in texts.into_iter().chain(lists) {
            let refused = scene.send(key, &path, &body).await;
            assert_eq!((refused.status, &refused.body["code"]), (status, &code), "{path}: {}", refused.body);
        }
        assert!(scene.typed.take().is_empty(), "{text}");
    }
    for (key, text) in [(&*scoped, "{{secret:PASSWORD}}"), (member, "{{secret:PASSWORD}}")] {
        for path in scene.paths("type") {
            assert_eq!(scene.send(key, &path, &json!({ "text": text })).await.status, 200);
            assert_eq!(scene.typed.one().1["text"], "pass{{secret:USER}}\n");
        }
    }
    let pasted = json!({"text": "{{secret:USER}}", "mode": "paste"});
    for path in scene.paths("type") {
        let refused = scene.send(owner, &path, &pasted).await;
        assert_eq!(refused.status, 400, "{}", refused.body);
        assert!(refused.body["error"].as_str().is_some_and(|text| text.contains("clipboard")));
    }
    // Malformed requests are the agent's to refuse.
    let malformed = json!({"txt": "{{secret:USER}}"});
    assert_eq!(scene.send(owner, &scene.paths("type")[0], &malformed).await.status, 400);
    assert!(scene.typed.take().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_a_limited_number_of_bytes_of_secrets() {
    let scene = TypingScene::boot().await;
    let long = json!({"value": "x".repeat(64 * 1024)});
    put(&scene.controller, scene.controller.key(), "LONG", long).await;
    for (count, status) in [(16, 200), (17, 413)] {
        let actions: Vec<Value> =
            (0..count).map(|_| json!({"action": "type", "text": "{{secret:LONG}}"})).collect();
        let path = &scene.paths("actions")[0];
        let answer = scene.send(scene.controller.key(), path, &json!({ "actions": actions })).await;
        assert_eq!(answer.status, status, "{count}: {}", answer.body);
    }
    assert_eq!(scene.typed.take().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_is_compared_by_its_placeholders() {
    let scene = TypingScene::boot().await;
    let body = json!({"text": "{{secret:USER}}"});
    let digests = async |value: &str| {
        put(&scene.controller, scene.controller.key(), "USER", json!({ "value": value })).await;
        let mut digests = Vec::new();
        for path in scene.paths("type") {
            let request = scene.controller.request(Method::POST, &path).json(&body);
            let request =
                request.header("Idempotency-Key", "typed-once").header("x-hotdesk-request-digest", "mine");
            assert_eq!(fetch_json(request).await.status, 200);
            let (headers, received) = scene.typed.one();
            assert_eq!(
                (&received["text"], headers["idempotency-key"] == "typed-once"),
                (&json!(value), true)
            );
            digests.push(headers["x-hotdesk-request-digest"].to_str().expect("text").to_owned());
        }
        digests
    };
    let (first, second) = (digests("first").await, digests("second").await);
    assert_eq!(first, second);
    assert!(first.iter().all(|digest| digest.len() == 64), "{first:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typed_value_is_in_no_file_of_the_service() {
    let scene = TypingScene::boot().await;
    let mut secrets = Canaries::default();
    let value = secrets.record("a typed secret", Secret::random(24).reveal());
    put(&scene.controller, scene.controller.key(), "USER", json!({ "value": value })).await;
    for path in scene.paths("type") {
        let request = scene.controller.request(Method::POST, &path).json(&json!({"text": "{{secret:USER}}"}));
        let done = fetch_json(request.header("Idempotency-Key", "typed-canary")).await;
        assert!(done.status == 200 && !done.body.to_string().contains(&value), "{}", done.body);
        assert_eq!(scene.typed.one().1["text"], value.as_str());
    }
    let log = scene.controller.get("/audit?limit=500").await.body.to_string();
    assert!(log.contains("/computers/{id}/type") && secrets.find_in_text(&log).is_empty(), "{log}");
    assert_eq!(secrets.find_in_files(&scene.controller.data_dir()), []);
}
