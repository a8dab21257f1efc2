//! Unknown fields of JSON bodies: refused by name, but for those that real clients send without effect
//! (docs/api/compatibility.md#fields-without-effect).

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_field_is_refused_by_its_name() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let computer = controller.computer(&home, "desk").await;
    let of_computer = |path: &str| format!("/computers/{computer}/{path}");
    let batch = |action: Value| json!({"actions": [action]});
    let cases = [
        (Method::POST, "/workspaces".to_owned(), json!({"name": "x", "colour": "red"}), "colour"),
        (Method::PATCH, format!("/computers/{computer}"), json!({"name": "x", "ram": 8}), "ram"),
        (Method::POST, of_computer("screens"), json!({"resolution": "800x600"}), "resolution"),
        (Method::POST, of_computer("click"), json!({"x": 1, "y": 1, "buton": "left"}), "buton"),
        (Method::POST, of_computer("click"), json!({"x": 1, "y": 1, "settle": {"quiet": 1}}), "quiet"),
        (Method::POST, of_computer("wait_stable"), json!({"quiet": 1}), "quiet"),
        (Method::POST, of_computer("actions"), batch(json!({"action": "key", "key": "a", "n": 2})), "n"),
        (Method::POST, of_computer("actions"), json!({"actions": [], "screen": "default"}), "screen"),
        (Method::POST, of_computer("bash"), json!({"command": "true", "time_out": 5}), "time_out"),
        (Method::PATCH, of_computer("resize"), json!({"vcpus": 2, "disk": 20}), "disk"),
        (Method::PUT, of_computer("clipboard"), json!({"text": "x", "form": "html"}), "form"),
        (Method::POST, of_computer("clone"), json!({"title": "x"}), "title"),
        (Method::POST, "/keys".to_owned(), json!({"name": "x", "scope": "account"}), "scope"),
    ];
    for (method, path, body, field) in cases {
        let answer = fetch_json(controller.request(method.clone(), &path).json(&body)).await;
        let error = answer.body["error"].as_str().unwrap_or_default();
        assert_eq!(answer.status, 400, "{method} {path}: {}", answer.body);
        assert!(error.contains(&format!("unknown field `{field}`")), "{method} {path}: {error}");
    }
    let name = &controller.get(&format!("/computers/{computer}")).await.body["name"];
    assert_eq!(name, "desk", "a refused request has no effect");
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_that_real_clients_send_without_effect_are_accepted() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let body = json!({"workspace_id": home, "name": "desk", "os": "linux", "gpu": "none", "bops_free": true});
    let computer = id_of(&controller.create("/computers", body).await);
    let resize = format!("/computers/{computer}/resize");
    let sent = json!({"vcpus": 2, "cpu": 16, "ram": 64});
    let resized = fetch_json(controller.request(Method::PATCH, &resize).json(&sent)).await;
    assert_eq!((resized.status, &resized.body["vcpus"]), (200, &json!(2)), "{}", resized.body);
    let alone = fetch_json(controller.request(Method::PATCH, &resize).json(&json!({"cpu": 16}))).await;
    assert_eq!(alone.status, 400, "{}", alone.body);
    let start =
        controller.bare(Method::POST, "/api/cli/auth/start").json(&json!({"client": "x", "app": "y"}));
    assert_eq!(fetch_json(start).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_numbers_are_integers_and_bounds_are_in_the_error() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let body = json!({"workspace_id": home, "name": "desk", "cpu": 1.0});
    let made = controller.request(Method::POST, "/computers").json(&body).send().await.expect("an answer");
    let text = made.text().await.expect("text");
    assert!(text.contains("\"cpu\":1,"), "{text}");
    let body = json!({"workspace_id": home, "name": "big", "disk_size_gb": 1e15});
    let refused = fetch_json(controller.request(Method::POST, "/computers").json(&body)).await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.body["error"], "disk_size_gb must be a whole number, 1 to 1000000");
}
