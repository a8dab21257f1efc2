//! MCP tools: the same effects as their REST routes, within one workspace and with bounded results. A66
//! (docs/authentication-rules.md).

mod access;
mod computers;
mod desktop;
mod log;
mod workspaces;

use axum::Router;
use axum::extract::Request;
use axum::routing::{delete, get, post};
use serde_json::{Value, json};

use crate::harness::picture::PNG_HEADER;

/// An agent whose routes return the request that they got.
pub fn agent() -> Router {
    let echo = |action: &'static str| {
        post(async move |request: Request| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.expect("a body");
            let received: Value = serde_json::from_slice(&body).expect("JSON");
            axum::Json(
                json!({"success": true, "action": action, "details": {"received": received, "query": query}}),
            )
        })
    };
    let bash = post(async |axum::Json(received): axum::Json<Value>| {
        let output = match received["command"].as_str() {
            Some("long") => "ab\n".repeat(100_000),
            other => format!("{}\n", other.unwrap_or_default()),
        };
        axum::Json(
            json!({"success": true, "action": "bash", "command": "", "output": output, "exit_code": 3}),
        )
    });
    let screenshot = get(async |request: Request| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let marks = [
            ("x-hotdesk-frame", "f-1"),
            ("x-hotdesk-screen", "default"),
            ("x-hotdesk-scale", "1"),
            ("x-hotdesk-width", "1280"),
            ("x-hotdesk-height", "720"),
        ];
        let image = match query.contains("screen=large") {
            true => vec![0_u8; 700_000],
            false => query.into_bytes(),
        };
        (marks, [PNG_HEADER, &image].concat())
    });
    let element = json!({"id": "e1", "role": "button", "name": "OK", "x": 1, "y": 2, "width": 3, "height": 4,
        "states": [], "actions": ["click"], "window": "w", "app": "a", "pid": 7});
    let list = json!({"elements": [element], "truncated": false, "nodes_seen": 1, "took_ms": 2, "screen": "default"});
    let mut marked = list.clone();
    for (name, value) in [("image", json!("AAAA")), ("mime_type", json!("image/jpeg"))] {
        marked[name] = value;
    }
    (marked["width"], marked["height"]) = (json!(640), json!(360));
    let entry = json!({"name": "a", "type": "file", "size": 8, "mode": "0644",
        "modified_at": "2026-01-01T00:00:00Z"});
    let folder = json!({"path": "/root/Desktop", "entries": [entry]});
    let mut stat = entry;
    stat["path"] = json!("/root/Desktop/a");
    let written = json!({"path": "/root/a", "size": 1, "sha256": "00", "outcome": "created"});
    let acted = |action: &'static str| {
        let done = json!({"success": true, "action": action, "element": element});
        post(async move || axum::Json(done))
    };
    Router::new()
        .route("/elements", get(async move || axum::Json(list)))
        .route("/elements/marked", get(async move || axum::Json(marked)))
        .route("/elements/e1/click", acted("click"))
        .route("/elements/e1/set_value", acted("set_value"))
        .route("/elements/e1/focus", acted("focus"))
        .route("/files/content", get(async || "exported").put(async move || axum::Json(written)))
        .route("/screens/{id}", delete(async || axum::Json(json!({"success": true}))))
        .route("/files/list", get(async move || axum::Json(folder)))
        .route("/files/stat", get(async move || axum::Json(stat)))
        .route("/click", echo("click"))
        .route("/move", echo("move"))
        .route("/drag", echo("drag"))
        .route("/scroll", echo("scroll"))
        .route("/wait", echo("wait"))
        .route("/type", echo("type"))
        .route("/key", echo("key_press"))
        .route("/bash", bash)
        .route("/screenshot", screenshot)
}
