//! Programs, windows and the clipboard of a computer's screens through the controller.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::controller::{RunningController, skip_reason};

struct Desk<'a> {
    controller: &'a RunningController,
    id: &'a str,
}

impl Desk<'_> {
    async fn call(&self, method: Method, path: &str, body: Value) -> HttpAnswer {
        let path = format!("/computers/{}{path}", self.id);
        fetch_json(self.controller.request(method, &path).json(&body)).await
    }

    async fn ok(&self, method: Method, path: &str, body: Value) -> Value {
        let answer = self.call(method, path, body).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_windows_and_clipboards_are_those_of_the_screen_that_was_named() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let workspace = controller.workspace("demo").await;
    let created = controller.computer(&workspace, "one").await;
    let desk = Desk { controller: &controller, id: created["id"].as_str().expect("an id") };
    let added = desk.call(Method::POST, "/screens", json!({"width": 800, "height": 600})).await;
    assert_eq!(added.status, 201, "{}", added.body);

    // Without a shell, which would set its own title.
    let xterm =
        |title: &str| json!({"argv": ["xterm", "-T", title, "-e", "sleep", "1000"], "wait_seconds": 30});
    let first = desk.ok(Method::POST, "/launch", xterm("first")).await["window"].clone();
    let second = desk.ok(Method::POST, "/launch?screen=screen-100", xterm("second")).await["window"].clone();
    assert_eq!((&first["title"], &first["screen"]), (&json!("first"), &json!("default")));
    assert_eq!((&second["title"], &second["screen"]), (&json!("second"), &json!("screen-100")));
    let windows = desk.ok(Method::GET, "/windows?screen=screen-100", json!({})).await;
    assert_eq!(windows["windows"].as_array().map(Vec::len), Some(1), "{windows}");
    let path = format!("/windows/{}", second["id"].as_str().expect("an id"));
    let named = |verb: &str| format!("{path}{verb}?screen=screen-100");
    assert_eq!(desk.ok(Method::POST, &named("/maximize"), json!({})).await["maximized"], true);
    assert_eq!(desk.ok(Method::POST, &named("/minimize"), json!({})).await["minimized"], true);
    assert_eq!(desk.ok(Method::POST, &named("/restore"), json!({})).await["minimized"], false);
    assert_eq!(desk.ok(Method::POST, &named("/focus"), json!({})).await["focused"], true);
    let placed = desk.ok(Method::PATCH, &named(""), json!({"x": 40, "y": 50})).await;
    assert_eq!((&placed["x"], &placed["y"]), (&json!(40), &json!(50)));
    // On the boot screen, this id belongs to another window or to none.
    let elsewhere = desk.call(Method::POST, &format!("{path}/focus"), json!({})).await;
    assert!(elsewhere.status == 404 || elsewhere.body["title"] != "second", "{}", elsewhere.body);
    assert_eq!(desk.ok(Method::POST, &named("/close"), json!({})).await, json!({"closed": true}));

    let text = "grüße € 😀\n".repeat(10_000);
    desk.ok(Method::PUT, "/clipboard", json!({"text": text})).await;
    desk.ok(Method::PUT, "/clipboard?screen=screen-100", json!({"text": "other"})).await;
    let seen = desk.ok(Method::GET, "/clipboard", json!({})).await;
    assert!(seen["text"] == json!(text), "the clipboard's text changed");
    let pasted = controller.bash(desk.id, "DISPLAY=:100 xclip -o -selection clipboard").await;
    assert_eq!(pasted, "other");
    let image = json!({"image": "iVBORw0KGgoA", "mime_type": "image/png"});
    desk.ok(Method::PUT, "/clipboard?selection=primary", image).await;
    let seen = desk.ok(Method::GET, "/clipboard?selection=primary", json!({})).await;
    assert_eq!((&seen["mime_type"], &seen["image"]), (&json!("image/png"), &json!("iVBORw0KGgoA")));

    let page = json!({"url": "file:///etc/hosts", "wait_seconds": 60});
    let opened = desk.call(Method::POST, "/launch", page).await;
    if controller.bash(desk.id, "command -v chromium x-www-browser | head -n1").await.is_empty() {
        assert_eq!((opened.status, &opened.body["code"]), (409, &json!("no_browser")), "{}", opened.body);
    } else {
        assert_eq!(opened.status, 200, "{}", opened.body);
        let window = &opened.body["window"];
        assert_eq!(
            (&window["screen"], &window["class"]),
            (&json!("default"), &json!("Chromium")),
            "{}",
            opened.body
        );
        // The browser runs already: the new process passes the page to it, and the running one opens the
        // window.
        let page = json!({"url": "file:///etc/passwd", "wait_seconds": 60});
        let again = desk.ok(Method::POST, "/launch", page).await["window"].clone();
        assert!(again["id"].is_string() && again["id"] != window["id"], "{again}");
        let path = format!("/windows/{}/close", again["id"].as_str().expect("an id"));
        assert_eq!(desk.ok(Method::POST, &path, json!({})).await, json!({"closed": true}));
    }
    for (path, body, status) in [
        ("/launch", json!({"argv": ["no-such-program"]}), 400),
        ("/launch", json!({"argv": ["true"], "wait_seconds": 1e300}), 400),
        ("/windows/0x1/close", json!({}), 404),
        ("/windows/..%2f..%2fhealth/focus", json!({}), 404),
    ] {
        let answer = desk.call(Method::POST, path, body).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
    }
}
