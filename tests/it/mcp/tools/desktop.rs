//! Tools that see a screen and act on it.

use serde_json::{Value, json};

use super::agent;
use crate::harness::picture::PNG_HEADER;
use crate::mcp::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn tools_say_what_they_are_and_do_it() {
    let scene = Scene::boot_with(agent()).await;
    let listed = scene.message("tools/list", json!({})).send().await.unwrap().text().await.unwrap();
    // The Python client reads at most 1 MiB at once.
    assert!(listed.len() < 512 * 1024, "{} bytes", listed.len());
    let listed: Value = serde_json::from_str(&listed).unwrap();
    for tool in listed["result"]["tools"].as_array().expect("tools") {
        let hints = &tool["annotations"];
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(hints[hint].is_boolean(), "{hint} of {tool}");
        }
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(tool["description"].as_str().is_some_and(|text| text.len() > 20), "{tool}");
        for (name, field) in tool["inputSchema"]["properties"].as_object().expect("fields") {
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(name.bytes().all(is_plain), "{name}");
            assert!(field["description"].is_string(), "{name}: {field}");
        }
    }
    let id = &scene.computer;
    let done = scene
        .call("click", json!({"computer_id": id, "x": 3, "y": 4.5, "frame": "f-1", "screen": "s"}))
        .await;
    assert_eq!(done["isError"], false);
    let received = &done["structuredContent"]["details"];
    assert_eq!(
        received,
        &json!({"received": {"x": 3.0, "y": 4.5, "frame": "f-1"}, "query": "screen=s"}),
        "{done}"
    );
    assert_eq!(
        serde_json::from_str::<Value>(done["content"][0]["text"].as_str().unwrap()).unwrap(),
        done["structuredContent"]
    );
    let typed = scene.call("type", json!({"computer_id": id, "text": "hi"})).await;
    assert_eq!(typed["structuredContent"]["details"]["received"], json!({"text": "hi"}));
    let pressed = scene.call("key", json!({"computer_id": id, "key": "ctrl+c", "repeat": 2})).await;
    assert_eq!(pressed["structuredContent"]["details"]["received"], json!({"key": "ctrl+c", "repeat": 2}));
    let ran = scene.call("bash", json!({"computer_id": id, "command": "echo"})).await;
    assert_eq!(
        ran["structuredContent"],
        json!({"success": true, "exit_code": 3, "output": "echo\n", "omitted_bytes": 0, "timeout": false})
    );
    let seen = scene.call("screenshot", json!({"computer_id": id, "region": "0,0,9,9"})).await;
    let shown = json!({"width": 1280, "height": 720, "mime_type": "image/png", "frame": "f-1", "scale": 1, "screen": "default"});
    assert_eq!((&seen["structuredContent"], &seen["content"][1]["type"]), (&shown, &json!("image")));
    let image = base64::Engine::decode(
        &base64::engine::general_purpose::STANDARD,
        seen["content"][1]["data"].as_str().unwrap(),
    );
    let query = String::from_utf8_lossy(&image.unwrap()[PNG_HEADER.len()..]).into_owned();
    assert!(
        query.contains("format=jpeg") && query.contains("max_bytes=700000") && query.contains("region="),
        "{query}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pointer_moves_drags_and_scrolls_and_a_wait_ends() {
    let scene = Scene::boot_with(agent()).await;
    for (tool, body) in [
        ("move", json!({"x": 3.0, "y": 4.0, "frame": "f-1"})),
        ("drag", json!({"start_x": 1.0, "start_y": 2.0, "end_x": 3.0, "end_y": 4.0, "duration": 0.25})),
        ("scroll", json!({"direction": "down", "amount": 2.0, "x": 5.0, "y": 6.0})),
        ("wait", json!({"seconds": 0.5})),
    ] {
        let mut arguments = body.clone();
        arguments["computer_id"] = json!(scene.computer);
        let done = scene.call(tool, arguments).await;
        assert_eq!(done["structuredContent"]["details"]["received"], body, "{tool}: {done}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_are_listed_marked_and_used() {
    let scene = Scene::boot_with(agent()).await;
    let with = |more: Value| {
        let mut arguments = more;
        arguments["computer_id"] = json!(scene.computer);
        arguments
    };
    let listed = scene.call("list_elements", with(json!({"role": "button"}))).await;
    assert_eq!(listed["structuredContent"]["elements"][0]["id"], "e1", "{listed}");
    let marked = scene.call("marked_screenshot", with(json!({"scale": 0.5}))).await;
    assert_eq!(marked["structuredContent"]["width"], 640, "{marked}");
    assert_eq!(
        (&marked["content"][1]["type"], &marked["content"][1]["data"]),
        (&json!("image"), &json!("AAAA"))
    );
    for (tool, action, more) in [
        ("click_element", "click", json!({"element_id": "e1", "button": "right"})),
        ("set_element_value", "set_value", json!({"element_id": "e1", "value": "x"})),
        ("focus_element", "focus", json!({"element_id": "e1"})),
    ] {
        let done = scene.call(tool, with(more)).await;
        assert_eq!(done["structuredContent"]["action"], action, "{tool}: {done}");
    }
    assert_eq!(scene.call("list_elements", with(json!({"max_nodes": 501}))).await["isError"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tool_answers_is_bounded() {
    let scene = Scene::boot_with(agent()).await;
    let ran = scene.call("bash", json!({"computer_id": scene.computer, "command": "long"})).await;
    let ran = &ran["structuredContent"];
    let output = ran["output"].as_str().expect("text");
    assert!(
        output.len() < 66_000 && output.starts_with("ab\n") && output.ends_with("ab\n"),
        "{}",
        output.len()
    );
    assert_eq!(ran["omitted_bytes"], 300_000 - 64 * 1024);
    let large = scene.call("screenshot", json!({"computer_id": scene.computer, "screen": "large"})).await;
    assert_eq!(
        (&large["isError"], large["content"].as_array().map(Vec::len)),
        (&json!(true), Some(1)),
        "{large}"
    );
}
