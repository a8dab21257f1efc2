//! Invalid action requests and their errors (docs/api/actions.md, docs/api/errors.md).

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::fetch_json;
use crate::harness::controller::RunningController;

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_and_nothing_is_done() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let id = id.as_str();
    assert_eq!(controller.act(id, "move", json!({"x": 7, "y": 9})).await.status, 200);
    let xy = |x: Value, y: Value| json!({"x": x, "y": y});
    let drag = |field: &str, value: Value| {
        let mut body = json!({"start_x": 1, "start_y": 1, "end_x": 2, "end_y": 2});
        body[field] = value;
        body
    };
    let mut cases: Vec<(&str, Value)> = vec![
        ("click", json!({"x": 1, "y": 1, "button": "none"})),
        ("click", json!({"x": 1, "y": 1, "button": 1})),
        ("click", json!({"x": 1, "y": 1, "double": "yes"})),
        ("click", json!({"x": 1, "y": 1, "unknown": 1})),
        ("drag", json!({"start_x": 1, "start_y": 1, "end_x": 2})),
        ("drag", drag("end_x", json!(1280))),
        ("drag", drag("start_y", json!(-1))),
        ("drag", drag("button", json!("wheel"))),
        ("drag", drag("duration", json!(-0.1))),
        ("drag", drag("duration", json!(31))),
        ("drag", drag("duration", json!("1"))),
        ("scroll", json!({"amount": 3})),
        ("scroll", json!({"direction": "sideways"})),
        ("scroll", json!({"direction": "down", "amount": -0.1})),
        ("scroll", json!({"direction": "down", "amount": -1})),
        ("scroll", json!({"direction": "down", "amount": 501})),
        ("scroll", json!({"direction": "down", "x": 1280, "y": 1})),
        ("type", json!({"text": 1})),
        ("type", json!({"text": null})),
        ("type", json!({"text": "a\u{1}b"})),
        ("key", json!({"key": ""})),
        ("key", json!({"key": "NoSuchKey"})),
        ("key", json!({"key": "hyper+x"})),
        ("key", json!({"key": "+".repeat(100_000)})),
        ("key", json!({"key": ["a"]})),
        ("wait", json!({"seconds": -1})),
        ("wait", json!({"seconds": 61})),
        ("wait", json!({"seconds": "1"})),
        ("bash", json!({"command": 1})),
        ("bash", json!({"command": "a\0b"})),
        ("bash", json!({"command": "true", "timeout": 0})),
        ("bash", json!({"command": "true", "timeout": -1})),
        ("bash", json!({"command": "true", "timeout": 301})),
        ("bash", json!({"command": "true", "timeout": "10"})),
        ("exec", json!({"code": 7})),
        ("exec", json!({"code": "1", "timeout": 0})),
        ("exec", json!({"code": "1", "timeout": 301})),
    ];
    for (x, y) in [(1280, 0), (0, 720), (-1, 0), (0, -1), (i64::MAX, 0), (i64::MIN, 0)] {
        cases.extend(["click", "move"].map(|action| (action, xy(json!(x), json!(y)))));
    }
    for bad in [json!("5"), json!(null), json!([5]), json!(true)] {
        cases.extend(["click", "move"].map(|action| (action, xy(bad.clone(), json!(5)))));
    }
    for (action, body) in cases {
        let refused = controller.act(id, action, body.clone()).await;
        let shown = body.to_string();
        let shown = shown.get(..shown.len().min(80)).unwrap_or_default();
        assert_eq!(refused.status, 400, "{action} {shown}: {}", refused.body);
        assert!(
            refused.body["error"].is_string() && refused.body["request_id"].is_string(),
            "{}",
            refused.body
        );
    }
    let actions = ["click", "move", "drag", "scroll", "type", "key", "wait", "bash", "exec"];
    let deep = format!("{{\"x\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000)).into_bytes();
    let huge = format!("{{\"text\":\"{}\"}}", "x".repeat(3 * 1024 * 1024)).into_bytes();
    let bodies: [(&[u8], u16, &str); 8] = [
        (b"", 400, "none"),
        (b"{", 400, "broken"),
        (b"[1,2]", 400, "array"),
        (b"\"x\"", 400, "string"),
        (
            b"{\"text\":\"\xff\",\"key\":\"\xff\",\"command\":\"\xff\",\"code\":\"\xff\"}",
            400,
            "invalid UTF-8",
        ),
        (b"{\"x\":1e999,\"y\":1}", 400, "a number beyond the range of f64"),
        (&deep, 400, "deep"),
        (&huge, 413, "huge"),
    ];
    for action in actions {
        for (body, status, what) in bodies {
            let request =
                controller.request(Method::POST, &format!("/computers/{id}/{action}")).body(body.to_vec());
            let refused = fetch_json(request).await;
            assert_eq!(refused.status, status, "{action} {what}: {}", refused.body);
            assert!(refused.body["error"].is_string(), "{action} {what}");
        }
        let path = format!("/computers/{id}/{action}");
        assert_eq!(controller.get(&path).await.status, 405, "{action}");
        assert_eq!(
            fetch_json(controller.bare(Method::POST, &format!("/api{path}"))).await.status,
            401,
            "{action}"
        );
        let everything = json!({"x": 1, "y": 1, "start_x": 1, "start_y": 1, "end_x": 1, "end_y": 1,
            "direction": "up", "text": "", "key": "a", "seconds": 0, "command": "", "code": ""});
        let unknown = controller.act(&uuid::Uuid::new_v4().to_string(), action, everything).await;
        assert_eq!((unknown.status, &unknown.body["error"]), (404, &json!("Desktop not found")), "{action}");
    }
    for (action, body) in [
        ("click", xy(json!(1), json!(1))),
        ("move", xy(json!(1), json!(1))),
        ("drag", drag("duration", json!(0))),
        ("scroll", json!({"direction": "up"})),
        ("type", json!({"text": "x"})),
        ("key", json!({"key": "a"})),
    ] {
        for screen in ["screen-100", "", "..", "%00", "default%20"] {
            let refused = controller.act(id, &format!("{action}?screen={screen}"), body.clone()).await;
            assert_eq!(refused.status, 404, "{action} on {screen:?}: {}", refused.body);
            assert_eq!(refused.body["upstream_status"], 404, "{}", refused.body);
        }
    }
    let place =
        controller.bash(id, "DISPLAY=:99 xdotool getmouselocation --shell | head -n2 | tr '\\n' ' '").await;
    assert_eq!(place, "X=7 Y=9 ", "a refused action must not move the pointer");
}
